"""What lies beside rasters is found by listing each folder once, however many rasters are asked for."""

from unittest.mock import Mock

from tiling import sidecars
from tiling.sidecars import Sidecars


def test_the_names_of_a_folder_are_looked_through_once(tmp_path, monkeypatch):
    pattern = Mock(wraps=sidecars._OF_PRODUCT)
    monkeypatch.setattr(sidecars, "_OF_PRODUCT", pattern)
    rasters = [tmp_path / f"{number}.tif" for number in range(9)]
    for path in (*rasters, tmp_path / "Summary.txt", tmp_path / "4.tif.MSK"):
        path.write_bytes(b"")
    beside = Sidecars()
    assert [beside.rasters("scene", path) for path in rasters].count([]) == 8
    assert beside.rasters("scene", rasters[4]) == [tmp_path / "4.tif.MSK"]
    assert pattern.fullmatch.call_count == 11


def test_a_folder_that_cannot_be_listed_has_no_products(tmp_path, monkeypatch):
    monkeypatch.setattr(sidecars.os, "listdir", lambda folder: (_ for _ in ()).throw(OSError))
    (tmp_path / "a.tif.msk").write_bytes(b"")
    beside = Sidecars()
    assert beside.rasters("scene", tmp_path / "a.tif") == [tmp_path / "a.tif.msk"]
    assert beside.rasters("scene", tmp_path / "b.tif") == []

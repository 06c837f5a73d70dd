"""GeoPackages lie where they are asked for, whatever the path is called."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyogrio
import pytest
import shapely

from workflows.report.formats import geopackage

SCHEMA = pa.schema([("pair", pa.string()), (geopackage.GEOMETRY, pa.binary())])


def write(path) -> None:
    square = shapely.to_wkb(shapely.MultiPolygon([shapely.box(0, 0, 1, 1)]))
    batch = pa.RecordBatch.from_pylist([{"pair": "a", geopackage.GEOMETRY: square}], SCHEMA)
    layers = [geopackage.Layer(name, SCHEMA, [batch], name, "<qgis/>") for name in ("changes", "pairs")]
    geopackage.write_geopackage(path, layers, crs="EPSG:4326", record={})


@pytest.mark.slow
@pytest.mark.parametrize("name", ["plain", "Alert!", "!x", "a!/b!c", "a\nb", "what?", "50%", "a b;c", "s3:"])
@pytest.mark.parametrize("is_relative", [False, True])
def test_any_folder_can_hold_one(tmp_path, monkeypatch, name, is_relative):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "same.gpkg")
    folder = Path(name) if is_relative else tmp_path / name
    folder.mkdir(parents=True)
    write(folder / "changes.gpkg")
    assert [path.name for path in folder.iterdir()] == ["changes.gpkg"]
    assert (folder / "changes.gpkg").read_bytes() == (tmp_path / "same.gpkg").read_bytes()
    layers = pyogrio.list_layers(tmp_path / "same.gpkg")
    assert layers[:, 0].tolist() == ["changes", "pairs", "layer_styles"]


def test_threads_that_write_leave_no_option_behind(tmp_path):
    names = ("OGR_CURRENT_DATE", "OGR_SQLITE_SYNCHRONOUS")
    pyogrio.set_gdal_config_options({names[1]: "NORMAL"})
    try:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda number: write(tmp_path / f"{number}.gpkg"), range(8)))
        assert [pyogrio.get_gdal_config_option(name) for name in names] == [None, "NORMAL"]
    finally:
        pyogrio.set_gdal_config_options({names[1]: None})
    assert len({path.read_bytes() for path in tmp_path.glob("*.gpkg")}) == 1

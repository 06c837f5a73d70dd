"""The change probability as a file: to the last bit what was given, and nothing else is taken for one."""

from __future__ import annotations

import json
import math
import shutil
import subprocess

import numpy as np
import pytest
import rasterio
from rasters import north_up

from tiling import (
    Band,
    Frame,
    Grid,
    ProbabilityNotWritable,
    SceneDamaged,
    TilingError,
    Window,
    open_probability,
    write_probability,
)

ABOUT = {"started": "2026-01-01T00:00:00+00:00", "inputs": {"before": {"path": "caf\u00e9 \x07\u202e.tif"}}}
AREA = Window(10, 20, 700, 600)


def frame(width=900, height=800):
    grid = Grid(
        rasterio.CRS.from_epsg(32633), north_up(500_000.3, 5_600_000.7, 0.4999), width, height, 0.4999, (7, 9)
    )
    return Frame(grid, Window(30, 40, 100, 200))


def field():
    """Values of every size, a hole without data, and rows without any."""
    values = np.random.default_rng(3).random((AREA.height, AREA.width), np.float32)
    valid = np.ones_like(values, bool)
    valid[100:130, 200:260] = valid[500:540] = False
    return np.where(valid, values, np.float32(0)), valid


def bands(values, valid, rows=77):
    for row in range(0, len(values), rows):
        part = slice(row, row + rows)
        yield Band(AREA.row_off + row, values[part], valid[part], AREA.col_off)


def kept(path, about=ABOUT, values=None):
    made, valid = field()
    with write_probability(path, frame(), AREA, about, "rscc 1.2.3") as add:
        for band in bands(made if values is None else values, valid):
            add(band)
    return path


def test_what_is_read_is_what_was_written(tmp_path):
    values, valid = field()
    with open_probability(kept(tmp_path / "change.tif")) as raster:
        assert (raster.frame, raster.area, raster.about) == (frame(), AREA, ABOUT)
        read = list(raster.bands())
    assert [band.row_off for band in read] == [20, 20 + 512] and {band.col_off for band in read} == {10}
    assert np.array_equal(np.concatenate([band.probability for band in read]), values)
    assert np.array_equal(np.concatenate([band.valid for band in read]), valid)
    assert [file.name for file in tmp_path.iterdir()] == ["change.tif"]


@pytest.mark.skipif(shutil.which("gdalinfo") is None, reason="the system has no GDAL (gdal-bin)")
def test_others_find_a_cloud_optimized_geotiff_where_it_lies(tmp_path):
    path = kept(tmp_path / "change.tif")
    said = json.loads(
        subprocess.run(["gdalinfo", "-json", path], capture_output=True, text=True, check=True).stdout
    )
    (band,) = said["bands"]
    assert said["metadata"]["IMAGE_STRUCTURE"]["LAYOUT"] == "COG"
    assert (band["type"], band["block"]) == ("Float32", [512, 512])
    assert band["description"] == "probability of change"
    assert band["noDataValue"] == "NaN" or math.isnan(band["noDataValue"])
    assert band["overviews"], "for a look from afar"
    assert said["metadata"][""]["TIFFTAG_SOFTWARE"] == "rscc 1.2.3"
    assert json.loads(said["metadata"][""]["RSCC"]) == ABOUT
    west, north = said["cornerCoordinates"]["upperLeft"]
    assert (west, north) == pytest.approx((500_000.3 + 10 * 0.4999, 5_600_000.7 - 20 * 0.4999), abs=1e-3)
    assert 'ID["EPSG",32633]' in said["coordinateSystem"]["wkt"]


def test_an_error_leaves_nothing(tmp_path):
    with (
        pytest.raises(ZeroDivisionError),
        write_probability(tmp_path / "a.tif", frame(), AREA, ABOUT, "rscc") as add,
    ):
        add(next(bands(*field())))
        _ = 1 / 0
    with pytest.raises(ProbabilityNotWritable, match=r"nowhere.b\.tif: cannot be written"):
        kept(tmp_path / "nowhere" / "b.tif")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("tag", "changed"),
    [
        ("RSCC", None), ("RSCC", "[1]"), ("RSCC", "{"), ("RSCC_GRID", None), ("RSCC_GRID", "[" * 5000),
        ("RSCC_GRID", {"area": [0, 0, 700, 600]}), ("RSCC_GRID", {"area": [10, 20, 700, 601]}),
        ("RSCC_GRID", {"width": 50}), ("RSCC_GRID", {"focus": [0, 0, 901, 1]}),
        ("RSCC_GRID", {"focus": [0, 0, 0, 5]}), ("RSCC_GRID", {"gsd": 0}), ("RSCC_GRID", {"gsd": "far"}),
        ("RSCC_GRID", {"gsd": 1e999}), ("RSCC_GRID", {"transform": [1, 2]}), ("RSCC_GRID", {"anchor": 1}),
        ("RSCC_GRID", {"transform": [0.4999, 0, 500_001, 0, -0.4999, 5_600_000.7]}),
        ("RSCC_GRID", {"transform": [math.nan, 0, 500_000.3, 0, -0.4999, 5_600_000.7]}),
    ],
)  # fmt: skip
def test_what_was_not_written_so_is_refused(tmp_path, tag, changed):
    path = kept(tmp_path / "change.tif")
    with rasterio.open(path, "r+", IGNORE_COG_LAYOUT_BREAK="YES") as file:
        tags = file.tags()
        if isinstance(changed, dict):
            changed = json.dumps({**json.loads(tags[tag]), **changed})
        file.update_tags(**{tag: changed or ""})
    wanted = pytest.raises(SceneDamaged, match=r"change\.tif: this is no change probability")
    with wanted, open_probability(path):
        pass


def test_values_that_are_no_probabilities_are_refused(tmp_path):
    path = kept(tmp_path / "change.tif", values=field()[0] + np.float32(0.5))
    with open_probability(path) as raster, pytest.raises(SceneDamaged, match="no probabilities"):
        list(raster.bands())


def test_other_files_are_refused(tmp_path):
    (tmp_path / "text.tif").write_text("no raster")
    for name in ("text.tif", "missing.tif", "https://example.org/change.tif", "/vsicurl/http://a/b.tif"):
        with pytest.raises(TilingError), open_probability(name if "/" in name else tmp_path / name):
            pass

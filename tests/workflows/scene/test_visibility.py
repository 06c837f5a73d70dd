"""Ground that cloud, shadow, haze or missing data hides is not judged, and the report says so."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import rasterio
from captioners import BrightnessCaptioner, ClearingCaptioner, FactCaptioner, captioned
from scene_pairs import make_pair
from shapely.geometry import shape

from rscc.visibility.cells import CELL
from tiling import NothingValid, Window, geodesic_area_m2
from workflows.errors import MapsUnusable
from workflows.scene.maps import read_maps
from workflows.scene.pixels import enlarged
from workflows.scene.visibility import survey
from workflows.scene.visibility.layer import CellGrid

CLOUD, SHADOW, HAZE = 2, 3, 4
HOUSES = [(30, 20, 20, 30, 240), (30, 140, 20, 30, 240)]


class BrightVeils:
    """Takes cells for hidden where a date is brighter than 235, as far as ``reach`` cells around."""

    def __init__(self, value=CLOUD, least=235.0):
        self.value, self.least = value, least

    def layers(self, before, after):
        hidden = [np.where(255 * date[0] >= self.least, self.value, 0) for date in (before, after)]
        return np.concatenate([hidden, np.zeros((8, *before.shape[1:]))]).astype(np.uint8)


def seeing(model, veils=None):
    """Return a model that finds bright ground hidden."""
    model.veils = veils or BrightVeils()
    return model


def found(report):
    """The captions of a report, and what it says of the ground that was not judged."""
    return [change.caption for change in report.changes], report.run["not_judged"]


def test_what_a_cloud_hides_is_no_change_and_the_rest_stays(tmp_path):
    cloud = (8, 112, 134, 90, 240)  # over the second house
    pair = make_pair(tmp_path, [HOUSES[0], cloud])
    veils = BrightVeils()
    veils.layers = lambda before, after: _hidden_from(before, column=14)
    report = captioned(pair, seeing(BrightnessCaptioner(), veils))
    captions, hidden = found(report)
    assert captions == ["brightness 240 appears"]
    assert hidden["by"]["cloud"] == hidden["area_m2"] > 0 and hidden["by"]["haze"] == 0
    assert hidden["share"] == pytest.approx((210 - 112) / 210, abs=0.02)
    outline = shape(hidden["outline"])
    assert geodesic_area_m2(outline) == pytest.approx(hidden["area_m2"], rel=0.05)
    assert "were under cloud" in report.run["summary"]["text"]


def _hidden_from(cells, column):
    layers = np.zeros((10, *cells.shape[1:]), np.uint8)
    layers[1, :, column:] = CLOUD
    return layers


def test_no_change_says_how_much_was_looked_at(tmp_path):
    pair = make_pair(tmp_path, [(0, 104, 150, 106, 240)])
    report = captioned(pair, seeing(BrightnessCaptioner()))
    assert report.changes == []
    assert report.run["summary"]["text"].startswith("No change was found in ")
    assert report.run["not_judged"]["share"] == pytest.approx(106 / 210, abs=0.01)


def test_a_scene_that_is_hidden_everywhere_is_a_report_and_no_error(tmp_path):
    pair = make_pair(tmp_path, [(0, 0, 150, 210, 240)])
    report = captioned(pair, seeing(FactCaptioner(), BrightVeils(HAZE)))
    assert report.changes == [] and report.run["not_judged"]["share"] == 1
    assert "under haze" in report.run["summary"]["text"]
    with pytest.raises(NothingValid):
        captioned(make_pair(tmp_path, [], nodata_rows=150))


def test_ground_without_data_counts_as_fill(tmp_path):
    report = captioned(make_pair(tmp_path, HOUSES[:1], nodata_rows=16), BrightnessCaptioner())
    hidden = report.run["not_judged"]
    assert hidden["by"]["fill"] == hidden["area_m2"] > 0
    assert hidden["share"] == pytest.approx(16 / 150, abs=0.01)
    assert geodesic_area_m2(shape(hidden["outline"])) == pytest.approx(hidden["area_m2"], rel=0.05)
    assert "were without data" in report.run["summary"]["text"]


@pytest.mark.slow
def test_no_clearing_is_found_where_it_cannot_be_seen(tmp_path):
    pair = make_pair(tmp_path, [(16, 16, 112, 176, 160)])
    assert len(captioned(pair, ClearingCaptioner()).changes) == 1
    assert captioned(pair, seeing(ClearingCaptioner(), BrightVeils(least=140))).changes == []


def test_the_layer_is_a_geotiff_on_the_scenes_and_is_read_by_window(tmp_path):
    pair = make_pair(tmp_path, [(8, 104, 134, 96, 240)])
    folder = tmp_path / "maps"
    captioned(pair, seeing(BrightnessCaptioner()), keep_maps=folder)
    with rasterio.open(folder / "visibility.tif") as file, rasterio.open(pair.after) as scene:
        assert set(file.dtypes) == {"uint8"} and file.crs == scene.crs
        assert file.res == (CELL * scene.res[0], CELL * scene.res[1])
        assert file.descriptions[:2] == ("before", "after")
    maps = read_maps(folder)
    before, after = maps.seen.classes(Window(90, 40, 60, 20))
    maps.close()
    assert not before.any()
    np.testing.assert_array_equal(after[0], np.where(np.arange(90, 150) >= 104, CLOUD, 0))


@pytest.mark.parametrize("wrong", ["classes", "size"])
def test_a_layer_of_strangers_is_refused(tmp_path, wrong):
    pair, folder = make_pair(tmp_path, HOUSES), tmp_path / "maps"
    captioned(pair, keep_maps=folder)
    with rasterio.open(folder / "visibility.tif") as file:
        profile, values = file.profile, file.read()
    if wrong == "classes":
        values[0] = 9
    else:
        profile["width"] //= 2
        values = values[:, :, : profile["width"]]
    del profile["blockxsize"], profile["blockysize"], profile["tiled"]
    with rasterio.open(folder / "visibility.tif", "w", **profile) as file:
        file.write(values)
    maps = read_maps(folder)
    with pytest.raises(MapsUnusable, match="visibility"):
        maps.seen.classes(Window(0, 0, 32, 32))
    maps.close()


@pytest.mark.slow
def test_strips_and_boxes_have_the_layer_of_the_whole(tmp_path, monkeypatch):
    """What is found in a cell depends on its surroundings alone."""

    class Blurred(BrightVeils):
        def layers(self, before, after):
            near = np.stack([np.roll(after, step, axis=1) for step in range(-8, 9)]).max(axis=0)
            return super().layers(before, near)

    pair = make_pair(tmp_path, [(row, 40, 24, 64, 250) for row in (64, 264, 464)], size=(640, 210))
    model, folders = seeing(BrightnessCaptioner(), Blurred()), [tmp_path / name for name in "ab"]
    captioned(pair, model, keep_maps=folders[0])
    monkeypatch.setattr(survey, "STRIP", 16)
    monkeypatch.setattr(survey, "MARGIN", 12)
    captioned(pair, model, keep_maps=folders[1])
    layers = []
    for folder in folders:
        with rasterio.open(folder / "visibility.tif") as file:
            layers.append(file.read()[:, 12:-12])  # np.roll wraps at the ends
    assert layers[0].any()
    np.testing.assert_array_equal(*layers)


@pytest.mark.parametrize("anchor", [(0, 0), (5, 37), (31, 4)])
def test_cells_cover_an_area_and_lie_on_the_ground(anchor):
    area = Window(70, 3, 500, 210)
    cells = CellGrid.over(area, anchor)
    whole = cells.pixels(Window(0, 0, cells.columns, cells.rows))
    assert whole.intersection(area) == area
    assert (cells.col_off + anchor[0]) % 32 == (cells.row_off + anchor[1]) % 32 == 0
    inner = Window(100, 60, 40, 24)
    assert cells.pixels(cells.cells(inner)).intersection(inner) == inner
    assert dataclasses.astuple(CellGrid.over(Window(70, 3, 100, 100), anchor))[:2] == (
        cells.col_off,
        cells.row_off,
    )


@pytest.mark.slow
def test_a_tile_that_is_larger_than_the_scene_is_cleared_of_haze_too(tmp_path):
    veils = BrightVeils()
    veils.layers = lambda before, after: np.stack(
        [np.full(before.shape[1:], value, np.uint8) for value in (0, 0, 0, 120, 0, 0, 0, 235, 235, 235)]
    )
    pair = make_pair(tmp_path, HOUSES[:1])
    small, large = (captioned(pair, seeing(BrightnessCaptioner(tile_size=side), veils)) for side in (64, 512))
    assert small.area_m2 == pytest.approx(large.area_m2, rel=0.01) and small.area_m2 > 0
    (warning,) = small.run["warnings"]
    assert warning.startswith(f"{pair.after}: ") and "haze" in warning and "100%" in warning


def test_values_of_cells_lie_in_the_middle_of_their_pixels():
    cells = np.array([[0.0, 0, 8, 8, 8]])
    pixels = enlarged(cells, (8, 40))
    assert np.allclose(pixels, enlarged(cells[:, ::-1], (8, 40))[:, ::-1])
    assert (
        (pixels[:, :12] == 0).all()
        and (pixels[:, 20:] == 8).all()
        and np.allclose(pixels[0, 15:17], [3.5, 4.5])
    )

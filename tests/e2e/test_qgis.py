"""A report opens in a real QGIS with its colours and captions."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from fakes import BrightnessCaptioner
from qgis_check import draw, qgis_is_there
from rasterio.errors import NotGeoreferencedWarning
from scene_pairs import make_pair

from workflows import ChangeReport, SceneOptions, caption_scene
from workflows.report.qgis import CLASSES, FILL_ALPHA

pytestmark = [
    pytest.mark.qgis,
    pytest.mark.skipif(not qgis_is_there(), reason="the system has no QGIS for Python (python3-qgis)"),
]


@pytest.fixture(autouse=True)
def _a_picture_has_no_place():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        yield


def on_white(colour):
    alpha = FILL_ALPHA / 255
    return np.array([255 * (1 - alpha) + value * alpha for value in colour])


def test_polygons_are_coloured_by_probability_and_labelled(tmp_path):
    # The fake's probability is the difference of brightness / 100, so one polygon falls into each class.
    pair = make_pair(tmp_path, [(10, 10, 30, 50, 158), (60, 80, 30, 50, 170), (110, 140, 30, 50, 240)])
    report = caption_scene(pair.before, pair.after, BrightnessCaptioner(), SceneOptions(group_distance=0))
    path = report.write(tmp_path / "r.geojson")
    layer, image = draw(path, tmp_path / "r.png")
    assert layer["valid"] and layer["style_loaded"], layer["message"]
    assert layer["style"] == str(tmp_path / "r.qml")
    assert layer["features"] == 3
    assert layer["crs"] in ("EPSG:4326", "OGC:CRS84")
    assert layer["renderer"] == "graduatedSymbol" and layer["classified_by"] == "change_probability"
    assert layer["labels"] and layer["label"] == "caption"
    assert layer["wrapped_after"] > 0 and layer["buffered"]
    assert {"caption", "alternatives", "score", "area_m2", "date_before", "model"} <= set(layer["fields"])
    for (x, y), (_, colour) in zip(layer["points"], CLASSES, strict=True):
        # Off the middle, where the label stands.
        around = image[int(y) - 60 : int(y) + 60, int(x) - 60 : int(x) + 60].reshape(-1, 3)
        near = np.abs(around - on_white(colour)).max(1) <= 3
        assert near.mean() > 0.3, colour
        dark = around.max(1) < 110
        assert 0.002 < dark.mean() < 0.3, "no label is drawn"


def test_nothing_is_coloured_where_nothing_changed(tmp_path):
    pair = make_pair(tmp_path, [(10, 10, 20, 20, 240), (120, 180, 20, 20, 240)])
    report = caption_scene(pair.before, pair.after, BrightnessCaptioner(), SceneOptions(group_distance=0))
    _, image = draw(report.write(tmp_path / "r.geojson"), tmp_path / "r.png")
    height, width = image.shape[:2]
    middle = image[height * 2 // 5 : height * 3 // 5, width * 2 // 5 : width * 3 // 5]
    assert (middle == 255).all()
    assert (image < 250).any(2).mean() > 0.005


def test_an_empty_report_opens(tmp_path):
    layer, _ = draw(ChangeReport([], {}).write(tmp_path / "r.geojson"), tmp_path / "r.png")
    assert layer["valid"]
    assert layer["features"] == 0

"""The GeoPackage of an archive opens in a real QGIS with the styles that lie in it."""

from __future__ import annotations

import numpy as np
import pytest
import shapely
from archive_rows import change, failed_row, install, ledger_row, report, square_of
from qgis_check import QGIS, draw

from workflows.layers.layers import write_layers
from workflows.report.qgis import COLOURS, FILL_ALPHA, STATES
from workflows.store.folder import ArchiveFolder

pytestmark = QGIS
PLACES = (12.0, 12.002, 12.004)
SEEN = ("building", "road", "trees")
COLOUR_OF_EACH = [COLOURS[kind] for kind in ("building", "road", "vegetation")]


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """Three changes, each of another kind, of two pairs; one pair failed."""
    folder = ArchiveFolder(tmp_path_factory.mktemp("qgis") / "archive")
    folder.create()
    shown = [
        change(number, geometry=square_of(west, 41.9, 9_000), came=(name,), direction="appeared")
        for number, (west, name) in enumerate(zip(PLACES, SEEN, strict=True), start=1)
    ]
    boxes = [shapely.to_wkb(shapely.box(west, 41.9, west + 0.003, 41.903)) for west in (12, 12.004, 12.008)]
    rows = [
        ledger_row("a", footprint=boxes[0]),
        ledger_row("b", footprint=boxes[1]),
        failed_row("c", footprint=boxes[2]),
    ]
    install(folder, rows[0], report(*shown[:2]))
    install(folder, rows[1], report(*shown[2:]))
    write_layers(folder, lambda: rows)
    return folder


def on_white(colour, alpha):
    return np.array([255 * (1 - alpha / 255) + value * alpha / 255 for value in colour])


def around(image, point, half=20):
    x, y = map(int, point)
    return image[y - half : y + half, x - half : x + half].reshape(-1, 3)


def test_changes_have_their_colours_and_captions(archive, tmp_path):
    layer, image = draw(f"{archive.geopackage}|layername=changes", tmp_path / "changes.png")
    assert layer["valid"] and layer["style_loaded"], layer["message"]
    assert layer["features"] == 3
    assert layer["crs"] == "EPSG:4326"
    assert layer["renderer"] == "categorizedSymbol" and layer["labels"]
    assert [said["labels"][0] for said in layer["said"]] == [f"house {n} appears" for n in (1, 2, 3)]
    assert {"pair", "site", "caption", "alternatives", "area_m2", "date_after"} <= set(layer["fields"])
    for point, colour in zip(layer["points"], COLOUR_OF_EACH, strict=True):
        near = np.abs(around(image, point, 60) - on_white(colour, FILL_ALPHA)).max(1) <= 3
        assert near.mean() > 0.3, colour


def test_pairs_have_the_colours_of_their_states(archive, tmp_path):
    layer, image = draw(f"{archive.geopackage}|layername=pairs", tmp_path / "pairs.png")
    assert layer["valid"] and layer["style_loaded"], layer["message"]
    assert layer["features"] == 3
    assert (layer["renderer"], layer["classified_by"]) == ("categorizedSymbol", "state")
    colours = dict(STATES)
    for point, state in zip(layer["points"], ("done", "done", "failed"), strict=True):
        near = np.abs(around(image, point) - on_white(colours[state], 25)).max(1) <= 3
        assert near.mean() > 0.9, state

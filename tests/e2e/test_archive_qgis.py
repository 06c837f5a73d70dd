"""The GeoPackage of an archive opens in a real QGIS with the styles that lie in it."""

import numpy as np
import pytest
import shapely
from archive_rows import change, failed_state, install, new_claim, pair_state, report, square_of
from qgis_runs import QGIS, draw, on_ground

from workflows.archive.layers.layers import write_layers
from workflows.report.qgis import pairs_style

pytestmark = QGIS
PLACES = (12.0, 12.002, 12.004)
SEEN = ("building", "road", "trees")
CATEGORIES = ["appeared"] * 3


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """Three changes, each of another kind, of two pairs; one pair failed."""
    claim = new_claim(tmp_path_factory.mktemp("qgis") / "archive")
    shown = [
        change(number, geometry=square_of(west, 41.9, 9_000), came=(name,), direction="appeared")
        for number, (west, name) in enumerate(zip(PLACES, SEEN, strict=True), start=1)
    ]
    boxes = [shapely.to_wkb(shapely.box(west, 41.9, west + 0.003, 41.903)) for west in (12, 12.004, 12.008)]
    rows = [
        pair_state("a", footprint=boxes[0]),
        pair_state("b", footprint=boxes[1]),
        failed_state("c", footprint=boxes[2]),
    ]
    install(claim, rows[0], report(*shown[:2]))
    install(claim, rows[1], report(*shown[2:]))
    write_layers(claim, lambda: rows)
    return claim.folder


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
    for point, category in zip(layer["points"], CATEGORIES, strict=True):
        near = np.abs(around(image, point, 60) - on_ground(category)).max(1) <= 3
        assert near.mean() > 0.3, category


def test_pairs_have_the_colours_of_their_states(archive, tmp_path):
    layer, image = draw(f"{archive.geopackage}|layername=pairs", tmp_path / "pairs.png")
    assert layer["valid"] and layer["style_loaded"], layer["message"]
    assert layer["features"] == 3
    assert (layer["renderer"], layer["classified_by"]) == ("categorizedSymbol", "state")
    for point, state in zip(layer["points"], ("done", "done", "failed"), strict=True):
        near = np.abs(around(image, point) - on_ground(state, style=pairs_style())).max(1) <= 3
        assert near.mean() > 0.9, state

"""Changes of a report name the areas of context layers that they overlap."""

from __future__ import annotations

import json

import geopandas
import pytest
from captioners import FactCaptioner, kept
from scene_pairs import make_pair
from shapely.geometry import box

from workflows import SceneOptions
from workflows.errors import ContextInvalid
from workflows.scene.remake import remake


def parcels(folder):
    area = box(499_000, 5_599_000, 501_000, 5_601_000)
    frame = geopandas.GeoDataFrame({"permit_id": ["P-1"], "name": ["Reserve X"]}, geometry=[area], crs=32633)
    frame.to_file(folder / "parcels.gpkg")
    return f"{folder / 'parcels.gpkg'}:permit_id"


def test_a_report_names_the_areas_of_its_changes(tmp_path, rscc_command):
    pair = make_pair(tmp_path, [(60, 60, 30, 30, 230)])
    out, layer = tmp_path / "out.geojson", parcels(tmp_path)
    code, _, err = rscc_command("caption", pair.before, pair.after, "-o", out, "--context", layer)
    assert code == 0, err
    features = json.loads(out.read_text())["features"]
    assert features
    for feature in features:
        assert feature["properties"]["context"] == ["parcels P-1 Reserve X (100 %)"]
        assert feature["properties"]["caption"].endswith("inside Reserve X")
    no = tmp_path / "no.geojson"
    code, _, err = rscc_command("caption", pair.before, pair.after, "-o", no, "--context", "none.gpkg:a")
    assert (code, no.exists()) == (2, False) and "none.gpkg" in err


@pytest.mark.slow
def test_changes_that_are_made_again_name_their_areas_again(tmp_path):
    layer = parcels(tmp_path)
    report, _ = kept(
        make_pair(tmp_path, [(60, 60, 30, 30, 230)]), tmp_path, FactCaptioner(), context=(layer,)
    )
    again = remake(report, SceneOptions(threshold=0.7, context=(layer,)))
    assert again.changes[0].context == report.changes[0].context != ()
    assert again.changes[0].caption.endswith("inside Reserve X") and again.run["remade"]["warnings"] == []
    without = remake(report, SceneOptions(threshold=0.7))
    assert without.changes[0].context == () and "--context" in without.run["remade"]["warnings"][0]
    with pytest.raises(ContextInvalid, match="none"):
        remake(report, SceneOptions(threshold=0.7, context=("none.gpkg:a",)))


def test_context_without_new_settings_is_refused(tmp_path, rscc_command):
    code, _, err = rscc_command("convert", "in.geojson", tmp_path / "out.geojson", "--context", "a.gpkg:b")
    assert code == 2 and "--context" in err

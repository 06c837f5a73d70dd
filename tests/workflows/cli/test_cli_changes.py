"""``rscc caption --changes`` on the command line: files, layers, and one line for what is wrong."""

import json

import geopandas
import pytest
from scene_pairs import make_pair
from shapely.geometry import Point, box

SPOTS = [(30, 30, 20, 20, 250), (100, 30, 20, 20, 240)]


@pytest.fixture
def pair(tmp_path):
    return make_pair(tmp_path, SPOTS)


@pytest.mark.slow
def test_polygons_are_described_and_the_report_made_in_other_formats(rscc_command, pair, tmp_path):
    found, given = tmp_path / "found.gpkg", tmp_path / "given.geojson"
    code, _, err = rscc_command("caption", pair.before, pair.after, "-o", found, "--group-distance", "0")
    assert code == 0, err
    layer = f"{found}|layername=outlines"
    code, out, err = rscc_command(
        "caption", pair.before, pair.after, "--changes", layer, "-o", given, "--json", "--no-ground"
    )
    assert code == 0, err
    facts = json.loads(out)
    assert facts["changes"] == 2 and facts["run"]["given"]["layer"] == "outlines"
    features = json.loads(given.read_text(encoding="utf-8"))["features"]
    assert {feature["properties"]["change"] for feature in features} == {1, 2}
    for name in ("page.html", "again.parquet", "again.gpkg"):
        code, _, err = rscc_command("convert", given, tmp_path / name)
        assert code == 0, err
    code, out, err = rscc_command("explain", given, "--id", "1", "--json")
    assert code == 0 and json.loads(out)["source_id"] == features[0]["properties"]["source_id"], err


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("missing.gpkg", None),
        ("notes.txt", b"these are no changes"),
        ("points.geojson", geopandas.GeoSeries([Point(15, 50)], crs=4326).to_json().encode()),
        ("elsewhere.geojson", geopandas.GeoSeries([box(0, 0, 1, 1)], crs=4326).to_json().encode()),
        ("cut.geojson", b'{"type": "FeatureCollection", "features": [{'),
        ("deep.json", b'{"features": ' + b"[" * 99_999),
        ("shape.shp", b"\x00\x00\x27\x0a" + bytes(96)),
        ("mask.tif", b"II*\0" + bytes(100)),
    ],
)
def test_a_wrong_file_is_one_line_that_names_it(rscc_command, pair, tmp_path, name, content):
    path, target = tmp_path / name, tmp_path / "r.geojson"
    if content is not None:
        path.write_bytes(content)
    code, out, err = rscc_command("caption", pair.before, pair.after, "--changes", path, "-o", target)
    assert code == 2 and out == "" and err.startswith("rscc: ") and err.count("\n") == 1
    assert name in err and "unexpected" not in err and not target.exists()


def test_the_given_file_is_never_replaced(rscc_command, pair, tmp_path):
    path = tmp_path / "given.geojson"
    path.write_text(geopandas.GeoSeries([box(15, 50, 16, 51)], crs=4326).to_json(), encoding="utf-8")
    before = path.read_bytes()
    words = ("caption", pair.before, pair.after, "--changes", path, "-o", path, "--overwrite")
    code, _, err = rscc_command(*words)
    assert code == 2 and path.name in err and path.read_bytes() == before

"""Several outputs of one run, formats of other programs, and which changes are reported."""

import csv

import geopandas
import pytest
import shapely
from captioners import FactCaptioner
from report_checks import load_valid
from scene_pairs import SPOTS, make_pair
from shapely.geometry import box

from workflows.report.change import PROPERTIES
from workflows.report.reading import open_report


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return make_pair(tmp_path_factory.mktemp("pair"), SPOTS, size=(260, 210))


@pytest.mark.slow
def test_one_run_writes_all_outputs_named(rscc_command, pair, tmp_path):
    names = ("r.geojson", "r.csv", "r.gpkg", "r.html", "s.shp", "r.kml")
    outputs = [part for name in names for part in ("-o", tmp_path / name)]
    code, _, _ = rscc_command("caption", pair.before, pair.after, "--group-distance", "0", *outputs)
    assert code == 0
    assert {path.name for path in tmp_path.iterdir()} == {
        *names,
        "r.qml",
        "s.qml",
        "s.shx",
        "s.dbf",
        "s.prj",
        "s.cpg",
    }
    changes = load_valid(tmp_path / "r.geojson")["features"]
    with (tmp_path / "r.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["caption"] for row in rows] == [one["properties"]["caption"] for one in changes]
    assert list(rows[0]) == [*PROPERTIES, "longitude", "latitude", "wkt"]
    for row, feature in zip(rows, changes, strict=True):
        outline = shapely.from_wkt(row["wkt"])
        assert outline.equals_exact(shapely.geometry.shape(feature["geometry"]), 1e-6)
        assert outline.contains(shapely.Point(float(row["longitude"]), float(row["latitude"])))
    for name in ("s.shp", "r.kml"):
        table = geopandas.read_file(tmp_path / name)
        assert len(table) == len(changes)
        assert table.crs.to_epsg() == 4326
    assert list(geopandas.read_file(tmp_path / "s.shp")["caption"]) == [row["caption"] for row in rows]
    assert all(len(name) <= 10 for name in geopandas.read_file(tmp_path / "s.shp").columns)


def test_a_cell_is_no_formula(tmp_path, rscc_command, pair):
    rscc_command("caption", pair.before, pair.after, "-o", tmp_path / "r.geojson")
    text = (tmp_path / "r.geojson").read_text(encoding="utf-8")
    caption = open_report(tmp_path / "r.geojson").changes[0].caption
    (tmp_path / "r.geojson").write_text(text.replace(caption, "=1+1"), encoding="utf-8")
    assert rscc_command("convert", tmp_path / "r.geojson", tmp_path / "r.csv")[0] == 0
    with (tmp_path / "r.csv").open(newline="", encoding="utf-8") as file:
        assert next(csv.DictReader(file))["caption"] == "'=1+1"


@pytest.mark.slow
@pytest.mark.parametrize("command", ["caption", "convert"])
def test_only_some_changes_are_reported(rscc_command, pair, tmp_path, command):
    """The fake captioner says of every change that a road came."""

    def kept(*options):
        if command == "caption":
            given = (pair.before, pair.after, "--group-distance", "0", "-o")
        else:
            given = (tmp_path / "all.geojson",)
        code, _, _ = rscc_command(
            command, *given, tmp_path / "r.geojson", "--overwrite", *options, captioner=FactCaptioner()
        )
        assert code == 0
        return open_report(tmp_path / "r.geojson").changes

    rscc_command(
        "caption", pair.before, pair.after, "--group-distance", "0", "-o", tmp_path / "all.geojson",
        captioner=FactCaptioner(),
    )  # fmt: skip
    assert len(kept()) == 3
    assert len(kept("--only", "roads,building")) == 3
    assert kept("--only", "water") == []
    assert kept("--direction", "disappeared") == []
    assert len(kept("--only", "road", "--direction", "appeared")) == 3
    area = geopandas.GeoSeries([box(*pair.truth[2].bounds).buffer(5)], crs=32633).to_crs(3857)
    area.to_file(tmp_path / "area.gpkg")
    (change,) = kept("--area", tmp_path / "area.gpkg")
    truth = geopandas.GeoSeries([pair.truth[2]], crs=32633).to_crs(4326).iloc[0]
    assert change.geometry.intersection(truth).area > 0.8 * truth.area


def test_an_area_needs_polygons_and_a_crs(rscc_command, pair, tmp_path):
    geopandas.GeoSeries([shapely.Point(0, 0)], crs=4326).to_file(tmp_path / "points.geojson")
    (tmp_path / "text.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    for name in ("points.geojson", "text.csv"):
        code, _, err = rscc_command("inspect", pair.before, pair.after, "--area", tmp_path / name)
        assert code == 2 and name in err

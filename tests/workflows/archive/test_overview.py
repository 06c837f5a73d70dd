"""An archive at one look: sums are those of its reports, addresses relative, places on one plane."""

import json
from pathlib import Path
from urllib.parse import unquote

import pytest
from archive_rows import change, fill, report
from pages import found, pair, usual_rows
from shapely.geometry import MultiPolygon, Polygon, box, mapping

from workflows.archive.overview import METRES_PER_DEGREE, archive_overview


@pytest.fixture
def archive(tmp_path) -> Path:
    return fill(tmp_path / "archive", usual_rows()).path


def test_sums_are_those_of_the_reports(archive, tmp_path):
    told = archive_overview(archive, tmp_path / "page.html")
    assert told["name"] == "archive" and told["model"] == "brightness 1.2.3" and told["rscc"] == "0.1.0"
    assert told["summary"]["text"] == (
        "12 changes were found in 3 of 4 pairs, 3,400 m2 in all. "
        "6 changes include new buildings and 4 new roads. 4 changes include lost trees and 2 lost buildings. "
        "What was added or removed is not stated for 2 changes. "
        "Of 7 pairs in the archive, 2 failed and 1 is not done yet."
    )
    assert [one["state"] for one in told["pairs"]] == [
        "with changes", "without changes", "with changes", "with changes", "failed", "failed", "not done"
    ]  # fmt: skip
    assert [one["changes"] for one in told["pairs"]] == [4, 0, 2, 6, 0, 0, 0]
    assert sum(one["area_m2"] for one in told["pairs"]) == told["summary"]["area_m2"] == 3400
    directions = [one["directions"] for one in told["pairs"]]
    assert directions[2] == {"appeared": 1, "disappeared": 1} and directions[4] == {}
    (reason,) = told["reasons"]
    assert (reason["count"], reason["pairs"]) == (2, ["p4", "p5"])
    assert told["pairs"][4]["reason"] == "FILE: there is no such file"
    assert told["finished"][:2] == "20"


def test_reports_and_their_pages_are_named_from_where_the_page_lies(archive, tmp_path):
    (archive / "pairs" / "p2" / "changes.html").write_text("a page")
    beside = {one["id"]: one for one in archive_overview(archive, tmp_path / "page.html")["pairs"]}
    assert beside["p0"]["report"] == "archive/pairs/p0/changes.geojson"
    assert beside["p2"]["page"] == "archive/pairs/p2/changes.html"
    assert beside["p0"]["page"] is beside["p4"]["report"] is beside["p6"]["report"] is None
    inside = archive_overview(archive, archive / "index.html")["pairs"]
    assert inside[0]["report"] == "pairs/p0/changes.geojson"
    odd = tmp_path / "javascript:alert(1)?#<%\udcff"
    archive.rename(odd)
    address = archive_overview(odd, tmp_path / "a" / ".." / "page.html")["pairs"][0]["report"]
    assert address.isascii() and not set(address) & set(":?#<()\"'")
    assert (tmp_path / unquote(address, errors="surrogateescape")).is_file()


def test_grounds_lie_on_the_plane_where_they_lie_on_earth(archive, tmp_path):
    told = archive_overview(archive, tmp_path / "page.html")
    plane = told["map"]
    assert max(plane["width"], plane["height"]) == pytest.approx(4000, abs=2)
    for number, one in enumerate(told["pairs"]):
        (ring,) = one["rings"]
        xs = {round(plane["west"] + x / plane["across"], 4) for x in ring[0::2]}
        ys = {round(plane["north"] - y / plane["along"], 4) for y in ring[1::2]}
        west, south, east, north = pair(number).footprint.bounds
        assert (xs, ys) == ({round(west, 4), round(east, 4)}, {round(south, 4), round(north, 4)})
        assert west < one["at"][0] < east and south < one["at"][1] < north
        assert all(0 <= x <= plane["width"] for x in ring[0::2])
        assert all(0 <= y <= plane["height"] for y in ring[1::2])
    assert plane["gsd"] * plane["along"] == pytest.approx(METRES_PER_DEGREE)


def test_what_lies_across_180_degrees_stays_together(tmp_path):
    sides = MultiPolygon([box(179.99, 10, 180, 10.02), box(-180, 10, -179.98, 10.02)])
    rows = [pair(0, footprint=sides), pair(1, footprint=box(-179.9, 10, -179.89, 10.01))]
    archive = fill(tmp_path / "archive", {row: found(row, 1, geometry=sides) for row in rows}).path
    told = archive_overview(archive, tmp_path / "page.html")
    larger = told["pairs"][0]["rings"][1]
    xs, ys = larger[0::2], larger[1::2]
    assert told["changes"][0]["box"] == [min(xs), min(ys), max(xs), max(ys)]
    west, east, other = (ring[0::2] for one in told["pairs"] for ring in one["rings"])
    assert max(west) == pytest.approx(min(east), abs=0.01)
    assert max(east) < min(other) <= max(other) <= told["map"]["width"]


@pytest.mark.parametrize(
    "ground",
    [
        "Berlin", {"type": "Polygon"}, {"type": "Point", "coordinates": [1, 2]}, [[]],
        {"type": "Polygon", "coordinates": [[[0, 0], [float("1e300"), 0], [1, 1], [0, 0]]]},
        mapping(Polygon([(500, 0), (501, 0), (501, 1)])),
    ],
)  # fmt: skip
def test_a_place_that_is_none_is_not_shown(tmp_path, ground):
    rows = {pair(0): found(pair(0), 1), pair(1, footprint=None): report(change(1))}
    archive = fill(tmp_path / "archive", rows).path
    path = archive / "pairs" / "p1" / "changes.geojson"
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "rscc": {**content["rscc"], "ground": ground}}))
    told = archive_overview(archive, tmp_path / "page.html")
    assert told["pairs"][0]["rings"] and told["pairs"][1]["rings"] == [] and told["pairs"][1]["at"] is None


def test_the_command_writes_the_page_and_says_so(rscc_command, archive, tmp_path):
    page = tmp_path / "page.html"
    code, out, err = rscc_command("status", archive, "--html", page)
    assert (code, err) == (0, "") and out.splitlines()[-1] == f"page     {page}" and page.is_file()
    code, out, err = rscc_command("status", archive, "--html", page)
    assert code == 2 and "add --overwrite" in err and out == ""
    code, out, _ = rscc_command("status", archive, "--html", page, "--overwrite", "--json")
    assert (code, json.loads(out)["html"]) == (0, str(page))
    assert rscc_command("status", archive, "--html", tmp_path / "page.txt")[0] == 2
    code, _, err = rscc_command("status", archive, "--html", tmp_path / "other.html", "--watch")
    assert code == 2 and "leave --watch out" in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["archive", "page.html"]

"""Whole results of commands, as stored: what the tests of single features do not look at stays as it was."""

from __future__ import annotations

import json

import geopandas
import pytest
import typer
from archive_rows import fill
from captioners import FactCaptioner
from pages import usual_rows
from rasters import lonlat
from scene_pairs import make_pair
from shapely.geometry import box
from stored import assert_as_stored, contents

from workflows.cli.commands import app

RECTANGLES = [(10, 150, 12, 20, 220), (24, 150, 8, 8, 200), (60, 20, 30, 30, 240), (120, 100, 30, 12, 10)]


@pytest.fixture
def words(rscc_command):
    """Run a command; return its exit code, and what it says as JSON or, with ``plain``, in words."""

    def run(*arguments, plain=False, **options):
        code, out, err = rscc_command(*arguments, *([] if plain else ["--json"]), **options)
        said = out.splitlines() if plain or code else json.loads(out)
        return {"code": code, "out": said, "err": err.splitlines()}

    return run


def test_a_report_and_what_is_made_of_it(tmp_path, words):
    pair = make_pair(tmp_path, RECTANGLES, names=("a_2016.tif", "b_2019-07.tif"))
    (west, south), (east, north) = (lonlat(*pair.truth[2].bounds[at : at + 2]) for at in (0, 2))
    sides = [box(west, south, east, north + 1), box(west, south - 1, east, south)]
    districts = geopandas.GeoDataFrame({"name": ["North", "South"]}, geometry=sides, crs="EPSG:4326")
    districts.to_file(tmp_path / "districts.geojson")
    report, both = tmp_path / "r.geojson", (pair.before, pair.after)
    table = ("caption", *both, "-o", tmp_path / "r.csv")
    asked = ("--context", f"{tmp_path / 'districts.geojson'}:name", "--keep-maps", tmp_path / "maps")
    said = {
        "inspect": words("inspect", *both),
        "inspect in words": words("inspect", *both, plain=True),
        "caption": words("caption", *both, "-o", report, *asked, captioner=FactCaptioner(roads=(-1.0, 2.0))),
        "caption in words": words(*table, plain=True, captioner=FactCaptioner()),
        "explain": words("explain", report, "--id", "1"),
        "explain in words": words("explain", report, "--id", "2", plain=True),
        "page": words("convert", report, tmp_path / "r.html"),
        "cut": words("convert", report, tmp_path / "cut.geojson", "--threshold", "0.9", "--min-area", "20"),
        "verify": words("verify", report),
    }
    assert_as_stored("report", {**said, **contents(tmp_path)}, tmp_path)


def test_an_archive_and_its_layers(tmp_path, words):
    archive = fill(tmp_path / "archive", usual_rows())
    said = {
        "status": words("status", archive.path),
        "status in words": words("status", archive.path, plain=True),
    }
    said["page"] = words("status", archive.path, "--html", tmp_path / "page.html")
    assert_as_stored("archive", {**said, **contents(tmp_path)}, tmp_path)


def test_options_of_all_commands():
    """Their names, defaults and panels; not the texts of the help."""
    parts = ("opts", "default", "required", "multiple", "is_flag", "rich_help_panel")
    commands = typer.main.get_command(app).commands.items()
    options = {
        name: [{part: getattr(one, part, None) for part in parts} for one in command.params]
        for name, command in commands
    }
    assert_as_stored("options", options)

"""Whole results of commands, as stored: what the tests of single features do not look at stays as it was."""

import json

import geopandas
import numpy as np
import pytest
from archive_rows import fill
from captioners import FactCaptioner
from pages import usual_rows
from rasters import lonlat, north_up, write_scene
from scene_pairs import make_pair
from shapely.geometry import box
from stored import assert_as_stored, contents

from workflows.scene.network import memory

RECTANGLES = [(10, 150, 12, 20, 220), (24, 150, 8, 8, 200), (60, 20, 30, 30, 240), (120, 100, 30, 12, 10)]


@pytest.fixture
def words(rscc_command, monkeypatch):
    """Run a command; return its exit code, and what it says as JSON or, with ``plain``, in words."""
    # The expected memory is that of a process that holds nothing yet and looks at two batches at a time.
    monkeypatch.setattr(memory, "resident_bytes", lambda: 0)
    monkeypatch.setattr(memory, "streams_of", lambda *_: 2)

    def run(*arguments, plain=False, **options):
        code, out, err = rscc_command(*arguments, *([] if plain else ["--json"]), **options)
        said = out.splitlines() if plain or code else json.loads(out)
        return {"code": code, "out": said, "err": err.splitlines()}

    return run


@pytest.mark.slow
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
        "project": words("qgis", report, "-o", tmp_path / "r.qgs"),
        "project again": words("qgis", report, "-o", tmp_path / "r.qgs"),
        "project replaced": words("qgis", report, "-o", tmp_path / "r.qgs", "--overwrite"),
        "page replaced": words("convert", report, tmp_path / "r.html", "--overwrite"),
    }
    style = {"style": report.with_suffix(".qml").read_text().splitlines()}
    assert_as_stored("report", {**said, **style, **contents(tmp_path)}, tmp_path)


def test_an_archive_and_its_layers(tmp_path, words):
    archive = fill(tmp_path / "archive", usual_rows())
    said = {
        "status": words("status", archive.path),
        "status in words": words("status", archive.path, plain=True),
    }
    said["page"] = words("status", archive.path, "--html", tmp_path / "page.html")
    assert_as_stored("archive", {**said, **contents(tmp_path)}, tmp_path)


@pytest.mark.slow
def test_pairs_of_a_folder_in_disorder(tmp_path, words):
    scenes = tmp_path / "scenes"
    for name, x in {
        "north/2019-08.tif": 0, "north/2016.tif": 0, "north/2018-01-02.tif": 0, "north/2017_x.tif": None,
        "north/.2015.tif": 0, "south/a_before.tif": 0, "south/a_after.tif": 5, "south/undated.tif": 0,
        "far/2016.tif": 0, "far/2017.tif": 1000, "far/2018.tif": 1000, "2001/2001-01-01.tif": 0,
        "one/x/a.tif": 0, "one/x/gone.tif": 0, "one/y.tif": 0, "two/x/a.tif": 10, "two/y.tif": 9000,
        "two/new.tif": 0, "b.txt": None,
    }.items():  # fmt: skip
        (scenes / name).parent.mkdir(parents=True, exist_ok=True)
        if x is None:
            (scenes / name).write_text("no raster")
        else:
            write_scene(scenes / name, np.full((3, 20, 30), 90, np.uint8), transform=north_up(500_000 + x))
    asked = {
        "all": ("north", "--pair", "all", "--from", "2016-02"),
        "sites": (".", "--pair", "first-last", "--match", "(north|south|far)/"),
        "yearly": (".", "--pair", "yearly", "--min-overlap", "90"),
        "two folders": ("one", scenes / "two"),
    }
    said = {}
    for name, (first, *more) in asked.items():
        said[name] = words("pairs", scenes / first, *more, "-o", tmp_path / f"{name}.csv")
    assert_as_stored("pairs", {**said, **contents(tmp_path)}, tmp_path)

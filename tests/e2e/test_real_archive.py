"""Real series of dated scenes through ``rscc pairs`` and ``rscc batch``, as a team would run them."""

import csv
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from report_checks import load_valid
from shapely import from_wkt
from shapely.geometry import shape

pytestmark = [pytest.mark.real, pytest.mark.slow]

SERIES = {
    "naip_4709963": ("2009-08-18", "2014-07-20", "2017-08-27", "2020-08-31"),
    "pucallpa_landsat": ("1985", "1995", "2005", "2015", "2020"),
}
# The scenes of Landsat are held at 90 m, which is coarser than any model is made for.
OPTIONS = {"naip_4709963": [], "pucallpa_landsat": ["--force"]}


@dataclass(frozen=True)
class Archive:
    """What the two commands left of one series."""

    site: str
    expected: list[tuple[str, str]]
    table: Path
    folder: Path
    words: list[str]
    summary: dict[str, Any]

    @property
    def rows(self):
        with self.table.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))

    def report(self, pair):
        return self.folder / "pairs" / pair / "changes.geojson"


def rscc(repository, *words, code=0):
    """Run the command in a process of its own; returns what it printed and what it warned of."""
    done = subprocess.run(
        [sys.executable, "-m", "rscc", *map(str, words)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(repository)},
        timeout=600,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done.stdout, done.stderr


@pytest.fixture(scope="module", params=SERIES)
def archive(request, shared_data, tmp_path_factory, repository):
    """One series in an archive, by two worker processes."""
    site = request.param
    expected = list(pairwise(SERIES[site]))
    folder = tmp_path_factory.mktemp(site)
    table = folder / "pairs.csv"
    scenes = shared_data / "data" / "scenes" / site
    rscc(repository, "pairs", scenes, "--pair", "consecutive", "-o", table, "-q")
    words = ["batch", table, "--out", folder / "archive", "--model", "rscc-medium"]
    words += ["--device", "cpu", "--workers", "2", "-q", "--json", *OPTIONS[site]]
    printed, _ = rscc(repository, *words)
    return Archive(site, expected, table, folder / "archive", words, json.loads(printed))


def test_every_pair_has_a_report_that_speaks_of_its_own_dates(archive):
    counted = 0
    for row in archive.rows:
        report = load_valid(archive.report(row["pair"]))
        inputs = report["rscc"]["inputs"]
        assert (inputs["before"]["date"], inputs["after"]["date"]) == (row["date_before"], row["date_after"])
        # Metres of two pixels as degrees: the last pixels of the grid worked on may lie half outside.
        ground = from_wkt(row["footprint"]).buffer(2 * report["rscc"]["tiling"]["gsd"] / 111_000)
        for feature in report["features"]:
            assert feature["properties"]["date_after"] == row["date_after"]
            caption, sure = (feature["properties"][name] for name in ("caption", "caption_confident"))
            assert len(caption.split()) >= 3 if sure else caption == "Something changed"
            assert ground.covers(shape(feature["geometry"]))
        counted += len(report["features"])
    assert archive.summary["done"] == len(archive.expected) and archive.summary["failed"] == 0
    assert archive.summary["changes"] == counted > 0


def test_the_same_command_again_repeats_nothing(archive, repository):
    reports = [archive.report(row["pair"]) for row in archive.rows]
    files = [*reports, *(archive.folder / name for name in ("changes.gpkg", "changes.parquet"))]
    before = [(file.stat().st_mtime_ns, file.stat().st_ino) for file in files]
    printed, _ = rscc(repository, *archive.words)
    assert json.loads(printed)["skipped_as_done"] == len(archive.expected)
    assert [(file.stat().st_mtime_ns, file.stat().st_ino) for file in files] == before


def test_a_person_edits_the_table_and_a_scene_too_coarse_fails_alone(shared_data, tmp_path, repository):
    scenes = shared_data / "data" / "scenes"
    table = tmp_path / "pairs.csv"
    # All places together; a mask of changes beside a pair of scenes is no scene with a date.
    printed, warned = rscc(repository, "pairs", scenes, "--pair", "first-last", "-o", table, "-q", "--json")
    assert "rscc: error" not in warned
    lines = table.read_text(encoding="utf-8").splitlines()
    assert json.loads(printed)["pairs"] == len(lines) - 1 == 6
    dates = {row["site"]: (row["date_before"], row["date_after"]) for row in csv.DictReader(lines)}
    assert {site: dates[site] for site in SERIES} == {
        site: (series[0], series[-1]) for site, series in SERIES.items()
    }
    wanted = ("oscd_beirut", "pucallpa_landsat")
    table.write_text("\n".join([lines[0], *(line for line in lines if line.startswith(wanted))]) + "\n")
    words = ["batch", table, "--out", tmp_path / "archive", "--model", "rscc-medium"]
    printed, _ = rscc(repository, *words, "--device", "cpu", "--workers", "1", "-q", "--json", code=3)
    summary = json.loads(printed)
    assert (summary["pairs"], summary["done"], summary["failed"]) == (2, 1, 1)
    printed, _ = rscc(repository, "status", tmp_path / "archive", "--failed")
    assert "coarser" in printed and "pucallpa_landsat_1985_2020" in printed

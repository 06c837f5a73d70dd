"""What ``rscc pairs`` writes, says and returns."""

from __future__ import annotations

import csv
import itertools
import json
import shlex
import sys

import pytest
from catalogs import write_scenes
from command_here import run_here
from stac_server import stac_serving

from workflows.pairs.table import read_pairs


@pytest.fixture
def scenes(tmp_path, monkeypatch):
    """A folder of two sites, and two scenes that belong to none, in the current folder."""
    monkeypatch.chdir(tmp_path)
    harbour, field = ("2015.tif", "2016-08-31.tif", "2019.tif"), ("2015.tif", "2018.tif", "plan.tif")
    write_scenes(tmp_path / "in/harbour", *harbour)
    write_scenes(tmp_path / "in/field", *field)
    (tmp_path / "in/field/2020.tif").write_bytes(b"no raster")
    return tmp_path


@pytest.fixture
def pairs_command(capfd):
    """Run ``rscc pairs`` in this process; returns (exit code, stdout, stderr)."""

    def run(line):
        return run_here(capfd, "pairs", *shlex.split(line))

    return run


def test_a_folder_becomes_a_table_and_a_layer(scenes, pairs_command):
    code, out, err = pairs_command("in")
    assert code == 0
    assert out.splitlines() == [
        "3 pairs of 7 scenes at 2 sites, 2015 to 2019",
        "left out 1 unreadable, 1 without a date",
        "table    pairs.csv",
        "layer    pairs_footprints.geojson (the ground of each pair, for QGIS)",
        "next     look at the table, edit it, then: rscc batch pairs.csv --out ARCHIVE",
    ]
    first, second = err.splitlines()
    assert first.startswith("rscc: warning: ") and "2020.tif: this is not a raster" in first
    assert second.startswith("rscc: warning: field/plan.tif: left out, nothing says when it was taken")
    with open("pairs.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    names = [row["pair"] for row in rows]
    assert names == ["field_2015_2018", "harbour_2015_2016-08-31", "harbour_2016-08-31_2019"]
    assert rows[0]["before"] == "in/field/2015.tif"
    assert len(json.loads((scenes / "pairs_footprints.geojson").read_text(encoding="utf-8"))["features"]) == 3


def test_a_table_that_a_person_edited_is_checked_and_written_anew(scenes, pairs_command):
    pairs_command("in -o first.csv")
    lines = (scenes / "first.csv").read_text(encoding="utf-8").splitlines()
    (scenes / "first.csv").write_text("\n".join([lines[0], lines[2]]), encoding="utf-8")
    code, out, err = pairs_command("first.csv -o second.parquet")
    assert (code, err) == (0, "")
    assert out.startswith("1 pair of 2 scenes at 1 site, 2015 to 2016-08-31\ntable    second.parquet\n")
    (row,) = read_pairs("second.parquet")
    assert row.pair == "harbour_2015_2016-08-31"


def test_the_options_reach_the_catalog(scenes, pairs_command):
    line = "in --pair first-last --from 2016 --match '^(harb)' --glob '20*' --min-overlap 10 --max-cloud 50"
    code, out, err = pairs_command(line)
    assert code == 0
    assert [row.pair for row in read_pairs("pairs.csv")] == ["harb_2016-08-31_2019"]
    assert "outside the dates" in out and "not like --match" in out
    assert "nothing says how cloudy 2 of the 2 scenes are" in err


def test_json_is_for_machines_and_quiet_for_none(scenes, pairs_command):
    code, out, err = pairs_command("in --json -q")
    assert code == 0 and len(err.splitlines()) == 2
    facts = json.loads(out)
    skipped = facts.pop("skipped")
    assert len(skipped) == 2 and "2020.tif" in skipped[0]
    assert facts == {
        "source": "folder in",
        "output": "pairs.csv",
        "layer": "pairs_footprints.geojson",
        "pairs": 3,
        "scenes": 7,
        "sites": 2,
        "first_date": "2015",
        "last_date": "2019",
        "left_out": {"unreadable": 1, "without a date": 1},
        "warnings": [],
    }
    code, out, err = pairs_command("in --json --overwrite")
    assert json.loads(out)["pairs"] == 3 and "3 pairs of 7 scenes" in err


def test_many_of_a_kind_are_counted(scenes, pairs_command):
    for number in range(20):
        (scenes / f"in/field/x{number}.tif").write_bytes(b"no raster")
    code, out, err = pairs_command("in")
    assert code == 0 and "left out 21 unreadable" in out
    assert len(err.splitlines()) == 12
    assert "rscc: warning: 11 more unreadable; --json lists them all" in err
    assert len(json.loads(pairs_command("in --json --overwrite")[1])["skipped"]) == 22


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("in -o in/harbour", "in/harbour: tables of pairs are .csv, .tsv, .txt, .parquet, .geoparquet; "
         "give the output such a name"),
        ("in -o absent/p.csv", "absent/p.csv: the folder absent does not exist; create it first"),
        ("in -o old.csv", "old.csv: exists already; add --overwrite or choose another output name"),
        ("in/harbour --pair first-last --from 2018", "folder in/harbour: no pair in its 3 scenes "
         "(2 outside the dates, 1 without another date); docs/pairs.md says what makes a pair"),
        ("absent", "absent: there is no such file or folder; check the path"),
        ("in --max-cloud 200", "max-cloud is 200.0; it must be percent, 0 to 100"),
        ("in --from 31.8.2019", "'31.8.2019' is not a date; write 2019, 2019-08 or 2019-08-31"),
        ("in --bbox 1,2,3,4", "--bbox does not go with a folder, only with STAC; leave it out"),
        ("old.csv", "old.csv: it has no column before and no column after; "
         "a table of pairs has at least before and after"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_one_line(scenes, pairs_command, line, message):
    (scenes / "old.csv").write_text("a,b\n", encoding="utf-8")
    code, out, err = pairs_command(line)
    assert (code, out) == (2, "")
    assert err.splitlines()[-1] == f"rscc: error: {message}"
    assert sorted(path.name for path in scenes.iterdir()) == ["in", "old.csv"]


def test_an_api_needs_the_extra(scenes, pairs_command, monkeypatch):
    monkeypatch.setitem(sys.modules, "pystac_client", None)
    monkeypatch.delitem(sys.modules, "workflows.pairs.stac_api", raising=False)
    with stac_serving() as server:
        code, _, err = pairs_command(f"{server.address} --collection c")
    assert (code, err) == (2, "rscc: error: this command needs pystac_client: pip install 'rscc[stac]'\n")


@pytest.mark.real
def test_the_real_scenes_make_their_pairs(shared_data, tmp_path, monkeypatch, pairs_command):
    monkeypatch.chdir(tmp_path)
    scenes = shlex.quote(str(shared_data / "data" / "scenes"))
    code, _, err = pairs_command(f"{scenes} -q")
    assert code == 0
    rows = read_pairs("pairs.csv")
    for site, count in (("naip_4709963", 3), ("pucallpa_landsat", 4)):
        series = [row for row in rows if row.site == site]
        assert len(series) == count
        assert all(row.date_after == after.date_before for row, after in itertools.pairwise(series))
    assert sum(row.date_before is None for row in rows) == 3
    labels = [line.split()[2] for line in err.splitlines()]
    assert labels == ["levir_test_1/label.tif:", "levir_test_2/label.tif:"]
    code, _, err = pairs_command(f"{scenes} -q --overwrite --pair first-last --match '(naip|pucallpa)'")
    assert (code, err) == (0, "")
    spans = [(row.site, row.date_before, row.date_after) for row in read_pairs("pairs.csv")]
    assert spans == [("naip", "2009-08-18", "2020-08-31"), ("pucallpa", "1985", "2020")]

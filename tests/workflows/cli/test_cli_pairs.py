"""What ``rscc pairs`` writes, says and returns."""

import csv
import json
import shlex

import pytest
from scene_pairs import run_here
from servers import write_scenes

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
    lines = out.splitlines()
    assert lines[:3] == [
        "3 pairs of 7 scenes at 2 sites, 2015 to 2019",
        "left out 1 unreadable, 1 without a date",
        "table    pairs.csv",
    ]
    assert lines[3].startswith("layer    pairs_footprints.geojson") and "rscc batch pairs.csv" in lines[4]
    first, second = err.splitlines()
    assert first.startswith("rscc: warning: ") and "2020.tif" in first
    assert second.startswith("rscc: warning: field/plan.tif: ")
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
    assert "outside the dates" in out and "--match" in out and err.startswith("rscc: warning: ")


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("in -o in/harbour", "in/harbour"),
        ("in -o absent/p.csv", "absent/p.csv"),
        ("in -o old.csv", "old.csv"),
        ("in/harbour --pair first-last --from 2018", "in/harbour"),
        ("absent", "absent"),
        ("in --max-cloud 200", "max-cloud"),
        ("in --from 31.8.2019", "31.8.2019"),
        ("in --bbox 1,2,3,4", "--bbox"),
        ("old.csv", "old.csv"),
    ],
)
def test_what_is_wrong_is_one_line(scenes, pairs_command, line, named):
    (scenes / "old.csv").write_text("a,b\n", encoding="utf-8")
    code, out, err = pairs_command(line)
    assert (code, out) == (2, "")
    assert err.splitlines()[-1].startswith("rscc: error: ") and named in err
    assert sorted(path.name for path in scenes.iterdir()) == ["in", "old.csv"]

"""Pipes where the commands read files, texts beside scenes that nest without end: one line, no waiting."""

import os

import pytest
from archive_rows import new_claim
from scene_pairs import make_pair

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes"),
    pytest.mark.timeout(120),
]
ROWS = "pair,before,after\none,before.tif,after.tif\n"
NESTED = "<PAMDataset>" + "<x>" * 20_000 + "</x>" * 20_000 + "</PAMDataset>"


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A good pair, a table of it and a pipe for every ending, in the current folder."""
    monkeypatch.chdir(tmp_path)
    make_pair(tmp_path, [(20, 20, 30, 30, 240)])
    (tmp_path / "pairs.csv").write_text(ROWS)
    for ending in ("tif", "csv", "parquet", "json", "geojson", "zip", "vrt"):
        os.mkfifo(tmp_path / f"pipe.{ending}")
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        ("caption", "pipe.tif", "after.tif", "-o", "new.geojson"),
        ("caption", "before.tif", "pipe.zip", "-o", "new.geojson"),
        ("inspect", "pipe.vrt", "after.tif"),
        ("explain", "pipe.geojson", "--id", "1"),
        ("pairs", "pipe.csv", "-o", "new.csv"),
        ("pairs", "pipe.parquet", "-o", "new.csv"),
        ("pairs", "pipe.json", "-o", "new.csv"),
        ("batch", "pipe.csv", "--out", "new", "--dry-run"),
        ("batch", "pipe.parquet", "--out", "new"),
    ],
    ids=" ".join,
)
def test_a_pipe_is_refused_where_a_file_is_read(place, rscc_command, words):
    names = {path.name for path in place.iterdir()}
    code, _, err = rscc_command(*words)
    assert code == 2 and err.count("\n") == 1 and err.startswith("rscc: error: ") and "pipe" in err
    assert "no such file" not in err and {path.name for path in place.iterdir()} == names


@pytest.mark.parametrize("name", ["before.tif.aux.xml", "before.tif.msk", "before.tfw"])
@pytest.mark.parametrize("command", ["caption", "inspect"])
def test_a_pipe_beside_a_scene_is_refused(place, rscc_command, command, name):
    os.mkfifo(place / name)
    code, _, err = rscc_command(command, "before.tif", "after.tif")
    assert code == 2 and f"before.tif: {name} beside it is no regular file; remove it" in err


def test_a_pipe_beside_scenes_does_not_hold_a_table_up(place, rscc_command):
    scenes = place / "scenes"
    scenes.mkdir()
    for year, role in ((2019, "before"), (2020, "after")):
        (place / f"{role}.tif").rename(scenes / f"a_{year}-05-01.tif")
    os.mkfifo(scenes / "a_2019-05-01.json")
    code, _, _ = rscc_command("pairs", "scenes", "-o", "new.csv")
    assert code == 0 and len((place / "new.csv").read_text().splitlines()) == 2
    os.mkfifo(scenes / "a_2019-05-01.tif.aux.xml")
    code, _, err = rscc_command("pairs", "scenes", "-o", "other.csv")
    assert code == 2 and "no pair" in err


@pytest.mark.parametrize("name", ["index.sqlite", "index.sqlite-journal", "run.json", "runs/1-1-of-1.json"])
def test_a_pipe_in_an_archive_holds_nothing_up(place, rscc_command, name):
    folder = new_claim(place / "archive").folder
    os.mkfifo(folder.path / name)
    for words in (("status", "archive"), ("batch", "pairs.csv", "--out", "archive", "--dry-run")):
        assert rscc_command(*words)[0] == 0


@pytest.mark.parametrize("name", ["pairs/one/changes.geojson", "pairs/one/item.json", "failed/one.json"])
def test_a_pipe_in_the_place_of_a_report_is_no_report(place, rscc_command, name):
    folder = new_claim(place / "archive").folder
    (folder.path / "pairs" / "one").mkdir()
    os.mkfifo(folder.path / name)
    code, out, _ = rscc_command("batch", "pairs.csv", "--out", "archive", "--dry-run")
    assert code == 0 and "1 to do" in out


def test_a_lock_that_is_a_pipe_is_no_run_at_work(place, rscc_command):
    folder = new_claim(place / "archive").folder
    os.mkfifo(folder.claims / "1-of-1.lock")
    assert rscc_command("status", "archive")[0] == 0
    code, _, err = rscc_command("batch", "pairs.csv", "--out", "archive", "--workers", "1")
    assert code == 1 and "1-of-1.lock" in err


@pytest.mark.parametrize(
    "text",
    [
        NESTED,
        '<?xml version="1.0" encoding="unheard-of"?><PAMDataset/>',
        "\0",
        "<PAMDataset>" + 5_000_000 * " ",
    ],
    ids=["nested", "encoding", "zero", "large"],
)
def test_a_damaged_text_beside_a_scene_does_not_stop_an_archive(place, rscc_command, text):
    (place / "before.tif.aux.xml").write_text(text)
    code, said, err = rscc_command("batch", "pairs.csv", "--out", "archive", "--dry-run")
    assert code == 0 and "1 to do" in said and not err

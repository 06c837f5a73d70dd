"""Everything a user can get wrong: one line, an exit code, and nothing left behind."""

import errno
import json
import os

import numpy as np
import pytest
from captioners import BrightnessCaptioner
from PIL import Image
from scene_pairs import make_pair, north_up, write_raster

from workflows.archive.folder import ArchiveFolder
from workflows.cli import app
from workflows.monitor.folder import MonitorFolder

UTM = north_up(500_000.0, 5_600_000.0, 0.5)


@pytest.fixture
def scenes(tmp_path, monkeypatch):
    """A good pair and files that cannot be used, in the current folder."""
    monkeypatch.chdir(tmp_path)
    make_pair(tmp_path, [(20, 20, 30, 30, 240)])
    gray = np.full((3, 80, 90), 100, np.uint8)
    write_raster(tmp_path / "no_crs.tif", gray, transform=UTM, crs=None)
    elsewhere = north_up(600_000.0, 5_600_000.0, 0.5)
    write_raster(tmp_path / "elsewhere.tif", gray, transform=elsewhere, crs="EPSG:32633")
    write_raster(tmp_path / "all_nodata.tif", gray * 0, transform=UTM, crs="EPSG:32633", nodata=0)
    write_raster(tmp_path / "coarse.tif", gray, transform=north_up(500_000, 5_600_000, 10), crs="EPSG:32633")
    (tmp_path / "text.tif").write_text("not a picture")
    (tmp_path / "folder.geojson").mkdir()
    (tmp_path / "existing.geojson").write_text("mine")
    (tmp_path / "nowhere.geojson").symlink_to("nothing")
    for name in ("scene.geojson", "scene.qml"):
        (tmp_path / name).write_bytes((tmp_path / "after.tif").read_bytes())
    (tmp_path / "styled.qml").write_text("mine")
    for name, width in (("picture.png", 90), ("wider.png", 95), ("taken.png", 90)):
        Image.fromarray(np.full((80, width, 3), 100, np.uint8)).save(tmp_path / name)
    return tmp_path


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


REFUSED = {
    "caption": [
        (["missing.tif", "after.tif"], 2, ["missing.tif"]),
        (["before.tif", "missing.tif"], 2, ["missing.tif"]),
        (["text.tif", "after.tif"], 2, ["text.tif"]),
        (["no_crs.tif", "after.tif"], 2, ["no_crs.tif"]),
        (["before.tif", "elsewhere.tif"], 2, ["elsewhere.tif"]),
        (["picture.png", "wider.png"], 2, ["picture.png", "gdal_translate", "rscc explain"]),
        (["all_nodata.tif", "after.tif"], 2, ["all_nodata.tif"]),
        (["coarse.tif", "coarse.tif"], 2, ["coarse.tif", "--force"]),
        (["before.tif", "after.tif", "--frame", "after"], 2, ["frame", "--align"]),
        (["before.tif", "after.tif", "--bands", "1,2"], 2, ["bands"]),
        (["before.tif", "after.tif", "--memory", "2"], 2, ["memory"]),
        (["before.tif", "after.tif", "--bbox", "1,2,3"], 2, ["bbox"]),
        (["before.tif", "after.tif", "--threshold", "1.5"], 2, ["threshold", "1.5"]),
        (["before.tif", "after.tif", "--only", "castle"], 2, ["castle"]),
        (["before.tif", "after.tif", "--direction", "sideways"], 2, ["direction"]),
        (["before.tif", "after.tif", "--area", "nothing.gpkg"], 2, ["nothing.gpkg"]),
        (["before.tif", "after.tif", *2 * ("-o", "r.geojson")], 2, ["r.geojson"]),
        (["before.tif", "after.tif", "-o", "/proc/r.geojson"], 1, ["/proc/r.geojson"]),
        (["before.tif", "after.tif", "-o", "r.dxf"], 2, ["r.dxf", ".geojson"]),
        (["before.tif", "after.tif", "-o", "existing.geojson"], 2, ["existing.geojson", "--overwrite"]),
        (["before.tif", "scene.qml", "-o", "scene.geojson", "--overwrite"], 2, ["scene.qml"]),
        (["scene.geojson", "after.tif", "--overwrite", "-o", "scene.geojson"], 2, ["scene.geojson"]),
        (["before.tif", "after.tif", "-o", "styled.geojson"], 2, ["styled.qml", "--overwrite"]),
    ],
    "explain": [
        (["missing.tif", "after.tif"], 2, ["missing.tif"]),
        (["before.tif", "elsewhere.tif"], 2, ["elsewhere.tif"]),
        (["coarse.tif", "coarse.tif"], 2, ["coarse.tif", "--force"]),
        (["picture.png", "wider.png"], 2, ["picture.png", "wider.png", "90 x 80", "95 x 80"]),
        (["picture.png", "picture.png", "--at", "15,50.5"], 2, ["picture.png", "--window"]),
        (["before.tif", "after.tif", "--at", "15"], 2, ["at"]),
        (["before.tif", "after.tif", "--window", "900,2"], 2, ["before.tif", "column 900"]),
        (["before.tif", "after.tif", "--window", "1,2", "--at", "15,50.5"], 2, ["window"]),
        (["before.tif", "after.tif", "-o", "p.tif"], 2, ["p.tif", ".png"]),
        (["before.tif", "after.tif", "-o", "taken.png"], 2, ["taken.png", "--overwrite"]),
        (["picture.png", "taken.png", "-o", "taken.png", "--overwrite"], 2, ["taken.png"]),
        (["before.tif", "after.tif", "-o", "/proc/p.png"], 1, ["/proc/p.png"]),
    ],
}


@pytest.mark.parametrize(
    ("command", "arguments", "code", "words"),
    [(command, *case) for command, cases in REFUSED.items() for case in cases],
)
def test_one_line_an_exit_code_and_nothing_written(scenes, rscc_command, command, arguments, code, words):
    files = content(scenes)
    output = [] if command == "caption" or "-o" in arguments else ["-o", "p.png"]
    ended, out, err = rscc_command(command, *arguments, *output)
    assert (ended, out) == (code, ""), err
    assert err.startswith("rscc: error: ")
    assert err.count("\n") == 1 and err.endswith("\n")
    for word in words:
        assert word in err
    assert content(scenes) == files


EXCLUDED = [
    "convert r.geojson",
    "convert r.geojson o.geojson --html-folder page",
    "convert r.geojson o.html --threshold 0.7",
    "convert r.geojson --html-folder page --min-area 9",
    "convert r.geojson o.geojson --context a.gpkg:b",
    "convert r.geojson o.geojson --before before.tif",
    "explain r.geojson",
    "explain r.geojson --id 1 -o p.png",
    "explain r.geojson --id 1 --gsd 1",
    "explain before.tif after.tif",
    "explain before.tif after.tif --id 1 -o p.png",
    "review new --export levir-cc",
    "review new r.geojson --export levir-cc --sample 3",
    "review new r.geojson --export levir-cc -o s.geojson",
    "review new r.geojson --export levir-cc --overwrite",
    "review archive --sample 3",
    "review archive --sample 3 -o s.gpkg",
    "review archive marks.json --sample 3 -o s.geojson",
    "batch pairs.csv -o out --workers 1 --scheduler tcp://127.0.0.1:1",
    "verify archive --before before.tif",
    "verify archive --after after.tif",
    "status archive --html page.html --watch",
    "status monitor --watch",
    "status monitor --failed",
    "status monitor --warnings",
    "status monitor --html page.html",
    "monitor . -o out --feed news.xml --notify news.xml",
    "monitor . -o out --from 2020 --to 2019",
]


@pytest.mark.parametrize("words", EXCLUDED)
def test_options_that_exclude_each_other_are_refused_and_nothing_is_written(scenes, rscc_command, words):
    (scenes / "pairs.csv").write_text("before,after\nbefore.tif,after.tif\n")
    ArchiveFolder(scenes / "archive").create()
    MonitorFolder(scenes / "monitor").create()
    there = sorted(scenes.rglob("*"))
    ended, out, err = rscc_command(*words.split())
    assert (ended, out) == (2, ""), err
    assert err.startswith("rscc: error: ") and err.count("\n") == 1
    assert not any(text in err.lower() for text in ("no such", "not exist", "no report")), "of the options"
    assert sorted(scenes.rglob("*")) == there


@pytest.mark.parametrize(
    "arguments",
    [
        ["missing.tif", "after.tif"],
        ["before.tif", "elsewhere.tif"],
        ["all_nodata.tif", "after.tif"],
        ["coarse.tif", "coarse.tif"],
        ["before.tif", "after.tif", "--bands", "red,nir,blue"],
        ["before.tif", "after.tif", "--bbox", "100,10,101,11"],
        ["before.tif", "after.tif", "--gsd", "0"],
        ["before.tif", "after.tif", "--memory", "1MB"],
        ["gopher://host/before.tif", "after.tif"],
    ],
)
def test_an_inspection_refuses_what_the_run_refuses(scenes, rscc_command, monkeypatch, arguments):
    # The process of the tests grows from one run to the next, and with it the memory that a run needs.
    monkeypatch.setattr("workflows.scene.network.memory.resident_bytes", lambda: 0)
    files = content(scenes)
    code, _, err = rscc_command("caption", *arguments)
    ended, out, first = rscc_command("inspect", *arguments)
    assert ended == code == 2
    assert first.startswith(err), "the run's own error comes first"
    assert err.count("\n") == 1
    if "--gsd" not in arguments:
        ended, out, _ = rscc_command("inspect", *arguments, "--json")
        assert ended == code
        assert err == f"rscc: error: {json.loads(out)['refusals'][0]['message']}\n"
    assert content(scenes) == files


class Broken(BrightnessCaptioner):
    def predict_change(self, before, after):
        raise ZeroDivisionError("boom\nand more")


def test_an_unexpected_error_is_one_line_that_says_how_to_see_more(scenes, rscc_command):
    files = content(scenes)
    code, out, err = rscc_command("caption", "before.tif", "after.tif", captioner=Broken())
    assert (code, out) == (1, "")
    assert (
        err == "rscc: unexpected ZeroDivisionError: boom and more; run again with --debug for the traceback\n"
    )
    assert content(scenes) == files


@pytest.mark.parametrize("place", [["--debug", "caption"], ["caption", "--debug"]])
def test_debug_shows_the_traceback(scenes, rscc_command, place):
    code, _, err = rscc_command(*place, "before.tif", "after.tif", captioner=Broken())
    assert code == 1
    assert "Traceback" in err and "predict_change" in err
    assert err.splitlines()[-1] == "rscc: unexpected ZeroDivisionError: boom and more"


@pytest.mark.parametrize(
    "arguments", [["caption"], ["caption", "one.tif"], ["nonsense"], ["caption", "--nonsense"]]
)
def test_a_wrong_command_line_exits_with_2(rscc_command, arguments):
    code, out, err = rscc_command(*arguments)
    assert (code, out) == (2, "")
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("command", "first"),
    [
        (["train", "--output", "run"], "missing"),
        (["evaluate"], "missing"),
        # Before the work.
        (["evaluate", "--json", "nowhere/scores.json"], "nowhere"),
        (["evaluate", "--predictions", "nowhere/said.jsonl"], "nowhere"),
        (["evaluate", "--json", "one.json", "--predictions", "./one.json"], "one.json"),
    ],
)
def test_data_that_are_missing_and_scores_that_cannot_be_written(scenes, rscc_command, command, first):
    code, out, err = rscc_command(*command, "--data", "missing")
    assert (code, out) == (2, "")
    assert err.startswith(f"rscc: error: {first}") and err.count("\n") == 1


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        ImportError("libtorch_cpu.so: failed to map segment from shared object"),
        RuntimeError("can't start new thread"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
        OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)),
    ],
)
def test_a_process_without_memory_says_so(error, capsys):
    assert app._print_exception(error, app.State()) == 1
    err = capsys.readouterr().err
    assert err.startswith("rscc: error: ") and err.count("\n") == 1


LONG = "n" * 300


@pytest.mark.parametrize(
    "words",
    [
        ["caption", "before.tif", "after.tif", "--area", f"{LONG}.gpkg"],
        ["caption", "before.tif", "after.tif", "--changes", f"{LONG}.gpkg"],
        ["caption", "before.tif", "after.tif", "-o", f"{LONG}.geojson"],
        ["convert", f"{LONG}.geojson", "to.gpkg"],
        ["explain", f"{LONG}.geojson", "--id", "1"],
        ["verify", LONG],
        ["status", LONG],
        ["batch", f"{LONG}.csv", "--out", "archive"],
        ["monitor", "2019-08-31.tif", "2020-08-31.tif", "--out", LONG],
        ["evaluate", "--data", LONG],
    ],
    ids=lambda words: words[0],
)
def test_a_name_that_no_system_takes_is_refused(scenes, capsys, words):
    make_pair(scenes, [], names=("2019-08-31.tif", "2020-08-31.tif"))
    before = content(scenes)
    with pytest.raises(SystemExit) as ended:
        app.main(words, captioner_factory=lambda *_: BrightnessCaptioner())
    assert ended.value.code in (1, 2)
    error = capsys.readouterr().err.splitlines()[-1]
    assert LONG in error
    assert "unexpected" not in error
    assert content(scenes) == before

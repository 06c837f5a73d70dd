"""Everything a user can get wrong: one line, an exit code, and nothing left behind."""

from __future__ import annotations

import importlib
import json
import shutil
import sys

import numpy as np
import pytest
from command_here import exit_code, run_here
from fakes import BrightnessCaptioner
from PIL import Image
from scene_pairs import make_pair, north_up, write_raster

from rscc import config
from rscc.errors import ExtraNotInstalled, ModelNotFound, extra

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
    for name in ("empty", "config_only"):
        (tmp_path / name).mkdir()
    (tmp_path / "config_only" / "config.json").write_text('{"model_type": "sam"}')
    (tmp_path / "zero.safetensors").write_bytes(b"")
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
        (["before.tif", "folder.geojson"], 2, ["folder.geojson"]),
        (["no_crs.tif", "after.tif"], 2, ["no_crs.tif"]),
        (["before.tif", "elsewhere.tif"], 2, ["elsewhere.tif"]),
        (["picture.png", "wider.png"], 2, ["picture.png", "gdal_translate", "rscc explain looks at two"]),
        (["all_nodata.tif", "after.tif"], 2, ["all_nodata.tif"]),
        (["coarse.tif", "coarse.tif"], 2, ["coarse.tif", "10 m per pixel", "2 m", "brightness", "--force"]),
        (["before.tif", "after.tif", "--frame", "after"], 2, ["frame", "--align"]),
        (["before.tif", "after.tif", "--bands", "1,2,9"], 2, ["9"]),
        (["before.tif", "after.tif", "--bands", "1,2"], 2, ["--bands", "3,2,1"]),
        (["before.tif", "after.tif", "--bands", "0,1,2"], 2, ["bands", "from 1"]),
        (["before.tif", "after.tif", "--scale", "5"], 2, ["--scale", "0,3000", "reflectance"]),
        (["before.tif", "after.tif", "--memory", "2"], 2, ["--memory", "2GB"]),
        (["before.tif", "after.tif", "--group-distance", "-1"], 2, ["group-distance"]),
        (["before.tif", "after.tif", "--bbox", "1,2,3"], 2, ["--bbox", "west,south,east,north"]),
        (["before.tif", "after.tif", "--bbox", "100,10,101,11"], 2, []),
        (["before.tif", "after.tif", "--bbox", "15.1,51,14.9,50"], 2, []),
        (["before.tif", "after.tif", "--threshold", "1.5"], 2, ["threshold", "1.5"]),
        (["before.tif", "after.tif", "--min-area", "-1"], 2, ["min-area"]),
        (["before.tif", "after.tif", "--gsd", "0"], 2, ["gsd"]),
        (["before.tif", "after.tif", "--batch-size", "0"], 2, ["batch-size"]),
        (["before.tif", "after.tif", "--beams", "0"], 2, ["beams"]),
        (["before.tif", "after.tif", "--date-after", "soon"], 2, ["soon", "2019-08-31"]),
        (["before.tif", "after.tif", "-o", "missing/r.geojson"], 2, ["missing"]),
        (["before.tif", "after.tif", "-o", "text.tif/r.geojson"], 2, ["text.tif"]),
        (["before.tif", "after.tif", "-o", "/proc/r.geojson"], 1, ["/proc/r.geojson"]),
        (["before.tif", "after.tif", "-o", "r.shp"], 2, ["r.shp", ".geojson"]),
        (["before.tif", "after.tif", "-o", "existing.geojson"], 2, ["existing.geojson", "--overwrite"]),
        (["before.tif", "scene.qml", "-o", "scene.geojson", "--overwrite"], 2, ["scene.qml", "is an input"]),
        (["scene.geojson", "after.tif", "--overwrite", "-o", "scene.geojson"], 2, ["is an input"]),
        (["before.tif", "after.tif", "-o", "nowhere.geojson"], 2, ["nowhere.geojson", "--overwrite"]),
        (["before.tif", "after.tif", "--refine", "sam:"], 2, ["refine", "sam:FOLDER"]),
        (["before.tif", "after.tif", "--refine", "sam:missing"], 2, ["missing"]),
        (["before.tif", "after.tif", "--refine", "sam:empty"], 2, ["empty"]),
        (["before.tif", "after.tif", "--refine", "sam:config_only"], 2, ["config_only"]),
        (["before.tif", "after.tif", "--refine", "sam:text.tif"], 2, ["text.tif"]),
        (["before.tif", "after.tif", "--refine", "mobile_sam:empty"], 2, ["empty"]),
        (["before.tif", "after.tif", "--refine", "mobile_sam:text.tif"], 2, ["text.tif"]),
        (["before.tif", "after.tif", "--refine", "mobile_sam:missing.pt"], 2, ["missing.pt"]),
        (["before.tif", "after.tif", "--refine", "mobile_sam:zero.safetensors"], 2, ["zero.safetensors"]),
        (["before.tif", "after.tif", "-o", "styled.geojson"], 2, ["styled.qml", "--overwrite"]),
        (["before.tif", "after.tif", "-o", "folder.geojson", "--overwrite"], 2, ["folder.geojson"]),
    ],
    "explain": [
        (["missing.tif", "after.tif"], 2, ["missing.tif"]),
        (["before.tif", "elsewhere.tif"], 2, ["elsewhere.tif"]),
        (["before.tif", "text.tif"], 2, ["text.tif"]),
        (["coarse.tif", "coarse.tif"], 2, ["coarse.tif", "10 m per pixel", "2 m", "brightness", "--force"]),
        (["picture.png", "after.tif"], 2, ["picture.png"]),
        (["picture.png", "wider.png"], 2, ["picture.png", "wider.png", "90 x 80", "95 x 80"]),
        (["picture.png", "picture.png", "--at", "15,50.5"], 2, ["picture.png", "--window"]),
        (["before.tif", "after.tif", "--at", "15"], 2, ["--at", "longitude,latitude"]),
        (["before.tif", "after.tif", "--at", "50.5,195"], 2, ["--at", "longitude,latitude"]),
        (["before.tif", "after.tif", "--at", "16,50.5"], 2, ["before.tif", "16.00000,50.50000"]),
        (["before.tif", "after.tif", "--at", "nan,inf"], 2, ["--at", "nan,inf"]),
        (["before.tif", "after.tif", "--window", "1.5,2"], 2, ["--window", "column,row"]),
        (["before.tif", "after.tif", "--window", "1,2,3"], 2, ["--window", "column,row"]),
        (["before.tif", "after.tif", "--window", "900,2"], 2, ["before.tif", "column 900"]),
        (["before.tif", "after.tif", "--window", "1,2", "--at", "15,50.5"], 2, ["give one of them"]),
        (["before.tif", "after.tif", "--bbox", "100,10,101,11"], 2, ["before.tif"]),
        (["before.tif", "after.tif", "--beams", "0"], 2, ["beams"]),
        (["before.tif", "after.tif", "-o", "p.tif"], 2, ["p.tif", ".png"]),
        (["before.tif", "after.tif", "-o", "taken.png"], 2, ["taken.png", "--overwrite"]),
        (["before.tif", "after.tif", "-o", "missing/p.png"], 2, ["missing"]),
        (["picture.png", "taken.png", "-o", "taken.png", "--overwrite"], 2, ["taken.png", "is an input"]),
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
    # What a run needs counts what the process holds already, which grows from one run here to the next.
    for module in ("memory", "carrier"):
        monkeypatch.setattr(f"workflows.scene.{module}.resident_bytes", lambda: 0)
    files = content(scenes)
    code, _, err = rscc_command("caption", *arguments)
    ended, out, first = rscc_command("inspect", *arguments)
    assert ended == code == 2
    assert first.startswith(err), "the run's own error comes first"
    assert err.count("\n") == 1
    assert "would refuse this with exit code 2" in out or "--gsd" in arguments
    if "--gsd" not in arguments:
        ended, out, _ = rscc_command("inspect", *arguments, "--json")
        assert ended == code
        assert err == f"rscc: error: {json.loads(out)['refusals'][0]['message']}\n"
    assert content(scenes) == files


def test_an_unknown_paper_or_data_set_is_refused_with_those_known(rscc_command):
    for words in (("train", "-o", "run", "--model", "nobody"), ("evaluate", "--dataset", "nothing")):
        code, out, err = rscc_command(*words, "--data", ".")
        assert (code, out) == (2, "")
        assert words[-1] in err and ("scorer" in err or "levir_cc" in err)


def test_a_pair_of_model_and_data_set_without_a_config_says_which_there_are(
    tmp_path, rscc_command, monkeypatch
):
    (tmp_path / "rdd_levir_cc.toml").touch()
    monkeypatch.setattr(config, "CONFIG_FOLDER", tmp_path)
    words = ("--data", ".", "-o", "r", "--model", "dirl", "--dataset", "clevr_dc")
    code, _, err = rscc_command("train", *words)
    assert code == 2
    assert err.startswith("rscc: error: dirl_clevr_dc") and "rdd_levir_cc" in err


def test_the_output_is_checked_before_the_model_is_loaded_and_the_work_starts(scenes, capfd):
    def never(model, device):
        raise AssertionError("the model was loaded")

    for arguments in (["before.tif", "after.tif", "-o", "existing.geojson"], ["before.tif", "missing.tif"]):
        assert exit_code("caption", *arguments, captioner_factory=never) == 2
    assert "existing.geojson" in capfd.readouterr().err


def test_an_unknown_model(scenes, capfd):
    code, _, err = run_here(capfd, "caption", "before.tif", "after.tif", "--model", "no-such-model")
    assert code == ModelNotFound.exit_code == 2
    assert err.startswith("rscc: error: no-such-model") and err.count("\n") == 1


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


def test_a_folder_that_disappears_during_the_work(scenes, rscc_command):
    class Removing(BrightnessCaptioner):
        def predict_change(self, before, after):
            shutil.rmtree(scenes / "out", ignore_errors=True)
            return super().predict_change(before, after)

    (scenes / "out").mkdir()
    words = ("caption", "before.tif", "after.tif", "-o", "out/r.geojson")
    code, _, err = rscc_command(*words, captioner=Removing())
    assert code == 2
    assert err.startswith("rscc: error: out") and err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments", [["caption"], ["caption", "one.tif"], ["nonsense"], ["caption", "--nonsense"]]
)
def test_a_wrong_command_line_exits_with_2(rscc_command, arguments):
    code, out, err = rscc_command(*arguments)
    assert (code, out) == (2, "")
    assert "Traceback" not in err


def test_a_missing_extra_says_what_to_install():
    message = r"needs no_such_parser: pip install 'rscc\[train\]'"
    with pytest.raises(ExtraNotInstalled, match=message) as caught, extra("train"):
        importlib.import_module("no_such_parser.words")
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("command", [["train", "--output", "run"], ["evaluate"]])
def test_what_scores_captions_is_missed_before_the_work(scenes, rscc_command, monkeypatch, command):
    monkeypatch.setitem(sys.modules, "pycocoevalcap.bleu", None)
    code, out, err = rscc_command(*command, "--data", "missing")
    message = "scoring captions needs pycocoevalcap: pip install 'rscc[train]'"
    assert (code, out, err) == (2, "", f"rscc: error: {message}\n")


def test_a_slip_in_our_own_imports_is_not_taken_for_a_missing_extra():
    with pytest.raises(ModuleNotFoundError), extra("train"):
        importlib.import_module("rscc.no_such_module")


@pytest.mark.parametrize(
    ("command", "first"),
    [
        (["train", "--output", "run"], "missing"),
        (["evaluate"], "missing"),
        # Before the work.
        (["evaluate", "--json", "nowhere/scores.json"], "nowhere"),
        (["evaluate", "--predictions", "nowhere/said.jsonl"], "nowhere"),
        (["evaluate", "--json", "one.json", "--predictions", "./one.json"], "one.json: two outputs"),
    ],
)
def test_data_that_are_missing_and_scores_that_cannot_be_written(scenes, rscc_command, command, first):
    code, out, err = rscc_command(*command, "--data", "missing")
    assert (code, out) == (2, "")
    assert err.startswith(f"rscc: error: {first}") and err.count("\n") == 1

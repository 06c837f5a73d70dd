"""``rscc explain --report``."""

from __future__ import annotations

import contextlib
import json
import shutil
from pathlib import Path

import pytest
from command_here import exit_code
from fact_captioner import FactCaptioner
from fakes import BrightnessCaptioner
from scene_pairs import make_pair

CHANGES = [(20, 150, 12, 20, 220), (60, 20, 30, 30, 240)]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with two scenes and their report, which names them as they are called in there."""
    folder = tmp_path_factory.mktemp("made")
    make_pair(folder, CHANGES, names=("a_2016.tif", "b_2019.tif"))
    fakes = {
        "captioner_factory": lambda model, device: BrightnessCaptioner(),
        "card_factory": lambda model: BrightnessCaptioner().card,
    }
    with contextlib.chdir(folder):
        assert exit_code("caption", "a_2016.tif", "b_2019.tif", "-o", "r.geojson", "-q", **fakes) == 0
    return folder


@pytest.fixture
def report(made, tmp_path, monkeypatch):
    """The name of the report in the current folder, a copy of that folder."""
    monkeypatch.chdir(shutil.copytree(made, tmp_path, dirs_exist_ok=True))
    return "r.geojson"


def test_a_change_is_told_in_the_words_of_its_report(report, rscc_command):
    command = ("explain", "--report", report, "--id", 2, "--model", "mine", "--device", "cpu")
    code, out, err = rscc_command(*command, captioner=FactCaptioner())
    assert (code, err) == (0, "")
    assert rscc_command.chosen == [("mine", "cpu")]
    content = json.loads(Path(report).read_text())
    assert out.splitlines()[0] == content["features"][1]["properties"]["caption"] == "brightness 240 appears"
    assert "evidence: what brightness 1.2.3 says of the place" in out and "is gone       trees" in out
    # The scenes may have moved.
    shutil.move("a_2016.tif", "moved.tif")
    code, again, _ = rscc_command(*command, "moved.tif", "b_2019.tif", captioner=FactCaptioner())
    assert code == 0 and again == out.replace("a_2016.tif ->", "moved.tif ->")


def test_a_change_and_its_evidence_as_json(report, rscc_command):
    command = ("explain", "--report", report, "--id", 1, "--model", "mine", "--json")
    code, out, err = rscc_command(*command, captioner=FactCaptioner())
    assert (code, err) == (0, "")
    facts = json.loads(out)
    attributes = json.loads(Path(report).read_text())["features"][0]["properties"]
    assert attributes.items() <= facts.items()
    assert facts["scenes"] == ["a_2016.tif", "b_2019.tif"] and facts["no_evidence"] is None
    assert facts["evidence"][1] == {
        "kind": "came",
        "name": "road",
        "probability": 0.9526,
        "least": 0.7,
        "stated": False,
    }


def test_the_model_is_that_of_the_report(report, rscc_command, tmp_path):
    content = json.loads(Path(report).read_text())
    content["rscc"]["model"] |= {"name": "rscc-small", "weights_sha256": "1" * 64}
    (tmp_path / report).write_text(json.dumps(content))
    code, out, err = rscc_command("explain", "--report", report, "--id", 1, captioner=FactCaptioner())
    assert code == 0 and "stated from" in out
    assert rscc_command.chosen == [("rscc-small", "auto")]
    assert err.startswith("rscc: warning: r.geojson: it was made by other weights") and err.count("\n") == 1


def test_a_model_that_only_the_report_knows_is_not_loaded(report, rscc_command):
    code, out, err = rscc_command("explain", "--report", report, "--id", 1)
    assert (code, err) == (0, "")
    assert rscc_command.chosen == []
    assert "no evidence: the model of the report does not come with this rscc" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--report", "r.geojson"], "give --id"),
        (["--report", "r.geojson", "--id", 3], "r.geojson: there is no change 3 in it; it has 2 changes"),
        (["--report", "none.geojson", "--id", 1], "none.geojson: there is no such file"),
        (["--report", "a_2016.tif", "--id", 1], "a_2016.tif: it is no JSON"),
        (["--report", "a\x1b.json", "--id", 1], r"a\x1b.json: there is no such file"),
        (["a_2016.tif", "--report", "r.geojson", "--id", 1], "give BEFORE and AFTER, or neither"),
        (["c.tif", "b_2019.tif", "--report", "r.geojson", "--id", 1, "--model", "mine"], "c.tif"),
        (["--report", "r.geojson", "--id", 1, "-o", "p.png"], "--output: a change is explained as its"),
        (["--report", "r.geojson", "--id", 1, "--at", "15,50"], "--at: a change is explained as its"),
        (["--report", "r.geojson", "--id", 1, "--bands", "1,2,3"], "--bands: a change is explained as its"),
        (["a_2016.tif", "b_2019.tif", "-o", "p.png", "--id", 1], "--id 1: it is the number of a change in"),
    ],
)
def test_what_cannot_be_explained_is_one_clear_line(report, rscc_command, arguments, words):
    code, out, err = rscc_command("explain", *arguments, captioner=FactCaptioner())
    assert (code, out) == (2, "")
    assert err.startswith("rscc: error: ") and err.count("\n") == 1 and words in err


def test_a_missing_scene_is_one_clear_line(report, rscc_command, tmp_path):
    (tmp_path / "a_2016.tif").unlink()
    code, out, err = rscc_command("explain", "--report", report, "--id", 1)
    assert (code, out) == (2, "")
    assert err.startswith("rscc: error: r.geojson: its scene a_2016.tif is neither there nor beside")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "missing"),
    [([], "BEFORE"), (["a.tif"], "AFTER"), (["a.tif", "b.tif"], "--output"), (["-o", "p.png"], "BEFORE")],
)
def test_without_a_report_the_scenes_and_the_picture_are_needed(rscc_command, arguments, missing):
    code, out, err = rscc_command("explain", *arguments)
    assert (code, out) == (2, "")
    assert "Missing" in err and missing in err
    assert err.endswith("; see rscc explain --help\n")

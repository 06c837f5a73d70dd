"""``rscc explain REPORT --id N``."""

import contextlib
import json
import shutil
from pathlib import Path

import pytest
from captioners import BrightnessCaptioner, FactCaptioner
from scene_pairs import exit_code, make_pair
from shapely.geometry import shape

CHANGES = [(20, 150, 12, 20, 220), (60, 20, 30, 30, 240)]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with two scenes and their report, which names them relative to it."""
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


def test_a_change_is_explained_with_the_sentence_of_its_report(report, rscc_command):
    command = ("explain", report, "--id", 2, "--model", "mine", "--device", "cpu")
    code, out, err = rscc_command(*command, captioner=FactCaptioner())
    assert (code, err) == (0, "")
    assert rscc_command.chosen == [("mine", "cpu")]
    content = json.loads(Path(report).read_text())
    assert out.splitlines()[0] == content["features"][1]["properties"]["caption"]
    assert "trees" in out
    shutil.move("a_2016.tif", "moved.tif")
    moved = ("--before", "moved.tif", "--after", "b_2019.tif")
    code, again, _ = rscc_command(*command, *moved, captioner=FactCaptioner())
    assert (code, again) == (0, out)


def test_a_report_without_the_names_of_its_scenes_is_explained(report, rscc_command):
    content = json.loads(Path(report).read_text())
    for scene in content["rscc"]["inputs"].values():
        scene.pop("path")
    Path(report).write_text(json.dumps(content))
    code, out, _ = rscc_command("explain", report, "--id", 1)
    assert code == 0 and "not known -> not known" in out


def test_a_change_and_its_evidence_as_json(report, rscc_command):
    command = ("explain", report, "--id", 1, "--model", "mine", "--json")
    code, out, err = rscc_command(*command, captioner=FactCaptioner())
    assert code == 0 and err
    facts = json.loads(out)
    attributes = json.loads(Path(report).read_text())["features"][0]["properties"]
    assert attributes.items() <= facts.items()
    assert facts["scenes"] == ["a_2016.tif", "b_2019.tif"] and facts["no_evidence"] is None
    assert facts["evidence"][1]["name"] == "road" and facts["evidence"][1]["stated"] is False


def test_the_model_is_that_of_the_report(report, rscc_command, tmp_path):
    content = json.loads(Path(report).read_text())
    content["rscc"]["model"] |= {"name": "rscc-small", "weights_sha256": "1" * 64}
    (tmp_path / report).write_text(json.dumps(content))
    code, _, err = rscc_command("explain", report, "--id", 1, captioner=FactCaptioner())
    assert code == 0 and rscc_command.chosen == [("rscc-small", "auto")]
    assert err.startswith("rscc: warning: r.geojson: ") and err.count("\n") == 1


def test_a_model_that_only_the_report_knows_is_not_loaded(report, rscc_command):
    assert rscc_command("explain", report, "--id", 1)[0] == 0
    assert rscc_command.chosen == []


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["r.geojson"], "--id"),
        ([], "REPORT"),
        (["r.geojson", "--id", 3], "r.geojson"),
        (["none.geojson", "--id", 1], "none.geojson"),
        (["a_2016.tif", "--id", 1], "a_2016.tif"),
        (["a\x1b.json", "--id", 1], r"a\x1b.json"),
        (["r.geojson", "--id", 1, "--before", "a_2016.tif"], "--after"),
        (["r.geojson", "--id", 1, "-o", "p.png"], "--output"),
        (["r.geojson", "--id", 1, "--at", "15,50"], "--at"),
        (["r.geojson", "--id", 1, "--bands", "1,2,3"], "--bands"),
        (["a_2016.tif", "b_2019.tif", "-o", "p.png", "--id", 1], "--id"),
        (["a_2016.tif", "b_2019.tif"], "--output"),
    ],
)
def test_what_cannot_be_explained_is_one_line(report, rscc_command, arguments, named):
    code, out, err = rscc_command("explain", *arguments, captioner=FactCaptioner())
    assert (code, out) == (2, "")
    assert err.startswith("rscc: error: ") and err.count("\n") == 1 and named in err


def test_swapped_and_missing_scenes_are_one_line(report, rscc_command, tmp_path):
    words = ("explain", report, "--id", 1, "--model", "mine")
    swapped = ("--before", "b_2019.tif", "--after", "a_2016.tif")
    code, _, err = rscc_command(*words, *swapped, captioner=FactCaptioner())
    assert code == 2 and err.count("\n") == 1 and "a_2016.tif" in err
    (tmp_path / "a_2016.tif").unlink()
    code, out, err = rscc_command(*words, captioner=FactCaptioner())
    assert (code, out) == (2, "") and err.count("\n") == 1 and "a_2016.tif" in err


@pytest.mark.slow
def test_a_place_of_two_scenes_has_the_facts_and_words_of_their_report(report, rscc_command):
    scenes, model = ("a_2016.tif", "b_2019.tif"), ("--model", "mine")
    assert rscc_command("caption", *scenes, "-o", "f.geojson", *model, captioner=FactCaptioner())[0] == 0
    own = json.loads(Path("f.geojson").read_text())["features"][1]
    middle = shape(own["geometry"]).representative_point()
    code, expected, _ = rscc_command("explain", "f.geojson", "--id", 2, *model, captioner=FactCaptioner())
    assert code == 0
    place = ("--at", f"{middle.x:.7f},{middle.y:.7f}", *model)
    code, out, _ = rscc_command("explain", *scenes, *place, captioner=FactCaptioner())
    assert code == 0
    assert out.splitlines() == [line for line in expected.splitlines() if not line.startswith("report ")]
    code, out, _ = rscc_command("explain", *scenes, *place, "--json", captioner=FactCaptioner())
    facts = json.loads(out)
    assert facts["report"] is None and facts["caption"] == own["properties"]["caption"]


def test_a_report_finds_its_scenes_from_any_folder(report, rscc_command, tmp_path, monkeypatch):
    (tmp_path / "out").mkdir()
    shutil.move(report, tmp_path / "out/r.geojson")
    monkeypatch.chdir(tmp_path / "out")
    code, out, _ = rscc_command("explain", report, "--id", 1, "--model", "mine", captioner=FactCaptioner())
    assert code == 0 and "evidence" in out


def test_a_place_where_nothing_changed_is_one_line(report, rscc_command):
    west, north = 15.0, 50.551726
    place = ("--at", f"{west + 0.00002:.7f},{north - 0.00002:.7f}", "--model", "mine")
    code, out, err = rscc_command("explain", "a_2016.tif", "b_2019.tif", *place, captioner=FactCaptioner())
    assert (code, out) == (2, "") and "b_2019.tif" in err.splitlines()[-1]

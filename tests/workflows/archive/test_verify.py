"""What became of the things that a report rests on."""

import json
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pyogrio
import pytest
from archive_pairs import InlineEngine, make_archive
from archive_pairs import run as run_archive
from captioners import BrightnessCaptioner, captioned
from datasets import edit_json
from saved_models import edit, plain_rules, saved, tiny_facts, tiny_heads
from scene_pairs import make_pair, run_here

from rscc.facts.fact_model import FactModel
from workflows.archive.verify import Verifier, read_record
from workflows.errors import ReportInvalid

SUBJECTS = ["before", "after", "weights", "facts", "card", "settings", "versions"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("models") / "tiny", facts=tiny_facts())


@pytest.fixture(scope="module")
def made(tmp_path_factory, model):
    """A folder with two scenes and their report."""
    folder = tmp_path_factory.mktemp("made")
    captioner = BrightnessCaptioner()
    captioner.card = model.card
    captioned(make_pair(folder, [(40, 50, 30, 50, 240)]), captioner).write(folder / "changes.geojson")
    return folder


@pytest.fixture
def report(made, tmp_path):
    """A copy of the report, which names the scenes that lie beside it."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    report = tmp_path / "changes.geojson"
    name_scenes(report, tmp_path)
    return report


def name_scenes(report, folder):
    """Let a report name its scenes as they lie in a folder."""

    def name(record):
        for scene in record["inputs"].values():
            scene["path"] = str(folder / Path(scene["path"]).name)

    edited(report, name)


def states(report, model, **where):
    (verified,) = Verifier(model=str(model.path), **where).verify(report)
    return {finding.subject: finding.state for finding in verified.findings}, verified.state


def edited(report, change):
    edit_json(report, lambda content: change(content["rscc"]))


def all_but(**others):
    return {**dict.fromkeys(SUBJECTS, "same"), **others}


def test_all_is_the_same_also_in_another_folder(report, model, tmp_path, monkeypatch):
    assert states(report, model) == (all_but(), "same")
    name_scenes(report, Path())
    moved = tmp_path.rename(tmp_path.with_name("moved"))
    monkeypatch.chdir(moved.parent)
    assert states(moved / report.name, model) == (all_but(), "same"), "scenes are beside the report"


@pytest.mark.parametrize("place", [0.5, -1])
def test_one_bit_of_a_scene_is_told_wherever_it_is_and_whatever_the_clock_says(report, model, place):
    scene = report.with_name("after.tif")
    times, content = os.stat(scene), bytearray(scene.read_bytes())
    content[int(place * len(content)) if place > 0 else place] ^= 1
    scene.write_bytes(content)
    os.utime(scene, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert states(report, model) == (all_but(after="changed"), "changed")


def test_a_file_beside_a_scene_is_told_but_not_what_a_viewer_writes(report, model):
    statistics = '<PAMDataset><PAMRasterBand band="1"><Metadata><MDI key="STATISTICS_MEAN">1</MDI></Metadata>'
    beside = report.with_name("before.tif.aux.xml")
    beside.write_text(f"{statistics}</PAMRasterBand></PAMDataset>")
    assert states(report, model)[1] == "same"
    report.with_name("before.tfw").write_text("1\n0\n0\n-1\n0\n0\n")
    assert states(report, model) == (all_but(before="changed"), "changed")


def test_a_scene_that_is_gone_is_missing_until_it_is_said_where_it_is(report, model, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    moved = report.with_name("before.tif").rename(tmp_path / "elsewhere" / "before.tif")
    assert states(report, model) == (all_but(before="missing"), "changed")
    assert states(report, model, before=str(moved)) == (all_but(), "same")


def test_other_weights_facts_and_thresholds_are_told_apart(report, model, tmp_path):
    other = saved(tmp_path / "other", facts=FactModel(tiny_heads(seed=7), plain_rules(), None))
    assert states(report, other)[0] == all_but(facts="changed", card="changed")
    again = shutil.copytree(model.path, tmp_path / "again")
    edit(card__threshold=0.4)(again)
    assert states(report, SimpleNamespace(path=again))[0] == all_but(card="changed")
    edit(card__threshold=model.card.threshold, card__limits=["one more"])(again)
    assert states(report, SimpleNamespace(path=again))[0] == all_but(), (
        "what people read of a card changes no pixel"
    )
    with (again / "model.safetensors").open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\0\1")
    assert states(report, SimpleNamespace(path=again))[0] == all_but(
        weights="changed", facts="changed", card="changed"
    ), "a folder that is not the one that its model.json describes"


def test_edited_settings_and_other_versions_are_told(report, model):
    edited(report, lambda record: record["settings"].update(min_area=21.0))
    assert states(report, model) == (all_but(settings="changed"), "changed")
    edited(report, lambda record: record["settings"].update(min_area=None))
    edited(report, lambda record: record["versions"].update(gdal="3.0.0"))
    assert states(report, model) == (all_but(versions="changed"), "same"), "versions do not count"


def test_what_has_no_hash_is_not_said_to_be_the_same(report, model):
    edited(report, lambda record: record["inputs"]["before"].update(path="https://example.org/before.tif"))
    edited(report, lambda record: record["inputs"]["after"].pop("identity"))
    edited(report, lambda record: (record["model"].pop("card_sha256"), record.pop("settings_sha256")))
    others = dict.fromkeys(("before", "after", "card", "settings"), "unchecked")
    assert states(report, model) == (all_but(**others), "unchecked")


def test_of_a_part_of_a_scene_no_hash_is_kept_so_that_the_rest_is_not_read(tmp_path, model):
    captioner = BrightnessCaptioner()
    captioner.card = model.card
    pair, world = make_pair(tmp_path, [(40, 50, 30, 50, 240)]), (-180, -90, 180, 90)
    part = captioned(pair, captioner, bounds=world).write(tmp_path / "a.geojson")
    assert states(part, model) == (all_but(before="unchecked", after="unchecked"), "unchecked")


@pytest.mark.parametrize(
    "change",
    [
        lambda record: record.pop("model"),
        lambda record: record.update(inputs=3),
        lambda record: record["inputs"].pop("after"),
        lambda record: record["inputs"]["after"].update(path="a\x1b[2Jb"),
        lambda record: record["inputs"]["after"].update(path=["a"]),
        lambda record: record.update(versions=[]),
    ],
)
def test_a_record_that_no_run_wrote_is_refused(report, model, change):
    edited(report, change)
    with pytest.raises(ReportInvalid):
        states(report, model)


@pytest.mark.parametrize("name", ["/vsizip/" + "x" * 5000, "x" * 5000, "fifo", "sparse", "~", "a.zip/b"])
def test_a_name_that_no_scene_has_is_missing_and_nothing_hangs(report, model, name):
    os.mkfifo(report.with_name("fifo"))
    with report.with_name("sparse").open("wb") as file:
        file.truncate(2**43)
    edited(report, lambda record: record["inputs"]["after"].update(path=name))
    assert states(report, model) == (all_but(after="missing"), "changed")


def test_what_a_terminal_obeys_is_written_out(report, model, tmp_path):
    again = shutil.copytree(model.path, tmp_path / "again")
    edit(card__version="1\x1b[2J\x9b2J")(again)
    (verified,) = Verifier(model=str(again)).verify(report)
    assert all(finding.detail.isprintable() for finding in verified.findings)
    assert "\\x1b[2J\\x9b2J" in verified.findings[2].detail


def test_an_archive_and_its_layers(tmp_path, model):
    made = make_archive(tmp_path, 3, breakages=())
    out = tmp_path / "out"
    run_archive(made, out, InlineEngine())
    files = list(Verifier().verify(out))
    assert [one.path.name for one in files] == ["changes.geojson"] * 3 + ["changes.parquet", "changes.gpkg"]
    for one in files:
        found = {finding.subject: finding.state for finding in one.findings}
        missing = dict.fromkeys(("weights", "card"), "missing")  # the fake has no folder
        scenes = {} if one.path.suffix != ".geojson" else dict.fromkeys(("before", "after"), "same")
        assert found == {**scenes, **missing, "settings": "same", "versions": "same"}
    files[0].path.write_text("{")
    damaged = next(iter(Verifier().verify(out)))
    assert [(one.subject, one.state) for one in damaged.findings] == [("report", "changed")]
    layer = out / "changes.gpkg"
    assert read_record(layer)["settings_sha256"] == read_record(files[1].path)["settings_sha256"]
    assert "rscc" in pyogrio.read_info(layer, layer="changes")["layer_metadata"]
    layer.write_bytes(b"SQLite format 3\0")
    with pytest.raises(ReportInvalid):
        read_record(layer)


def test_the_command_says_a_line_for_each_and_ends_with_its_code(report, model, capfd):
    def command(*words):
        return run_here(capfd, "verify", report, "--model", model.path, *words)

    code, out, err = command()
    assert (code, err) == (0, "")
    assert [line.split()[:2] for line in out.splitlines()] == [["same", subject] for subject in SUBJECTS]
    code, out, _ = command("--json")
    assert (code, json.loads(out)["exit_code"], json.loads(out)["files"][0]["state"]) == (0, 0, "same")
    report.with_name("after.tif").unlink()
    code, out, _ = command()
    assert code == 1 and "missing   after" in out and "--after" in out
    edited(report, lambda record: record["inputs"]["after"].update(path="https://example.org/a.tif"))
    assert command()[0] == 3
    report.write_text("[1]")
    code, out, err = command()
    assert (code, out) == (2, "") and err.count("\n") == 1 and "changes.geojson" in err


def test_of_an_archive_the_worst_report_decides_the_code(report, model, capfd, tmp_path):
    """Of three reports one is the same, one names a server, and the scene of one is gone."""
    archive, codes = tmp_path / "archive", []
    for name, scene in (("same", None), ("remote", "https://example.org/a.tif"), ("gone", "/nowhere/a.tif")):
        copy = archive / "pairs" / name / report.name
        copy.parent.mkdir(parents=True)
        copy.write_bytes(report.read_bytes())
        if scene is not None:
            edited(copy, lambda record, scene=scene: record["inputs"]["after"].update(path=scene))
        codes.append(run_here(capfd, "verify", archive, "--model", model.path, "-q")[0])
    assert codes == [0, 3, 1]

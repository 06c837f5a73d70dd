"""The command rscc batch: its options, what it says, and the code it ends with."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from archive_fakes import fake_card
from archive_pairs import MadeArchive, contents, make_archive, write_table
from archive_runs import mark
from command_here import run_here
from inline_engine import InlineEngine

from rscc.model_folder import ModelCard
from rscc.shipped import DEFAULT_MODEL
from workflows.archive.run import ArchiveSummary
from workflows.cli import batch as cli_batch
from workflows.cli.batch import archive_summary, read_shard
from workflows.errors import OptionInvalid
from workflows.inspection.cost import CORE_SECONDS
from workflows.store.failures import Reason


@pytest.fixture
def made(tmp_path) -> MadeArchive:
    return make_archive(tmp_path, 8, each=1, breakages=("missing", "apart"))


@pytest.fixture
def asked(monkeypatch) -> list:
    """Let the engine be one without processes; keeps what engines were asked for."""
    found = []

    def local(workers, isolate, source):
        assert isolate
        found.append(("local", workers, source.model, source.device))
        return InlineEngine()

    def dask(scheduler, gpu_workers, source):
        found.append(("dask", scheduler, gpu_workers))
        return InlineEngine()

    monkeypatch.setattr(cli_batch, "_local", local)
    monkeypatch.setattr(cli_batch, "_dask", dask)
    return found


@pytest.fixture
def out(tmp_path) -> Path:
    return tmp_path / "out"


@pytest.fixture
def command(capfd, tmp_path, out) -> Callable[..., tuple[int, str, str]]:
    """Run the command over the table in this process; returns (exit code, stdout, stderr)."""

    def run(*options, table="pairs.csv", card=fake_card):
        return run_here(capfd, "batch", tmp_path / table, "--out", out, *options, card_factory=card)

    return run


def test_an_archive_with_failures_ends_with_3_and_says_why(made, out, command, asked):
    code, said, err = command()
    assert code == 3 and asked == [("local", None, DEFAULT_MODEL, "auto")]
    assert err == "8 pairs: 0 done already, 8 to do\n"
    lines = said.splitlines()
    assert lines[0].startswith("6 of 8 pairs done in ")
    assert lines[1].startswith("changes ")
    assert lines[2] == f"failed  2 (rscc status {out} --failed lists them)"
    assert lines[3].startswith("        1: FILE: ")
    assert lines[-1] == f"layers  {out}/changes.gpkg (open it in QGIS), changes.parquet, summary.csv"


def test_what_its_pairs_warn_of_is_said(out):
    warned = [Reason("warned", "", f"FILE: {n}", 9 - n, ("p",)) for n in range(7)]
    lines = archive_summary(
        ArchiveSummary(9, 9, 0, 0, 4, 100.0, 1.0, warnings=tuple(warned)), out
    ).splitlines()
    assert lines[2:8] == [
        f"warned  of 7 things (rscc status {out} --warnings)",
        *(f"        {9 - n}: FILE: {n}" for n in range(5)),
    ]


def test_quiet_says_nothing_and_json_all(made, out, command, asked):
    assert command("--quiet") == (3, "", "")
    code, said, _ = command("--json", "-q")
    found = json.loads(said)
    assert code == 3 and found["archive"] == str(out)
    assert (found["pairs"], found["done"], found["failed"], found["skipped_as_done"]) == (8, 6, 2, 6)
    assert {reason["error"] for reason in found["reasons"]} == {"SceneNotFound", "NoOverlap"}


def test_a_program_hears_how_far_the_archive_is(made, out, command, asked):
    code, said, err = command("--progress", "json", "--json")
    told = [json.loads(line) for line in err.splitlines()]
    assert code == 3
    stages = {event["stage"]: event for event in told if event["event"] == "progress"}
    assert {"pairs", "layers"} <= set(stages)
    assert stages["pairs"]["done"] == stages["pairs"]["total"] == 8
    assert told[-1] == {"event": "done", **json.loads(said)} and told[-1]["archive"] == str(out)


@pytest.mark.slow
def test_the_options_reach_the_pairs(made, out, command, asked):
    command("--min-area", 50, "--beams", 2, "--focus-captions", "zoom")
    settings = json.loads((out / "pairs" / made.sound[0] / "changes.geojson").read_text())["rscc"]["settings"]
    assert (settings["min_area"], settings["beams"], settings["focus_captions"]) == (50, 2, "zoom")
    # Another setting: everything again.
    report = next(path for path in out.glob("pairs/*/*.geojson") if b'"Feature"' in path.read_bytes())
    mark(report)
    kept = f"kept    1 as people marked the report: {report.parent.name} (--overwrite replaces it)"
    code, said, _ = command("--min-area", "20", "--dry-run")
    assert (code, said.splitlines()[1]) == (0, kept)
    code, said, _ = command("--min-area", "20", "--json")
    assert (code, json.loads(said)["kept"]) == (3, [report.parent.name])
    code, said, _ = command("--min-area", "20", "--dry-run", "--overwrite")
    assert kept not in said
    code, said, _ = command("--min-area", "20")
    assert code == 3 and kept in said.splitlines()
    _, said, _ = command("--min-area", "20", "--json", "--overwrite")
    assert json.loads(said)["kept"] == []


@pytest.mark.parametrize(
    ("options", "engine"),
    [
        (["--workers", "3"], ("local", 3, DEFAULT_MODEL, "auto")),
        (["--model", "m", "--device", "cpu"], ("local", None, "m", "cpu")),
        (["--scheduler", "tcp://h:1"], ("dask", "tcp://h:1", False)),
        (["--scheduler", "tcp://h:1", "--gpu-workers"], ("dask", "tcp://h:1", True)),
        # What workers elsewhere have is not looked for here.
        (["--scheduler", "tcp://h:1", "--device", "cuda:99"], ("dask", "tcp://h:1", False)),
    ],
)
def test_the_engine_is_what_was_asked_for(tmp_path, command, asked, options, engine):
    make_archive(tmp_path, 1)
    command(*options)
    assert asked == [engine]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--gpu-workers"], "--gpu-workers is for those of a cluster; give its --scheduler"),
        (["--scheduler", "tcp://h:1", "--workers", "2"], "give one"),
        (["--shard", "0/3"], "--shard '0/3': give a number from 1"),
        (["--bbox", "1,2"], "--bbox"),
        (["--min-area", "-1"], "min-area"),
        (["--device", "quantum"], "device 'quantum' is not available here; use cpu, or auto"),
        (["--device", "cuda:99"], "device 'cuda:99' is not available here"),
        (["--refine", "foo"], "refine is 'foo'; give sam:FOLDER"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_made(made, out, command, asked, options, words):
    code, said, err = command(*options)
    assert (code, said) == (2, "")
    assert err.startswith("rscc: error: ") and words in err and err.count("\n") == 1
    assert not out.exists() and asked == []


def test_a_segmenter_that_cannot_be_had_costs_nothing(made, out, command, asked):
    pytest.importorskip("transformers")
    command()
    before = contents(out)
    for place in ("sam:/nope", f"sam:{made.scenes}", f"mobile_sam:{made.table}"):
        code, said, err = command("--refine", place)
        assert (code, said) == (2, "") and err.startswith("rscc: error: ") and err.count("\n") == 1
        assert contents(out) == before


def test_a_part_of_a_model_and_a_missing_table_are_refused_before_anything_is_made(made, out, command, asked):
    def part(model: str) -> ModelCard:
        return replace(fake_card(model), parts=("backbone.",), description="A backbone")

    code, _, err = command(card=part)
    assert code == 2 and "rscc-base: A backbone, not for captioning; give another --model" in err
    code, _, err = command(table="no.csv")
    assert code == 2 and "no.csv" in err and err.count("\n") == 1
    assert not out.exists()


@pytest.mark.parametrize("text", ["", "1", "3/2", "0/1", "1/0", "a/b", "1/2/3", "-1/2"])
def test_a_shard_is_one_of_several(text):
    with pytest.raises(OptionInvalid, match="--shard"):
        read_shard(text)
    assert read_shard("3/16") == (3, 16) and read_shard(None) is None


def test_a_shard_is_an_archive_of_its_own(made, out, command, asked):
    total = 0
    for number in (1, 2):
        _, said, _ = command("--shard", f"{number}/2", "--json")
        total += json.loads(said)["pairs"]
        folder = out / "shards" / f"{number}-of-2"
        assert (folder / "summary.csv").is_file()
        assert f"layers  {folder / 'changes.gpkg'} " in command("--shard", f"{number}/2")[1]
    assert total == 8


def test_a_dry_run_counts_and_writes_nothing(made, command, asked):
    folder = made.table.parent
    before = sorted(folder.rglob("*"))
    code, said, _ = command("--dry-run", "--json", "-q")
    found = json.loads(said)
    assert code == 0 and asked == [] and sorted(folder.rglob("*")) == before
    assert found["planned"]["pending"] == found["planned"]["new"] == found["looked_at"] == 8
    assert found["input_bytes"] == sum(scene.stat().st_size for scene in made.scenes.iterdir())
    assert (found["missing"], found["remote"]) == (1, 0)
    reasons = {reason["error"]: reason["count"] for reason in found["reasons"]}
    assert reasons == {"SceneNotFound": 1, "NoOverlap": 1}
    assert (found["speed"], found["seconds"]) == (None, None)
    assert 6 * 28_000 < found["disk_bytes"] < 6 * 60_000 and found["free_bytes"] > 0


def test_a_dry_run_foretells_the_tiles_and_the_pairs(made, out, command, asked):
    _, said, _ = command("--dry-run", "--json")
    foretold = json.loads(said)["tiles"]
    command()
    reports = [json.loads((out / "pairs" / pair / "changes.geojson").read_text()) for pair in made.sound]
    assert foretold == sum(report["rscc"]["tiling"]["tiles"] for report in reports)
    old = contents(out)
    _, said, _ = command("--dry-run")
    assert said.splitlines()[0] == "pairs   8: 6 done, 2 failed, 0 to do"
    (out / "pairs" / made.sound[0] / "changes.geojson").rename(out / "pairs" / "aside")
    _, said, _ = command("--dry-run")
    told = "pairs   8: 5 done, 2 failed, 1 to do, 1 with a report removed or cut off"
    assert said.splitlines()[0] == told and "tiles   0" not in said
    (out / "pairs" / "aside").rename(out / "pairs" / made.sound[0] / "changes.geojson")
    _, said, _ = command("--dry-run", "--retry-failed", "--json")
    assert json.loads(said)["planned"]["retried"] == 2
    assert contents(out) == old


def test_a_dry_run_tells_time_where_the_speed_is_known(made, command, asked):
    def shipped(model: str) -> ModelCard:
        return ModelCard(**{**vars(fake_card(model)), "name": "rscc-small"})

    arguments = ("--dry-run", "--workers", "4")
    _, said, _ = command(*arguments, "--json", card=shipped)
    found = json.loads(said)
    assert found["speed"] == "stated" and found["workers"] == 4
    assert found["seconds"] == pytest.approx(found["worker_seconds"] / 4, abs=0.1)
    tile, change = CORE_SECONDS["rscc-small"]
    per_tile = found["worker_seconds"] / found["tiles"]
    assert found["change_seconds"] / per_tile == pytest.approx(change / tile, rel=0.1), "told for the words"
    _, said, _ = command(*arguments, card=shipped)
    assert "of one worker, " in said and "with 4, to find the changes" in said
    per_change = f"besides {found['change_seconds']:.2g} s of one worker for each change found"
    assert per_change in said and "--time measures" in said


@pytest.mark.slow
def test_a_dry_run_takes_speed_from_done_pairs_and_reads_a_sample(tmp_path, command, asked, monkeypatch):
    made = make_archive(tmp_path, 30)
    write_table(made, made.pairs[:24])
    assert command()[0] == 0, "none failed"
    write_table(made)
    _, said, _ = command("--dry-run", "--json")
    found = json.loads(said)
    assert found["planned"]["pending"] == 6 and found["speed"] == "archive"
    assert found["worker_seconds"] > 0 and found["change_seconds"] is None, "the words are in it"
    assert "(as fast as the pairs that are done)" in command("--dry-run")[1]
    monkeypatch.setattr("workflows.archive.estimate.LOOKED_AT", 4)
    assert "headers of 4 of the 6 pairs to do were read" in command("--dry-run")[1]


def test_a_missing_extra_says_which(made, command, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    for name in [name for name in sys.modules if name.startswith("workflows.engines.dask")]:
        monkeypatch.delitem(sys.modules, name)
    code, _, err = command("--scheduler", "tcp://h:1", "-q")
    assert code == 2 and "pip install 'rscc[distributed]'" in err

"""The command rscc batch: its options, its summaries and its exit codes."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from archive_fakes import fake_card
from archive_pairs import InlineEngine, MadeArchive, contents, make_archive, mark, write_table
from scene_pairs import run_here

from rscc.folders import DEFAULT_MODEL
from rscc.model_card import ModelCard
from workflows.cli import batch as cli_batch


@pytest.fixture
def made(tmp_path) -> MadeArchive:
    return make_archive(tmp_path, 8, each=1, breakages=("missing", "apart"))


@pytest.fixture
def asked(monkeypatch) -> list:
    """Use an engine without processes, and record which was asked for."""
    found = []

    def start(source, workers, scheduler, retries, memory):
        found.append((scheduler, workers, source.model, source.device, retries, memory))
        return InlineEngine()

    monkeypatch.setattr(cli_batch, "_engine", start)
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


@pytest.mark.slow
def test_an_archive_with_failures_ends_with_3_and_says_why(made, out, command, asked):
    code, text, err = command()
    assert code == 3 and asked == [(None, None, DEFAULT_MODEL, "auto", 1, 0)] and err.count("\n") == 1
    lines = text.splitlines()
    assert lines[0].startswith("6 of 8 pairs done in ") and lines[1].startswith("changes ")
    assert lines[2].startswith("failed  2 ") and f"rscc status {out} --failed" in lines[2]
    assert lines[3].startswith("        1: FILE: ") and f"{out}/changes.gpkg" in lines[-1]


@pytest.mark.slow
def test_quiet_prints_nothing_and_json_everything(made, out, command, asked):
    assert command("--quiet") == (3, "", "")
    code, text, _ = command("--json", "-q")
    found = json.loads(text)
    assert code == 3 and found["archive"] == str(out)
    assert (found["pairs"], found["done"], found["failed"], found["skipped_as_done"]) == (8, 6, 2, 6)
    assert {reason["error"] for reason in found["reasons"]} == {"SceneNotFound", "NoOverlap"}


@pytest.mark.slow
def test_the_options_reach_the_pairs_and_marked_reports_are_kept(made, out, command, asked):
    write_table(made, made.sound)
    assert command("--min-area", 50, "--batch-size", 2, "--regularize")[0] == 0
    settings = json.loads((out / "pairs" / made.sound[0] / "changes.geojson").read_text())["rscc"]["settings"]
    assert (settings["min_area"], settings["batch_size"], settings["regularize"]) == (50, 2, True)
    report = next(path for path in out.glob("pairs/*/*.geojson") if b'"Feature"' in path.read_bytes())
    mark(report)
    # Another setting makes every report outdated.
    code, text, _ = command("--min-area", "20", "--dry-run")
    assert code == 0 and text.splitlines()[1].startswith("kept    1 ")
    code, text, _ = command("--min-area", "20", "--json")
    assert (code, json.loads(text)["kept"]) == (3, [report.parent.name])
    assert "kept" not in command("--min-area", "20", "--dry-run", "--overwrite")[1]
    assert json.loads(command("--min-area", "20", "--json", "--overwrite")[1])["kept"] == []


@pytest.mark.parametrize(
    ("options", "engine"),
    [
        (["--workers", "3", "--retries", "4"], (None, 3, DEFAULT_MODEL, "auto", 4, 0)),
        (["--model", "m", "--device", "cpu", "--memory", "1GB"], (None, None, "m", "cpu", 1, 10**9)),
        # The devices of a cluster's workers are not those of this machine.
        (
            ["--scheduler", "tcp://h:1", "--device", "cuda:99"],
            ("tcp://h:1", None, DEFAULT_MODEL, "cuda:99", 1, 0),
        ),
    ],
)
def test_the_engine_is_what_was_asked_for(tmp_path, command, asked, options, engine):
    make_archive(tmp_path, 1)
    command(*options)
    assert asked == [engine]


@pytest.mark.parametrize(
    "options",
    [
        ["--workers", "2", "--scheduler", "tcp://h:1"],
        ["--shard", "0/3"],
        ["--bbox", "1,2"],
        ["--min-area", "-1"],
        ["--device", "quantum"],
        ["--device", "cuda:99"],
    ],
)
def test_wrong_options_are_refused_before_anything_is_written(made, out, command, asked, options):
    code, text, err = command(*options)
    assert (code, text) == (2, "")
    assert err.startswith("rscc: error: ") and options[0].strip("-") in err and err.count("\n") == 1
    assert not out.exists() and asked == []


def test_a_part_of_a_model_and_a_missing_table_are_refused_before_anything_is_written(
    made, out, command, asked
):
    def part(model: str) -> ModelCard:
        return replace(fake_card(model), parts=("backbone.",), description="A backbone")

    code, _, err = command(card=part)
    assert code == 2 and "rscc-base" in err and "--model" in err
    code, _, err = command(table="no.csv")
    assert code == 2 and "no.csv" in err and err.count("\n") == 1
    assert not out.exists()


@pytest.mark.slow
def test_a_dry_run_counts_and_writes_nothing(made, command, asked):
    folder = made.table.parent
    before = sorted(folder.rglob("*"))
    code, text, _ = command("--dry-run", "--json", "-q")
    found = json.loads(text)
    assert code == 0 and asked == [] and sorted(folder.rglob("*")) == before
    assert found["planned"]["pending"] == found["planned"]["new"] == found["looked_at"] == 8
    assert found["input_bytes"] == sum(scene.stat().st_size for scene in made.scenes.iterdir())
    assert (found["missing"], found["remote"]) == (1, 0)
    reasons = {reason["error"]: reason["count"] for reason in found["reasons"]}
    assert reasons == {"SceneNotFound": 1, "NoOverlap": 1}
    assert found["speed"] == "measured" and found["seconds"] > 0
    assert 6 * 28_000 < found["disk_bytes"] < 6 * 60_000 and found["free_bytes"] > 0


@pytest.mark.slow
def test_a_dry_run_predicts_the_tiles_and_the_pairs(made, out, command, asked):
    _, text, _ = command("--dry-run", "--json")
    predicted = json.loads(text)["tiles"]
    shards = [json.loads(command("--dry-run", "--json", "--shard", f"{n}/2")[1]) for n in (1, 2)]
    assert sum(shard["tiles"] for shard in shards) == predicted > shards[0]["tiles"] > 0
    command()
    reports = [json.loads((out / "pairs" / pair / "changes.geojson").read_text()) for pair in made.sound]
    assert predicted == sum(report["rscc"]["tiling"]["tiles"] for report in reports)
    old = contents(out)
    assert command("--dry-run")[1].startswith("pairs   8: 6 done, 2 failed, 0 to do\n")
    (out / "pairs" / made.sound[0] / "changes.geojson").rename(out / "pairs" / "aside")
    planned = json.loads(command("--dry-run", "--json")[1])["planned"]
    assert (planned["done"], planned["pending"], planned["removed"]) == (5, 1, 1)
    (out / "pairs" / "aside").rename(out / "pairs" / made.sound[0] / "changes.geojson")
    _, text, _ = command("--dry-run", "--retry-failed", "--json")
    assert json.loads(text)["planned"]["retried"] == 2
    assert contents(out) == old


@pytest.mark.slow
def test_a_dry_run_measures_the_time_here_but_not_that_of_a_cluster(made, command, asked):
    _, text, _ = command("--dry-run", "--workers", "4", "--json")
    found = json.loads(text)
    assert found["workers"] == 4 and found["worker_seconds"] > 0
    assert found["seconds"] == pytest.approx(found["worker_seconds"] / 4, abs=0.1)
    assert "this machine, measured on one tile" in command("--dry-run")[1]
    assert "time    unknown" in command("--dry-run", "--scheduler", "tcp://nowhere:1")[1]


@pytest.mark.slow
def test_a_table_that_the_run_would_replace_is_refused(made, out, command, asked):
    command()
    table = out / "summary.csv"
    table.write_bytes(made.table.read_bytes())
    code, _, err = command(table=table)
    assert code == 2 and str(table) in err and table.read_bytes() == made.table.read_bytes()


@pytest.mark.slow
def test_pairs_of_a_table_with_changes_are_described_and_follow_their_files(tmp_path, out, command, asked):
    made = make_archive(tmp_path, 2, breakages=(), seed=3)
    code, _, err = command()
    assert code == 0, err
    report = out / "pairs" / made.pairs[0] / "changes.geojson"
    found = json.loads(report.read_text(encoding="utf-8"))["features"]
    assert found
    given = json.dumps({"type": "FeatureCollection", "features": found[:1]})
    (tmp_path / "given.geojson").write_text(given, encoding="utf-8")
    first, *rest = made.table.read_text(encoding="utf-8").splitlines()
    lines = [f"{first},changes", f"{rest[0]},given.geojson", f"{rest[1]},"]
    made.table.write_text("\n".join(lines), encoding="utf-8")
    code, _, err = command()
    assert code == 0, err
    (feature,) = json.loads(report.read_text(encoding="utf-8"))["features"]
    assert feature["properties"]["outline_of"] == "given" and feature["geometry"] == found[0]["geometry"]
    (tmp_path / "given.geojson").unlink()
    assert command()[0] == 3  # a pair whose file is gone fails alone

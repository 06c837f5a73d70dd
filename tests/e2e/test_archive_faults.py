"""The real command with worker processes: Ctrl-C, a second run, a full disk, pairs cut into parts."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from archive_commands import Commands, alive, commands, kill, wait_until, workers_of
from archive_fakes import RUNS, runs
from archive_pairs import MadeArchive, contents, make_archive, pairs_with_folder

from workflows.archive.state import read_state

INTERRUPTED, SOME_FAILED = 130, 3

pytestmark = pytest.mark.slow


@pytest.fixture
def shell(tmp_path) -> Iterator[Commands]:
    with commands(tmp_path) as started:
        yield started


@pytest.fixture
def made(tmp_path) -> MadeArchive:
    return make_archive(tmp_path, 20, each=1, breakages=("missing", "apart"))


def states(out: Path) -> dict[str, int]:
    with read_state(out) as state:
        return {name: count for name, count in vars(state.index.counts()).items() if count}


def test_ctrl_c_once_finishes_what_runs(tmp_path, shell, made):
    reference, out = tmp_path / "reference", tmp_path / "out"
    assert shell.run("batch", made.table, "--out", reference, "--workers", 2) == SOME_FAILED
    (made.scenes / RUNS).touch()
    process = shell.begin("batch", made.table, "--out", out, "--workers", 2)
    wait_until(lambda: pairs_with_folder(out) >= 3, "pairs")
    workers = workers_of(process)
    os.kill(process.pid, signal.SIGINT)
    assert shell.ended(process) == INTERRUPTED
    lines = shell.said().splitlines()
    assert lines[1].startswith("Ctrl-C: ") and lines[-1] == "rscc: interrupted" and len(lines) == 3, lines
    assert len(workers) == 2 and not any(map(alive, workers))
    assert not (out / "changes.gpkg").exists() and not (out / "work").exists()
    found = states(out)
    assert found.keys() <= {"done", "failed", "pending"} and found["done"] >= 3
    # What was begun was finished: nothing is run twice.
    assert shell.run("batch", made.table, "--out", out, "--workers", 2) == SOME_FAILED
    assert sorted(runs(made.scenes)) == sorted(made.before(pair).name for pair in made.sound)
    assert contents(out) == contents(reference)


def test_ctrl_c_twice_abandons_what_runs(tmp_path, shell):
    made = make_archive(tmp_path, 6)
    hanging = made.before(made.pairs[2])
    held = hanging.rename(hanging.with_name("hang.tif"))
    made.table.write_text(made.table.read_text().replace(hanging.name, held.name))
    out = tmp_path / "out"
    process = shell.begin("batch", made.table, "--out", out, "--workers", 2)
    wait_until(lambda: pairs_with_folder(out) == 5, "the other pairs")
    workers = workers_of(process)
    os.kill(process.pid, signal.SIGINT)
    wait_until(lambda: "Ctrl-C: finishing 1 running pair" in shell.said(), "the first Ctrl-C")
    assert process.is_alive()
    os.kill(process.pid, signal.SIGINT)
    assert shell.ended(process) == INTERRUPTED
    assert shell.said().splitlines()[-1] == "rscc: interrupted"
    wait_until(lambda: not any(map(alive, workers)), "the end of the workers")
    assert states(out)["done"] == 5
    held.rename(hanging)
    made.table.write_text(made.table.read_text().replace(held.name, hanging.name))
    assert shell.run("batch", made.table, "--out", out, "--workers", 2) == 0
    assert states(out) == {"done": 6}


def test_a_large_pair_whose_run_is_killed_gives_the_report_of_the_whole(tmp_path, shell, monkeypatch):
    made = make_archive(tmp_path, 2, size=(420, 300), seed=4)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert shell.run("batch", made.table, "--out", whole, "--workers", 1) == 0
    (made.scenes / RUNS).touch()
    command = ("batch", made.table, "--out", parts, "--workers", 2)
    process = shell.begin(*command, split_above=20)
    maps = parts / "work" / "maps"
    wait_until(lambda: any(path.is_file() for path in maps.rglob("*")) or not process.is_alive(), "a part")
    kill(process)
    assert process.exitcode == -signal.SIGKILL, "it is to be killed with some rows done"
    assert shell.ended(shell.begin(*command, split_above=20)) == 0, shell.said()
    assert contents(parts) == contents(whole)
    report = json.loads((whole / "pairs" / made.pairs[0] / "changes.geojson").read_text())
    assert report["rscc"]["tiling"]["tiles"] > 40 and report["features"]
    # Whole pairs were never run: only their parts, and what is made of them.
    assert runs(made.scenes) == []


def test_a_model_that_cannot_be_loaded_is_one_line_and_nothing_is_lost(tmp_path, shell):
    made, out = make_archive(tmp_path, 4, each=1, breakages=("missing",)), tmp_path / "out"
    assert shell.run("batch", made.table, "--out", out, "--workers", 2, "--model", "missing") == 2
    assert shell.said().splitlines()[-1] == "rscc: error: missing: no model has this name; see rscc models"
    assert states(out).keys() <= {"pending", "running"}
    assert shell.run("batch", made.table, "--out", out, "--workers", 2) == SOME_FAILED

"""Whatever is killed at whatever moment: the same command again gives the archive of an undisturbed run."""

import os
import random
import re
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from archive_commands import Commands, QuickCluster, alive, commands, kill, wait_until, workers_of
from archive_fakes import RUNS, runs
from archive_pairs import MadeArchive, contents, make_archive, pairs_with_folder

from workflows.archive.state import read_state
from workflows.errors import MarkMissing

SOME_FAILED = 3

pytestmark = [pytest.mark.slow, pytest.mark.kills]


@pytest.fixture
def shell(tmp_path) -> Iterator[Commands]:
    with commands(tmp_path) as started:
        yield started


def made_with_runs(folder: Path, count: int) -> MadeArchive:
    made = make_archive(folder, count, each=1, breakages=("missing", "apart"))
    (made.scenes / RUNS).touch()
    return made


def times_run(made: MadeArchive) -> Counter[str]:
    """How many times each pair was run, by id."""
    return Counter(name.removesuffix("_before.tif") for name in runs(made.scenes))


def undisturbed(folder: Path, shell: Commands, made: MadeArchive) -> dict[str, bytes]:
    """What an archive holds whose run nobody kills."""
    command = ("batch", made.table, "--out", folder / "reference", "--workers", 2)
    assert shell.run(*command) == SOME_FAILED
    return contents(folder / "reference")


def assert_run_once(done: set[str], before: Counter[str], after: Counter[str]) -> None:
    """What was done before the kill was run before it and never again."""
    assert all(before[pair] == after[pair] == 1 for pair in done)


def kill_pid(pid: int) -> None:
    """Kill a process, unless it has ended."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def recorded(out: Path, state: str) -> set[str]:
    """The pairs in a state, as the folders say."""
    try:
        with read_state(out) as found:
            return {row.pair for row in found.index.rows(state)}
    except MarkMissing:
        return set()


def test_the_coordinator_killed_at_any_moment(tmp_path, shell, kill_cycles):
    made, seed = made_with_runs(tmp_path, 10), random.Random(1)
    sound, expected = len(made.sound), undisturbed(tmp_path, shell, made)
    states, landed = Counter(), 0
    for number in range(kill_cycles):
        out = tmp_path / f"out{number}"
        (made.scenes / RUNS).write_text("")
        process = shell.begin("batch", made.table, "--out", out, "--workers", 2)
        # Before and while workers start, between any two pairs, while the layers are made, and at the end.
        pairs = int((sound + 6) * (number + seed.random()) / kill_cycles) - 3
        wait_until(lambda: pairs_with_folder(out) >= min(pairs, sound) or not process.is_alive(), "pairs")  # noqa: B023
        time.sleep(seed.uniform(0, 1.0 if pairs <= 0 else 0.1))
        workers = workers_of(process)
        kill(process)
        landed += process.exitcode == -signal.SIGKILL
        wait_until(lambda: not any(map(alive, workers)), "the end of the workers")  # noqa: B023
        done, before = recorded(out, "done"), times_run(made)
        states[len(done)] += 1
        assert done <= {path.name for path in (out / "pairs").iterdir()} if done else True

        assert shell.run("batch", made.table, "--out", out, "--workers", 2) == SOME_FAILED, shell.said()
        assert contents(out) == expected, f"killed after {pairs} pairs"
        assert recorded(out, "done") == set(made.sound)
        assert_run_once(done, before, times_run(made))
        assert max(times_run(made).values()) <= 2
    assert len(states) >= min(6, kill_cycles - 2), f"moments are to differ: {states}"
    print(f"{kill_cycles} kills of rscc batch, {landed} of them at work; pairs done then: {states}")


def test_workers_killed_at_any_moment(tmp_path, shell, kill_cycles):
    made, seed = made_with_runs(tmp_path, 2 * kill_cycles + 8), random.Random(2)
    expected, out = undisturbed(tmp_path, shell, made), tmp_path / "out"
    (made.scenes / RUNS).write_text("")
    process = shell.begin("batch", made.table, "--out", out, "--workers", 2, "--retries", 9)
    for number in range(kill_cycles):
        # Where the machine is busy elsewhere, the run may be over before the last kill.
        wait_until(
            lambda: (2 * number < pairs_with_folder(out) < len(runs(made.scenes))) or not process.is_alive(),  # noqa: B023
            "a worker at work",
        )
        workers = workers_of(process)
        if number:  # first all of them, at once: one is at work
            time.sleep(seed.uniform(0, 0.1))
            workers = workers and [seed.choice(workers)]
        for worker in workers:
            kill_pid(worker)
    process.join(300)
    assert process.exitcode == SOME_FAILED, shell.said()
    assert contents(out) == expected
    repeated = sum(count - 1 for count in times_run(made).values())
    assert repeated >= max(1, kill_cycles // 5), "killed at work"
    print(f"{kill_cycles} kills of workers of rscc batch, {repeated} pairs repeated")
    assert shell.run("batch", made.table, "--out", out, "--workers", 2, "--retries", 9) == SOME_FAILED
    assert contents(out) == expected


def test_the_scheduler_killed_at_any_moment(tmp_path, shell, kill_cycles):
    made, seed = made_with_runs(tmp_path, 10), random.Random(3)
    sound, expected = len(made.sound), undisturbed(tmp_path, shell, made)
    cluster, codes = QuickCluster(shell, tmp_path, workers=2), Counter()
    for number in range(kill_cycles):
        out = tmp_path / f"out{number}"
        command = ("batch", made.table, "--out", out, "--scheduler", cluster.address)
        (made.scenes / RUNS).write_text("")
        process = shell.begin(*command)
        pairs = int((sound + 1) * (number + seed.random()) / kill_cycles) - 1
        wait_until(lambda: pairs_with_folder(out) >= pairs or not process.is_alive(), "pairs")  # noqa: B023
        time.sleep(seed.uniform(0, 1.0 if pairs <= 0 else 0.05))
        cluster.kill_scheduler()
        process.join(300)
        codes[process.exitcode] += 1
        if process.exitcode == 1:
            assert re.search(r"^rscc: error: tcp://127.0.0.1:\d+: ", shell.said(), re.MULTILINE), shell.said()
        else:
            assert process.exitcode == SOME_FAILED, shell.said()
        done, before = recorded(out, "done"), times_run(made)

        cluster.start()
        assert shell.run(*command) == SOME_FAILED, shell.said()
        assert contents(out) == expected, f"killed after {pairs} pairs"
        assert_run_once(done, before, times_run(made))
    assert codes[1] >= kill_cycles / 2, f"the scheduler is to be killed at work: {codes}"
    print(f"{kill_cycles} kills of the scheduler of rscc batch, {codes[1]} of them at work")

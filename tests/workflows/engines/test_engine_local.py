from __future__ import annotations

import json
import os
import signal
import time
from contextlib import suppress
from multiprocessing.process import BaseProcess
from pathlib import Path

import psutil
import pytest
from archive_commands import alive, commands, kill, lead, wait_until
from archive_fakes import Unpicklable, load_fake, runs
from dask_processes import family, kill_tree
from engines import LONG, drive

from rscc.errors import DeviceUnavailable
from workflows.engines import processes
from workflows.engines.limits import Limits
from workflows.engines.local import LocalEngine, _ending
from workflows.engines.tasks import ModelSource
from workflows.errors import WorkersUnable

SOURCE = ModelSource("any", "cpu", load_fake)


def load_on_first_device(model, device):
    """Fails as a GPU that is not there does."""
    if device != "cuda:0":
        raise DeviceUnavailable(f"device {device!r} is not available here; use cpu, or auto")
    return load_fake(model, device)


def load_in_this_environment(model, device):
    assert os.environ["RSCC_TEST_WORD"] == model
    return load_fake(model, device)


def load_unportable(model, device):
    raise Unpicklable("one", "two")


def load_here_once(model, device):
    """Loads on cuda:1 in the first process that tries alone; the folder is the model's name."""
    if device != "cuda:1":
        return load_fake(model, device)
    try:
        (Path(model) / "loaded").touch(exist_ok=False)
    except FileExistsError:
        raise DeviceUnavailable("the device fell off") from None
    return load_fake(model, device)


def load_or_be_killed(model, device):
    """Is killed on cuda:1, once cuda:0 is at work in the folder that is the model's name."""
    if device == "cuda:1":
        wait_until(lambda: runs(Path(model)))
        os.kill(os.getpid(), signal.SIGKILL)
    return load_fake(model, device)


@pytest.fixture
def two_gpus(monkeypatch):
    monkeypatch.setattr(processes, "visible_gpus", lambda: 2)


def warm(engine, tasks):
    """Do tasks until all workers are there; return the outcomes and the other tasks."""
    found = drive(engine, tasks[: len(engine._places)])
    wait_until(lambda: engine.wait(0.1) == [] and all(place.worked for place in engine._places))
    return found, tasks[len(engine._places) :]


def pids(engine):
    return [worker.process.pid for worker in engine._workers()]


@pytest.mark.slow
def test_two_workers_share_the_tasks_and_end_with_the_engine(tasks, tmp_path):
    with LocalEngine(SOURCE, 2) as engine:
        found, rest = warm(engine, tasks(*["slow"] * 6))
        found |= drive(engine, rest)
        workers = pids(engine)
        assert len(workers) == 2
    assert {outcome.state for outcome in found.values()} == {"done"}
    assert {outcome.worker for outcome in found.values()} == {"local-1", "local-2"}
    assert all(json.loads(outcome.result.report)["features"] for outcome in found.values())
    assert not any(map(alive, workers))


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells and limits both")
def test_a_pair_that_takes_too_much_is_one_failed_pair(tasks):
    """Without the limits the first is done, and the second never ends."""
    with LocalEngine(SOURCE, 1, limits=Limits(memory=2**29, cpu_seconds=3)) as engine:
        found = drive(engine, tasks("plain", "bomb", "plain", "spin", "plain"))
    states = {pair.partition("-")[0]: outcome.state for pair, outcome in found.items()}
    assert states == {"plain": "done", "bomb": "failed", "spin": "crashed"}
    assert [outcome.state for outcome in found.values()].count("done") == 3
    by_name = {pair.partition("-")[0]: outcome.line for pair, outcome in found.items()}
    assert by_name["bomb"].startswith("memory ran out") and "set --memory" in by_name["bomb"]
    assert by_name["spin"].startswith("the worker process computed longer on it than is allowed (SIGXCPU)")


@pytest.mark.slow
def test_what_is_not_limited_is_done(tasks):
    with LocalEngine(SOURCE, 1) as engine:
        (outcome,) = drive(engine, tasks("bomb")).values()
    assert outcome.state == "done"


def test_there_are_never_more_workers_than_tasks(tasks):
    with LocalEngine(SOURCE, 4) as engine:
        assert engine.wanted() == 8 and pids(engine) == []
        drive(engine, tasks("plain"))
        assert len(pids(engine)) == 1
        assert engine.wait(0.01) == []


@pytest.mark.slow
def test_a_pair_that_ends_its_process_takes_nothing_with_it(tasks):
    ends = {"abort": "crashed (SIGABRT)", "segv": "crashed (SIGSEGV)", "oom": "SIGKILL", "exit": "code 3"}
    with LocalEngine(SOURCE, 1) as engine:
        found = drive(engine, tasks(*(name for word in ends for name in ("plain", word)), "plain"))
    assert [outcome.state for outcome in found.values()] == ["done", "crashed"] * 4 + ["done"]
    for bad, line in zip(list(found.values())[1::2], ends.values(), strict=True):
        assert (bad.error, bad.worker, bad.result) == ("WorkerDied", "local-1", None)
        assert line in bad.line and "\n" not in bad.line


@pytest.mark.slow
def test_a_worker_that_is_killed_in_a_task_crashes_it_and_is_replaced(tasks, tmp_path):
    (tmp_path / "runs.log").touch()
    hanging, *others = tasks("hang", "plain", "plain")
    with LocalEngine(SOURCE, 1) as engine:
        engine.submit(hanging)
        while not runs(tmp_path):
            assert engine.wait(0.1) == []
        (first,) = pids(engine)
        os.kill(first, signal.SIGKILL)
        outcome = engine.wait(LONG)
        assert [one.state for one in outcome] == ["crashed"] and not alive(first)
        assert {one.state for one in drive(engine, others).values()} == {"done"}


@pytest.mark.slow
def test_a_worker_that_is_killed_at_rest_is_replaced_without_loss(tasks):
    first, *others = tasks(*["plain"] * 4)
    with LocalEngine(SOURCE, 1) as engine:
        drive(engine, [first])
        (pid,) = pids(engine)
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not alive(pid))
        found = drive(engine, others)
    assert {one.state for one in found.values()} <= {"done", "crashed"}
    assert sum(one.state == "crashed" for one in found.values()) <= 1


@pytest.mark.slow
def test_a_worker_that_is_killed_while_it_starts_is_started_again(tasks):
    with LocalEngine(SOURCE, 1) as engine:
        (task,) = tasks("plain")
        engine.submit(task)
        os.kill(pids(engine)[0], signal.SIGKILL)
        assert [outcome.state for outcome in engine.wait(LONG)] == ["done"]


@pytest.mark.slow
def test_a_model_that_cannot_be_loaded_ends_it_with_its_own_words(tasks):
    words, source = "unexpected Unpicklable: one and two", ModelSource("any", "cpu", load_unportable)
    with pytest.raises(WorkersUnable, match=words), LocalEngine(source, 1) as engine:
        drive(engine, tasks("plain", "plain"))
    assert pids(engine) == []


@pytest.mark.slow
def test_each_worker_computes_on_its_device(tasks, two_gpus):
    with LocalEngine(ModelSource("any", "cuda", load_fake), None) as engine:
        assert [place.device for place in engine._places] == ["cuda:0", "cuda:1"]
        found = drive(engine, tasks("slow", "slow"))
    assert {outcome.state for outcome in found.values()} == {"done"}
    source = ModelSource("any", "cuda", load_on_first_device)
    with pytest.raises(DeviceUnavailable, match="cuda:1"), LocalEngine(source, 2) as engine:
        drive(engine, tasks("slow", "slow", "slow"))


@pytest.mark.slow
def test_a_worker_that_cannot_start_again_is_given_up_while_others_work(tasks, two_gpus, tmp_path, caplog):
    source = ModelSource(str(tmp_path), "cuda", load_here_once)
    with LocalEngine(source, 2) as engine:
        _, rest = warm(engine, tasks(*["slow"] * 60))
        engine._places[1].worker.process.kill()
        found = {}
        # As long as there is something left to do, it is tried again.
        while engine.wanted() > 2:
            found |= drive(engine, [rest.pop(0) for _ in range(3)])
        found |= drive(engine, rest[:1])
    assert {one.worker for one in found.values() if one.state == "done"} == {"local-1"}
    assert "worker local-2 cannot start again (the device fell off)" in caplog.text


@pytest.mark.slow
def test_a_worker_that_is_killed_while_it_loads_ends_no_run_in_which_others_work(
    tasks, two_gpus, tmp_path, caplog
):
    (tmp_path / "runs.log").touch()
    source, rest, found = ModelSource(str(tmp_path), "cuda", load_or_be_killed), tasks(*["slow"] * 60), {}
    with LocalEngine(source, 2) as engine:
        while engine.wanted() > 2:
            found |= drive(engine, [rest.pop(0) for _ in range(5)])
    assert {(one.state, one.worker) for one in found.values()} == {("done", "local-1")}
    assert "worker local-2 cannot start again" in caplog.text and "SIGKILL" in caplog.text


@pytest.mark.slow
def test_the_last_worker_that_cannot_start_again_says_why(tasks, tmp_path):
    source = ModelSource(str(tmp_path), "cuda:1", load_here_once)
    with pytest.raises(DeviceUnavailable, match="fell off"), LocalEngine(source, 1) as engine:
        drive(engine, tasks("plain", "abort", "plain"))


@pytest.mark.slow
def test_a_device_that_is_lost_takes_its_process_along(tasks, monkeypatch):
    with LocalEngine(ModelSource("any", "cpu", load_lost), 1) as engine:
        found = drive(engine, tasks("plain", "plain"))
    assert [outcome.error for outcome in found.values()] == ["AcceleratorError", "AcceleratorError"]
    assert len({outcome.line for outcome in found.values()}) == 2, "the second ran in a new process"


class AcceleratorError(RuntimeError):
    """Named as torch names it."""


def load_lost(model, device):
    captioner = load_fake(model, device)

    def lost(before, after):
        raise AcceleratorError(f"CUDA error in process {os.getpid()}")

    captioner.predict_change = lost
    return captioner


@pytest.mark.slow
def test_abandoning_ends_a_hanging_worker_at_once(tasks, tmp_path):
    (tmp_path / "runs.log").touch()
    with pytest.raises(KeyboardInterrupt), LocalEngine(SOURCE, 1) as engine:
        engine.submit(tasks("hang")[0])
        wait_until(lambda: engine.wait(0.05) or runs(tmp_path))
        (pid,) = pids(engine)
        raise KeyboardInterrupt
    assert not alive(pid)


@pytest.fixture
def coordinator(tmp_path):
    """Start a process that leads two workers."""
    (tmp_path / "runs.log").touch()
    with commands(tmp_path) as shell:
        yield lambda tasks: shell.start(lead, [(task.before, task.after) for task in tasks], tmp_path)


def said(process, tmp_path):
    process.join(LONG)
    return [(tmp_path / name).read_text().splitlines() for name in ("out.txt", "err.txt")]


@pytest.mark.slow
@pytest.mark.parametrize("word", ["hang", "held"])
def test_no_worker_outlives_a_coordinator_that_is_killed(tasks, coordinator, tmp_path, word):
    process = coordinator(tasks(word, word))
    wait_until(lambda: len(runs(tmp_path)) == 2)
    left = [one.pid for one in family(process.pid)]
    assert len(left) >= 3
    kill(process)
    try:
        wait_until(lambda: not any(map(alive, left)))
    finally:
        for pid in left:
            kill_tree(pid)


@pytest.mark.slow
def test_ctrl_c_at_the_terminal_leaves_the_workers_at_work(tasks, coordinator, tmp_path):
    """The whole foreground group gets the signal, at any moment; the coordinator's own part is not tested."""
    process = coordinator(tasks("slow", "slow"))
    while process.is_alive():
        for child in family(process.pid)[1:]:
            with suppress(psutil.NoSuchProcess):
                child.send_signal(signal.SIGINT)
        time.sleep(0.01)
    assert said(process, tmp_path) == [["done 2"], []]


@pytest.mark.slow
def test_the_output_is_the_commands_own(tasks, coordinator, tmp_path):
    out, err = said(coordinator(tasks("noisy", "noisy")), tmp_path)
    assert (out, err.count("a line on stdout")) == (["done 2"], 2)


@pytest.mark.slow
def test_workers_have_the_environment_of_the_moment(tasks, monkeypatch):
    for word in ("one", "two"):
        monkeypatch.setenv("RSCC_TEST_WORD", word)
        with LocalEngine(ModelSource(word, "cpu", load_in_this_environment), 1) as engine:
            (outcome,) = drive(engine, tasks("plain")).values()
        assert outcome.state == "done"


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (OSError(11, "Resource temporarily unavailable"), "Resource temporarily"),
        (EOFError(), "the system lets no more begin"),
    ],
)
def test_a_process_that_cannot_be_started_is_said(tasks, monkeypatch, error, why):
    def start(process):
        raise error

    monkeypatch.setattr(BaseProcess, "start", start)
    words = rf"no worker process can be started \({why}.*\); try fewer"
    with pytest.raises(WorkersUnable, match=words), LocalEngine(SOURCE, 1) as engine:
        engine.submit(tasks("plain")[0])


@pytest.mark.parametrize(
    ("exitcode", "words"),
    [(3, "exit code 3"), (0, "exit code 0"), (-6, "SIGABRT"), (-9, "memory runs out"), (-250, "signal 250")],
)
def test_the_end_of_a_process_in_words(exitcode, words):
    assert words in _ending(exitcode)

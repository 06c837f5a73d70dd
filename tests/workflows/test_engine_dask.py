from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import CancelledError
from contextlib import suppress
from pathlib import Path

import dask
import psutil
import pytest
from archive_fakes import BIG, load_fake, runs
from dask.utils import parse_timedelta
from dask_processes import OURS, Cluster, kill_tree
from distributed import Client
from distributed.client import FutureCancelledError
from engines import LONG, drive, family, gone, lasting, make_tasks, until

from rscc.errors import ModelNotFound
from workflows import dask_clusters, engine_dask
from workflows.engine_dask import DaskEngine
from workflows.engine_local import LocalEngine
from workflows.errors import SchedulerLost, VersionsDiffer, WorkersUnable
from workflows.tasks import ModelSource

SOURCE = ModelSource("any", "cpu", load_fake)
# Dask says so where the disk is busy, and closes what it has open when it is collected.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Creating scratch directories"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture
def tasks(tmp_path):
    """Make tasks of small pairs by their names."""
    return lambda *names: make_tasks(tmp_path, names)


@pytest.fixture
def cluster(tmp_path):
    folder = tmp_path / "cluster"
    folder.mkdir()
    with Cluster(folder) as cluster:
        yield cluster


def test_a_cluster_of_our_own_gives_what_the_local_engine_gives(tasks, capfd):
    made = tasks("plain", "slow", "raise", "abort", "big", "unpicklable", "noisy", "plain")
    before, others = dict(os.environ), _workers(os.getpid())
    with DaskEngine(SOURCE, 2) as engine:
        assert engine.wanted() == 4 and engine.shared_folder(Path())
        mine = _workers(os.getpid()) - others
        assert len(mine) >= 2
        found = drive(engine, made)
        mine |= _workers(os.getpid()) - others  # those that came back after the abort
    assert os.environ == before
    with LocalEngine(SOURCE, 1) as engine:
        alone = drive(engine, made)
    for pair, outcome in found.items():
        same = alone[pair]
        assert (outcome.state, outcome.error) == (same.state, same.error)
        if outcome.state == "done":
            assert lasting(outcome) == lasting(same)
        elif outcome.state == "failed":
            assert outcome.line == same.line
    assert (found["abort-3"].state, found["raise-2"].state) == ("crashed", "failed")
    assert {found["plain-0"].worker, found["slow-1"].worker} <= {"dask-0", "dask-1"}
    assert len(found["big-4"].result.report) > BIG
    out, err = capfd.readouterr()
    assert out == "" and "distributed" not in err
    assert all(gone(pid) for pid in mine)


def _words(pid):
    with suppress(psutil.Error):
        return psutil.Process(pid).cmdline()
    return []


def test_a_model_that_cannot_be_loaded_ends_it_with_its_own_words(tasks):
    with (
        pytest.raises(ModelNotFound, match="missing: no model has this name"),
        DaskEngine(ModelSource("missing", "cpu", load_fake), 1) as engine,
    ):
        drive(engine, tasks("plain", "plain"))


def test_workers_that_die_over_the_model_end_it_soon(tasks):
    with (
        pytest.raises(WorkersUnable, match="before they finish anything"),
        DaskEngine(ModelSource("dies", "cpu", load_fake), 2) as engine,
    ):
        drive(engine, tasks(*["plain"] * 12))


def test_a_worker_that_is_slow_to_come_back_is_not_given_up(tasks):
    with DaskEngine(SOURCE, 1) as engine:
        assert parse_timedelta(dask.config.get("distributed.deploy.lost-worker-timeout")) > LONG
        found = drive(engine, tasks("abort", "plain"))
        assert {outcome.state for outcome in found.values()} == {"crashed", "done"}


def test_each_worker_computes_on_its_device(tasks, monkeypatch):
    monkeypatch.setattr(engine_dask, "local_devices", lambda device, workers: ["cuda:0", "cuda:1"])
    source = ModelSource("any", "cpu", load_on_one_device)
    with pytest.raises(ModelNotFound, match="not on cuda:1"), DaskEngine(source, 2) as engine:
        drive(engine, tasks(*["slow"] * 8))


def load_on_one_device(model, device):
    if device != "cuda:0":
        raise ModelNotFound(f"not on {device}")
    return load_fake(model, device)


def test_tasks_that_nobody_began_are_taken_back(tasks, tmp_path):
    (tmp_path / "runs.log").touch()
    made = tasks("slow", *["plain"] * 5)
    with DaskEngine(SOURCE, 1) as engine:
        engine.submit(made[0])
        until(lambda: len(runs(tmp_path)) == 1)
        for task in made[1:]:
            engine.submit(task)
        back = engine.withdraw()
        rest = [task for task in made if task not in back]
        found = []
        until(lambda: found.extend(engine.wait(0.5)) or len(found) == len(rest))
        assert engine.wait(0.5) == []
    # The scheduler may have sent one more on to the worker.
    assert 4 <= len(back) <= 5
    assert sorted(one.task.pair for one in found) == sorted(task.pair for task in rest)
    assert len(runs(tmp_path)) == len(rest)


def test_abandoning_ends_hanging_workers_at_once(tasks, tmp_path):
    (tmp_path / "runs.log").touch()
    others = _workers(os.getpid())
    with DaskEngine(SOURCE, 2) as engine:
        for task in tasks("hang", "hang"):
            engine.submit(task)
        until(lambda: len(runs(tmp_path)) == 2)
        workers = _workers(os.getpid()) - others
        assert len(workers) >= 2
        started = time.monotonic()
        engine.close(abandon=True)
        assert time.monotonic() - started < 60
    until(lambda: all(gone(pid) for pid in workers))


@pytest.mark.parametrize("said", [FutureCancelledError("key", "scheduler-connection-lost"), CancelledError()])
def test_a_task_that_was_cancelled_tells_that_the_scheduler_is_gone(tasks, said):
    """No pair has failed then, even while the client has not noticed."""

    class Taken:
        def release(self):
            pass

    engine = DaskEngine(SOURCE, 1)
    (task,) = tasks("plain")
    engine._tasks["key"] = (task, Taken())
    with pytest.raises(SchedulerLost, match="run the same command again"):
        engine._heard("key", said)


def test_workers_of_our_own_that_do_not_come_back_end_the_run(tasks, monkeypatch):
    monkeypatch.setattr(engine_dask, "NOBODY_BACK", 0.2)
    with (
        pytest.raises(WorkersUnable, match="did not come back; run the same command again"),
        DaskEngine(SOURCE, 1) as engine,
    ):
        # Slower than that, but there: nothing is said.
        drive(engine, tasks("slow"))
        dask_clusters.kill_workers(engine._cluster)
        until(lambda: not engine._cluster.scheduler.workers)
        drive(engine, tasks("plain"))


def _workers(pid):
    return {one.pid for one in family(pid)[1:] if "resource_tracker" not in " ".join(_words(one.pid))}


COORDINATOR = """
import json, sys, time
from archive_fakes import load_fake
from workflows import SceneOptions
from workflows.engine_dask import DaskEngine
from workflows.tasks import ModelSource, Task

if __name__ == "__main__":
    with DaskEngine(ModelSource("any", "cpu", load_fake), 2) as engine:
        for number, (before, after) in enumerate(json.loads(sys.argv[1])):
            engine.submit(Task(str(number), str(number), "pair", 1, before, after, SceneOptions()))
        deadline, done = time.monotonic() + 60, 0
        while done < 2 and time.monotonic() < deadline:
            done += len(engine.wait(0.1))
    print("done", done, flush=True)
"""


@pytest.fixture
def coordinator(tmp_path):
    """Start a process that leads a cluster of its own; killed at the end with all that it started."""
    started = []

    def start(tasks):
        (tmp_path / "runs.log").touch()
        script = tmp_path / "coordinator.py"
        script.write_text(COORDINATOR)
        path = os.pathsep.join(OURS)
        process = subprocess.Popen(
            [sys.executable, str(script), json.dumps([(task.before, task.after) for task in tasks])],
            env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        kill_tree(process.pid)
        process.communicate()


def test_no_worker_outlives_a_coordinator_that_is_killed(tasks, coordinator, tmp_path):
    process = coordinator(tasks("hang", "hang"))
    until(lambda: len(runs(tmp_path)) == 2)
    left = [one.pid for one in family(process.pid)]
    assert len(left) >= 3
    process.kill()
    process.wait(timeout=120)
    try:
        until(lambda: all(gone(pid) for pid in left))
    finally:
        for pid in left:
            kill_tree(pid)


def test_ctrl_c_at_the_terminal_leaves_the_workers_at_work(tasks, coordinator):
    process = coordinator(tasks("slow", "slow"))
    while process.poll() is None:
        for child in family(process.pid)[1:]:
            with suppress(psutil.NoSuchProcess):
                child.send_signal(signal.SIGINT)
        time.sleep(0.01)
    out, err = process.communicate(timeout=120)
    assert (out.splitlines(), err) == (["done 2"], "")


def test_a_cluster_that_is_there_does_the_tasks_and_stays(cluster, tasks, tmp_path):
    address = cluster.scheduler()
    cluster.worker("--name", "one")
    cluster.worker("--name", "two", threads=2)
    with DaskEngine(SOURCE, scheduler=address) as engine:
        assert engine.wanted() >= engine_dask.LEAST
        *others, last = tasks(*["slow"] * 8, "raise", "abort")
        found = drive(engine, others)
        # Alone: the tasks beside one that takes its worker down are lost with it.
        found |= drive(engine, [last])
        assert engine.shared_folder(tmp_path)
        assert sorted(path.name for path in tmp_path.glob(".*")) == []
    states = [outcome.state for outcome in found.values()]
    assert (states.count("done"), found["raise-8"].state, found["abort-9"].state) == (8, "failed", "crashed")
    assert {one.worker for one in found.values()} <= {"dask-one", "dask-two"}
    with DaskEngine(SOURCE, scheduler=address) as engine:
        (again,) = drive(engine, tasks("plain")).values()
    assert again.state == "done"


def test_tasks_of_a_lost_worker_are_done_by_another(cluster, tasks, tmp_path):
    (tmp_path / "runs.log").touch()
    address = cluster.scheduler()
    lost = cluster.worker("--no-nanny")
    with DaskEngine(SOURCE, scheduler=address) as engine:
        made = tasks("slow", "slow", "slow")
        for task in made:
            engine.submit(task)
        until(lambda: len(runs(tmp_path)) >= 1)
        kill_tree(lost.pid)
        cluster.worker("--no-nanny")
        found = []
        deadline = time.monotonic() + LONG
        while len(found) < 3 and time.monotonic() < deadline:
            found += engine.wait(2)
    assert [one.state for one in found] == ["done"] * 3


def test_a_lost_scheduler_is_said_and_nothing_hangs(cluster, tasks, tmp_path):
    (tmp_path / "runs.log").touch()
    address = cluster.scheduler()
    cluster.worker()
    started = None
    with pytest.raises(SchedulerLost, match="went away"), DaskEngine(SOURCE, scheduler=address) as engine:
        engine.submit(tasks("hang")[0])
        until(lambda: runs(tmp_path))
        kill_tree(cluster.processes[0].pid)
        started = time.monotonic()
        while time.monotonic() - started < LONG:
            engine.wait(1)
    assert time.monotonic() - started < LONG / 2


def test_a_scheduler_that_is_not_there_is_said(monkeypatch, unused_address):
    monkeypatch.setattr(dask_clusters, "ANSWER", 1.0)
    for address in (unused_address, "nonsense://x"):
        with pytest.raises(SchedulerLost, match=f"{address}: no Dask scheduler answers"):
            DaskEngine(SOURCE, scheduler=address).__enter__()


@pytest.fixture
def unused_address():
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return f"tcp://127.0.0.1:{port}"


def test_only_workers_with_a_gpu_get_tasks_when_asked(cluster, tasks):
    address = cluster.scheduler()
    cluster.worker("--name", "plain", threads=2)
    cluster.worker("--name", "gpu", "--resources", "GPU=1", threads=2)
    with DaskEngine(SOURCE, scheduler=address, gpu_workers=True) as engine:
        engine._led.wait_for_workers(2, timeout=120)
        found = drive(engine, tasks(*["slow"] * 4))
    assert {one.worker for one in found.values()} == {"dask-gpu"}
    with DaskEngine(SOURCE, 1, gpu_workers=True) as engine:
        assert len(drive(engine, tasks("plain", "plain"))) == 2


@pytest.mark.parametrize("lacking", ["scheduler", "worker", "other"])
def test_another_version_of_rscc_is_refused(cluster, tasks, tmp_path, lacking):
    address = cluster.scheduler(() if lacking == "scheduler" else OURS)
    other = tmp_path / "other_version.py"
    other.write_text("import rscc\nrscc.__version__ = '99'\n")
    if lacking == "worker":
        cluster.worker(paths=())
    else:
        cluster.worker(*(["--preload", str(other)] if lacking == "other" else []))
    with Client(address, set_as_default=False) as client:
        client.wait_for_workers(1, timeout=120)
    with (
        pytest.raises(VersionsDiffer, match="install the same on scheduler and workers"),
        DaskEngine(SOURCE, scheduler=address) as engine,
    ):
        drive(engine, tasks("plain"), 60)


def test_a_cluster_that_grows_with_its_work_is_let_grow(tasks):
    import dask
    from distributed import LocalCluster

    with (
        dask.config.set({"distributed.adaptive.interval": "100ms", "distributed.adaptive.wait-count": 2}),
        LocalCluster(
            n_workers=0, threads_per_worker=1, dashboard_address="127.0.0.1:0", memory_limit=0
        ) as cluster,
    ):
        cluster.adapt(minimum=0, maximum=2, target_duration="100ms")
        with DaskEngine(SOURCE, scheduler=cluster.scheduler_address) as engine:
            assert not cluster.workers
            found = drive(engine, tasks(*["slow"] * 8))
            assert len({one.worker for one in found.values()}) == 2
            until(lambda: not cluster.workers)
            assert drive(engine, tasks("plain"))["plain-0"].state == "done"
    assert {one.state for one in found.values()} == {"done"}


def test_without_workers_nothing_is_shared_and_it_is_said_that_there_are_none(
    cluster, tasks, tmp_path, monkeypatch, caplog
):
    monkeypatch.setattr(engine_dask, "WORKERS", 0.3)
    monkeypatch.setattr(engine_dask, "NOBODY", 0.5)
    with DaskEngine(SOURCE, scheduler=cluster.scheduler()) as engine:
        assert not engine.shared_folder(tmp_path)
        engine.submit(tasks("plain")[0])
        until(lambda: engine.wait(0.2) == [] and "has no workers" in caplog.text)
        assert len(engine.withdraw()) == 1

from __future__ import annotations

import socket
from concurrent.futures import CancelledError

import dask
import pytest
from archive_commands import QuickCluster, commands, kill, wait_until
from archive_fakes import load_fake, runs
from dask_processes import OURS, Cluster
from distributed import Client, LocalCluster
from distributed.client import FutureCancelledError
from engines import drive

from workflows.engines import dask as engine_dask
from workflows.engines.dask import DaskEngine
from workflows.engines.tasks import ModelSource
from workflows.errors import SchedulerLost, VersionsDiffer, WorkersUnable

SOURCE = ModelSource("any", "cpu", load_fake)
# Dask says so where the disk is busy, and closes what it has open when it is collected.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Creating scratch directories"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "cluster"
    folder.mkdir()
    return folder


@pytest.fixture
def cluster(folder):
    with commands(folder) as shell:
        yield QuickCluster(shell, folder)


@pytest.mark.parametrize("said", [FutureCancelledError("key", "scheduler-connection-lost"), CancelledError()])
def test_a_task_that_was_cancelled_tells_that_the_scheduler_is_gone(tasks, said):
    """No pair has failed then, even while the client has not noticed."""

    class Taken:
        def release(self):
            pass

    engine = DaskEngine(SOURCE, "tcp://h:1")
    (task,) = tasks("plain")
    engine._tasks["key"] = (task, Taken())
    with pytest.raises(SchedulerLost, match="run the same command again"):
        engine._heard("key", said)


@pytest.mark.slow
def test_a_cluster_that_is_there_does_the_tasks_and_stays(cluster, tasks, tmp_path):
    cluster.worker(name="one")
    cluster.worker(name="two", nthreads=2)
    with DaskEngine(SOURCE, cluster.address) as engine:
        assert engine.wanted() >= engine_dask.LEAST
        *others, last = tasks(*["slow"] * 8, "raise", "abort")
        found = drive(engine, others)
        assert engine.shared_folder(tmp_path)
        # Alone: the tasks beside one that takes its workers down are lost with them.
        found |= drive(engine, [last])
        assert sorted(path.name for path in tmp_path.glob(".*")) == []
    states = [outcome.state for outcome in found.values()]
    assert (states.count("done"), found["raise-8"].state, found["abort-9"].state) == (8, "failed", "crashed")
    assert {one.worker for one in found.values()} <= {"dask-one", "dask-two"}
    cluster.worker()
    with DaskEngine(SOURCE, cluster.address) as engine:
        (again,) = drive(engine, tasks("plain")).values()
    assert again.state == "done"


@pytest.mark.slow
def test_tasks_of_a_lost_worker_are_done_by_another(cluster, tasks, tmp_path):
    (tmp_path / "runs.log").touch()
    lost = cluster.worker()
    with DaskEngine(SOURCE, cluster.address) as engine:
        for task in tasks("slow", "slow", "slow"):
            engine.submit(task)
        wait_until(lambda: len(runs(tmp_path)) >= 1)
        kill(lost)
        cluster.worker()
        found = []
        wait_until(lambda: found.extend(engine.wait(2)) or len(found) == 3)
    assert [one.state for one in found] == ["done"] * 3


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 4], ids=["none comes back", "too many pairs in a row"])
def test_a_model_that_takes_its_workers_down_ends_a_run(cluster, tasks, monkeypatch, threads):
    monkeypatch.setattr(engine_dask, "NOBODY", 2.0)
    source = ModelSource("dies", "cpu", load_fake)
    # A worker may be lost before it was given more than one task, so that two workers may die of other tasks.
    workers = [cluster.worker(nthreads=threads)]
    with (
        pytest.raises(WorkersUnable, match="before they finish anything"),
        DaskEngine(source, cluster.address) as engine,
    ):
        for task in tasks(*["plain"] * 12):
            engine.submit(task)

        def something_is_done() -> bool:
            if not workers[-1].is_alive() and len(workers) < 4:
                workers.append(cluster.worker(nthreads=threads))
            return any(outcome.state == "done" for outcome in engine.wait(1))

        wait_until(something_is_done)


@pytest.mark.slow
def test_a_lost_scheduler_is_said_and_nothing_hangs(cluster, tasks, tmp_path):
    (tmp_path / "runs.log").touch()
    cluster.worker()
    with pytest.raises(SchedulerLost, match="went away"), DaskEngine(SOURCE, cluster.address) as engine:
        engine.submit(tasks("hang")[0])
        wait_until(lambda: runs(tmp_path))
        cluster.kill_scheduler()
        while True:
            engine.wait(1)


def test_a_scheduler_that_is_not_there_is_said(monkeypatch):
    monkeypatch.setattr(engine_dask, "ANSWER", 1.0)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        unused = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    for address in (unused, "nonsense://x"):
        with pytest.raises(SchedulerLost, match=f"{address}: no Dask scheduler answers"):
            DaskEngine(SOURCE, address).__enter__()


@pytest.mark.slow
def test_only_workers_with_a_gpu_get_tasks_when_asked(cluster, tasks):
    cluster.worker(name="plain", nthreads=2)
    cluster.worker(name="gpu", nthreads=2, resources={"GPU": 1})
    with DaskEngine(SOURCE, cluster.address, gpu_workers=True) as engine:
        engine._led.wait_for_workers(2, timeout=120)
        found = drive(engine, tasks(*["slow"] * 4))
    assert {one.worker for one in found.values()} == {"dask-gpu"}


@pytest.fixture
def others(folder):
    """What another installation started."""
    with Cluster(folder) as cluster:
        yield cluster


@pytest.mark.slow
@pytest.mark.parametrize("lacking", ["scheduler", "worker", "other"])
def test_another_version_of_rscc_is_refused(others, tasks, tmp_path, lacking):
    address = others.scheduler(() if lacking == "scheduler" else OURS)
    other = tmp_path / "other_version.py"
    other.write_text("import rscc\nrscc.__version__ = '99'\n")
    if lacking == "worker":
        others.worker("--no-nanny", paths=())
    else:
        others.worker("--no-nanny", *(["--preload", str(other)] if lacking == "other" else []))
    with Client(address, set_as_default=False) as client:
        client.wait_for_workers(1, timeout=120)
    with (
        pytest.raises(VersionsDiffer, match="install the same on scheduler and workers"),
        DaskEngine(SOURCE, address) as engine,
    ):
        drive(engine, tasks("plain"), 60)


@pytest.mark.slow
def test_a_cluster_that_grows_with_its_work_is_let_grow(tasks):
    with (
        dask.config.set({"distributed.adaptive.interval": "100ms", "distributed.adaptive.wait-count": 2}),
        LocalCluster(
            n_workers=0, threads_per_worker=1, dashboard_address="127.0.0.1:0", memory_limit=0
        ) as cluster,
    ):
        cluster.adapt(minimum=0, maximum=2, target_duration="100ms")
        with DaskEngine(SOURCE, cluster.scheduler_address) as engine:
            assert not cluster.workers
            found = drive(engine, tasks(*["slow"] * 8))
            assert len({one.worker for one in found.values()}) == 2
            wait_until(lambda: not cluster.workers)
            assert drive(engine, tasks("plain"))["plain-0"].state == "done"
    assert {one.state for one in found.values()} == {"done"}


@pytest.mark.slow
def test_without_workers_nothing_is_shared_and_it_is_said_that_there_are_none(
    cluster, tasks, tmp_path, monkeypatch, caplog
):
    monkeypatch.setattr(engine_dask, "WORKERS", 0.3)
    monkeypatch.setattr(engine_dask, "NOBODY", 0.5)
    with DaskEngine(SOURCE, cluster.address) as engine:
        assert not engine.shared_folder(tmp_path)
        engine.submit(tasks("plain")[0])
        wait_until(lambda: engine.wait(0.2) == [] and "has no workers" in caplog.text)
        assert len(engine.withdraw()) == 1


@pytest.mark.slow
def test_workers_without_the_resource_are_none_for_tasks_that_ask_for_it(cluster, tasks, monkeypatch, caplog):
    monkeypatch.setattr(engine_dask, "NOBODY", 0.5)
    with DaskEngine(SOURCE, cluster.address, gpu_workers=True) as engine:
        cluster.worker()
        engine.submit(tasks("plain")[0])
        wait_until(lambda: engine.wait(0.2) == [] and "has no workers with the resource GPU" in caplog.text)

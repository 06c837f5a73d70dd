"""The engine: tasks come back once, bad ones alone are lost, and a run ends where no worker can work."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from archive_commands import QuickCluster, commands, forked_cluster, kill, miss_scheduler, wait_until
from archive_fakes import BIG, load_fake, runs
from archive_pairs import drive, make_tasks
from distributed import Client, KilledWorker
from distributed.client import FutureCancelledError
from distributed.comm import CommClosedError
from scene_pairs import make_pair

from workflows import SceneOptions
from workflows.archive.workers import engine as engine_module
from workflows.archive.workers.engine import Engine
from workflows.archive.workers.local import local_cluster
from workflows.archive.workers.tasks import ModelSource, Outcome, Task
from workflows.errors import SchedulerLost, VersionsDiffer, WorkersUnable

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
def folder(tmp_path):
    folder = tmp_path / "cluster"
    folder.mkdir()
    return folder


@pytest.fixture
def cluster(folder):
    with commands(folder) as shell:
        yield QuickCluster(shell, folder)


@pytest.mark.parametrize("work", ["re.match('(a+)+$', 'a' * 60 + 'b')", "time.sleep(60)"])
@pytest.mark.slow
def test_a_pair_that_takes_for_ever_ends_its_process_whatever_holds_it(work):
    """Python's own threads do not run while a library is in an endless loop."""
    limit = "from workflows.archive.workers import jobs; jobs.SECONDS = 0.5"
    code = f"import re, time; {limit}\nwith jobs._limited(): {work}"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=50)
    assert (ended.returncode, ended.stderr) == (1, b"")


def left_behind() -> str:
    return tempfile.mkdtemp(prefix="rscc-maps-")


@pytest.mark.slow
def test_temporary_files_of_workers_that_are_killed_are_removed():
    cluster = local_cluster(1, 1, 2**32, allowed_failures=1, preload="rscc_stand_in")
    with cluster as local, Client(local, set_as_default=False) as client:
        maps = Path(client.submit(left_behind).result(timeout=60))
        assert maps.is_dir()
    assert not maps.exists()


def source(model: str = "any") -> ModelSource:
    return ModelSource(model, "cpu", load_fake)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The scheduler of a cluster on this machine whose workers come back when they died."""
    with forked_cluster(2) as cluster:
        yield cluster.scheduler_address


@pytest.fixture(params=["local", "dask"])
def start(request) -> Callable[[ModelSource], Engine]:
    """What starts an engine with two workers for a model."""
    if request.param == "local":
        return lambda source: Engine(source, workers=2)
    address = request.getfixturevalue("address")
    return lambda source: Engine(source, scheduler=address)


# This machine and a cluster ------------------------------------------------------------


@pytest.mark.slow
def test_every_task_comes_back_once_and_a_bad_one_takes_nothing_with_it(start, tasks):
    *others, bad = tasks("plain", "slow", "raise", "big", "unpicklable", "noisy", "abort")
    with start(source()) as engine:
        assert engine.wanted() >= 2
        outcomes = drive(engine, others)
        # Alone: a cluster blames the tasks beside one that takes its worker down.
        outcomes |= drive(engine, [bad]) | drive(engine, others[:1])
        assert engine.wait(0.1) == [] and engine.withdraw() == []
    states = {pair.partition("-")[0]: outcome.state for pair, outcome in outcomes.items()}
    assert states == {
        "plain": "done", "slow": "done", "raise": "failed", "big": "done", "unpicklable": "failed",
        "noisy": "done", "abort": "crashed",
    }  # fmt: skip
    assert outcomes["raise-2"].line == "unexpected RuntimeError: nothing is known of raise_2.tif"
    assert (outcomes["abort-6"].error, outcomes["abort-6"].report) == ("WorkerDied", None)
    assert len(outcomes["big-3"].report) > BIG
    assert all(one.worker.startswith(engine.name) for one in outcomes.values())


@pytest.mark.slow
def test_a_model_that_is_missing_ends_the_run(start, tasks):
    with pytest.raises(WorkersUnable, match="missing") as error, start(source("missing")) as engine:
        drive(engine, tasks(*["plain"] * 6))
    assert error.value.exit_code == 2


@pytest.mark.slow
def test_tasks_that_nobody_began_are_taken_back(start, tasks, tmp_path):
    (tmp_path / "runs.log").touch()
    made = tasks("slow", "slow", *["plain"] * 6)
    with start(source()) as engine:
        for task in made:
            engine.submit(task)
        outcomes = []
        wait_until(lambda: outcomes.extend(engine.wait(0.05)) or len(runs(tmp_path)) >= 1)
        withdrawn = engine.withdraw()
        rest = [task for task in made if task.pair not in withdrawn]
        wait_until(lambda: outcomes.extend(engine.wait(0.5)) or len(outcomes) == len(rest))
        assert engine.wait(0.5) == []
    assert withdrawn
    assert sorted(one.pair for one in outcomes) == sorted(task.pair for task in rest)
    assert sorted(runs(tmp_path)) == sorted(Path(task.before).name for task in rest)


# This machine ------------------------------------------------------------


@pytest.mark.slow
def test_failed_pairs_are_tried_again_as_often_as_asked(tasks, tmp_path):
    (tmp_path / "runs.log").touch()
    with Engine(source(), workers=1, retries=2) as engine:
        outcomes = drive(engine, tasks("raise", "abort", "plain"))
    assert {pair: one.state for pair, one in outcomes.items()} == {
        "raise-0": "failed", "abort-1": "crashed", "plain-2": "done",
    }  # fmt: skip
    assert [runs(tmp_path).count(name) for name in ("raise_0.tif", "abort_1.tif", "plain_2.tif")] == [3, 3, 1]


@pytest.mark.slow
def test_a_model_that_takes_its_process_down_ends_the_run(tasks):
    with pytest.raises(WorkersUnable), Engine(source("dies"), workers=2, retries=0) as engine:
        drive(engine, tasks(*["plain"] * 12))


@pytest.mark.slow
def test_a_worker_that_dask_takes_for_not_started_does_not_spoil_the_end(tasks):
    with Engine(source(), workers=1) as engine:
        drive(engine, tasks("plain"))
        (nanny,) = engine._client.cluster.workers.values()
        worker = psutil.Process(nanny.pid)
        nanny.process.process._state.pid = None
    with suppress(psutil.NoSuchProcess):  # it may notice by itself that nobody is left
        worker.kill()


@pytest.mark.slow
def test_a_worker_over_its_memory_is_ended_and_its_pair_alone_fails(tasks, monkeypatch):
    monkeypatch.setattr(engine_module, "LEAST_MEMORY", 10**9)
    monkeypatch.setattr(engine_module, "MEMORY_LIMIT", 10**9)
    with Engine(source(), workers=1, retries=0) as engine:
        outcomes = drive(engine, tasks("hungry", "plain"))
    assert (outcomes["hungry-0"].state, outcomes["plain-1"].state) == ("crashed", "done")


@pytest.mark.slow
def test_workers_get_no_interrupt_and_end_with_the_engine_though_a_task_hangs(tasks, tmp_path):
    (tmp_path / "runs.log").touch()
    with pytest.raises(KeyboardInterrupt), Engine(source(), workers=2) as engine:
        for task in tasks("hang", "plain"):
            engine.submit(task)
        wait_until(lambda: engine.wait(0.2) and len(runs(tmp_path)) == 2)
        workers = [nanny.pid for nanny in engine._client.cluster.workers.values()]
        for pid in workers:
            os.kill(pid, signal.SIGINT)
        assert engine.wait(1.0) == [] and all(map(psutil.pid_exists, workers))
        raise KeyboardInterrupt
    wait_until(lambda: not any(psutil.pid_exists(pid) for pid in workers))


@pytest.mark.slow
def test_the_cluster_of_this_machine_listens_on_no_port(tasks):
    with Engine(source(), workers=1) as engine:
        drive(engine, tasks("plain"))
        family = [psutil.Process(), *psutil.Process().children(recursive=True)]
        worker = psutil.Process(next(iter(engine._client.cluster.workers.values())).pid)
        assert worker in family
        assert [one for one in worker.net_connections(kind="inet") if one.status == "LISTEN"] == []
        assert engine._client.scheduler.address.startswith("unix:///")


@pytest.mark.slow
def test_large_pairs_are_shared_by_the_workers(tmp_path):
    (tmp_path / "rscc-archive.json").touch()
    (tmp_path / "runs.log").touch()
    pair = make_pair(tmp_path, [(20, 30, 20, 30, 220), (90, 100, 25, 25, 30)])
    maps = tmp_path / "work" / "maps" / "a"
    task = Task("a", str(pair.before), str(pair.after), SceneOptions(), maps, split_above=4)
    with Engine(source(), workers=2) as engine:
        outcome = drive(engine, [task])["a"]
    assert outcome.state == "done", outcome.line
    assert runs(tmp_path) == [], "it was never run as a whole"


# A cluster of somebody else ------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (FutureCancelledError("key", "scheduler-connection-lost"), SchedulerLost),
        (CancelledError(), SchedulerLost),
        (CommClosedError("in <TCP (closed) ConnectionPool.gather>: Stream is closed"), SchedulerLost),
        (ModuleNotFoundError("No module named 'workflows'", name="workflows"), VersionsDiffer),
    ],
)
def test_an_answer_tells_that_the_scheduler_is_gone_or_lacks_rscc(tasks, answer, error):
    """No pair has failed then, even while the client has not noticed."""

    class Taken:
        def release(self):
            pass

    engine = Engine(source(), scheduler="tcp://h:1")
    (task,) = tasks("plain")
    engine._tasks["key"] = (task, Taken())
    with pytest.raises(error):
        engine._take("key", answer)


def test_a_pair_of_a_cluster_counts_as_crashed_once_it_was_tried_alone(tasks, monkeypatch):
    """Dask blames all tasks of a worker that dies."""
    engine = Engine(source(), scheduler="tcp://h:1")
    neighbour, bad = tasks("plain", "abort")
    killed = KilledWorker("key", SimpleNamespace(name="w"), 1)
    waiting = SimpleNamespace(release=lambda: None)
    submitted = []

    def submit(task):
        submitted.append(task.pair)
        engine._is_alone = False
        engine._tasks["key"] = (task, waiting)
        done = Outcome(task.pair, "done", report=b"{}")
        engine._answers.put(("key", killed if task is bad else done))

    monkeypatch.setattr(engine, "submit", submit)
    engine._silent_crashes = -1
    for task in (neighbour, bad):
        engine._tasks["key"] = (task, waiting)
        assert engine._take("key", killed) == []
    outcomes = engine.wait(5) + engine.wait(5)
    assert submitted == ["plain-0", "abort-1"] and [one.state for one in outcomes] == ["done", "crashed"]


@pytest.mark.slow
def test_tasks_of_a_lost_worker_are_done_by_another_and_the_cluster_stays(cluster, tasks, tmp_path):
    (tmp_path / "runs.log").touch()
    lost = cluster.worker()
    with Engine(source(), scheduler=cluster.address) as engine:
        assert engine.wanted() >= engine_module.LEAST
        for task in tasks("slow", "slow", "slow"):
            engine.submit(task)
        wait_until(lambda: len(runs(tmp_path)) >= 1)
        kill(lost)
        cluster.worker()
        found = []
        wait_until(lambda: found.extend(engine.wait(2)) or len(found) == 3)
    assert [one.state for one in found] == ["done"] * 3
    with Engine(source(), scheduler=cluster.address) as engine:
        (again,) = drive(engine, tasks("plain")).values()
    assert again.state == "done"


@pytest.mark.slow
def test_a_model_that_takes_all_workers_of_a_cluster_down_ends_the_run(cluster, tasks, monkeypatch):
    monkeypatch.setattr(engine_module, "NOBODY", 2.0)
    workers = [cluster.worker()]
    with pytest.raises(WorkersUnable), Engine(source("dies"), scheduler=cluster.address) as engine:
        for task in tasks(*["plain"] * 12):
            engine.submit(task)

        def something_is_done() -> bool:
            if not workers[-1].is_alive() and len(workers) < 4:
                workers.append(cluster.worker())
            return any(outcome.state == "done" for outcome in engine.wait(1))

        wait_until(something_is_done)


@pytest.mark.slow
def test_a_lost_scheduler_is_said_and_nothing_hangs(cluster, tasks, tmp_path):
    (tmp_path / "runs.log").touch()
    cluster.worker()
    with pytest.raises(SchedulerLost), Engine(source(), scheduler=cluster.address) as engine:
        engine.submit(tasks("hang")[0])
        wait_until(lambda: runs(tmp_path))
        cluster.kill_scheduler()
        while True:
            engine.wait(1)


@pytest.mark.slow
def test_a_scheduler_that_is_stopped_is_not_waited_for(cluster, tasks, monkeypatch):
    for name, seconds in {"ANSWER": 1.0, "SILENCE": 2.0, "CAPACITY_AGE": 0.1}.items():
        monkeypatch.setattr(engine_module, name, seconds)
    with pytest.raises(SchedulerLost), Engine(source(), scheduler=cluster.address) as engine:
        engine.submit(tasks("plain")[0])
        os.kill(cluster._scheduler.pid, signal.SIGSTOP)
        try:
            for _ in range(30):
                engine.wait(1)
        finally:
            os.kill(cluster._scheduler.pid, signal.SIGCONT)


def _listen(answer):
    """Listen at a port; each connection gets ``answer``, or nothing."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve():
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                held.append(connection)
                connection.sendall(answer)

    held = [listening]
    threading.Thread(target=serve, daemon=True).start()
    return listening.getsockname()[1]


@pytest.mark.parametrize(
    ("protocol", "answer"),
    [
        ("tcp", None),
        ("nonsense", None),
        ("tcp", b""),
        ("tcp", b"HTTP/1.0 400 Bad Request\r\n\r\n"),
        ("http", b"HTTP/1.0 400 Bad Request\r\n\r\n"),
        ("ws", b"HTTP/1.0 400 Bad Request\r\n\r\n"),
        ("tcp", (2**40).to_bytes(8, "little") + bytes(99)),
        ("tls", b""),
    ],
)
@pytest.mark.slow
def test_where_no_scheduler_listens_is_said(tmp_path, protocol, answer):
    with socket.socket() as free, commands(tmp_path) as shell:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1] if answer is None else _listen(answer)
        assert shell.ended(shell.start(miss_scheduler, f"{protocol}://127.0.0.1:{port}")) == 0


@pytest.mark.slow
def test_another_version_of_rscc_is_refused(cluster, tasks, tmp_path):
    other = tmp_path / "other_version.py"
    other.write_text("import rscc\nrscc.__version__ = '99'\n")
    cluster.worker(preload=[str(other)])
    with pytest.raises(WorkersUnable, match="99"), Engine(source(), scheduler=cluster.address) as engine:
        drive(engine, tasks("plain"), 60)


@pytest.mark.slow
def test_a_cluster_that_grows_with_its_work_is_let_grow(tasks):
    adaptive = {"distributed.adaptive.interval": "100ms", "distributed.adaptive.wait-count": 2}
    with forked_cluster(0, **adaptive) as cluster:
        cluster.adapt(minimum=0, maximum=2, target_duration="100ms")
        with Engine(source(), scheduler=cluster.scheduler_address) as engine:
            found = drive(engine, tasks(*["slow"] * 8))
            assert len({one.worker for one in found.values()}) == 2
    assert {one.state for one in found.values()} == {"done"}


@pytest.mark.slow
def test_a_cluster_without_workers_is_waited_for_and_said(cluster, tasks, monkeypatch, caplog):
    monkeypatch.setattr(engine_module, "NOBODY", 0.5)
    with Engine(source(), scheduler=cluster.address) as engine:
        engine.submit(tasks("plain")[0])
        wait_until(lambda: engine.wait(0.2) == [] and "has no workers" in caplog.text)
        assert engine.withdraw() == ["plain-0"]

"""What holds of every engine: tasks come back once, bad ones alone are lost, and why workers cannot start."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import dask
import pytest
from archive_commands import wait_until
from archive_fakes import BIG, load_fake, runs
from distributed import LocalCluster
from engines import drive

from rscc.errors import ModelNotFound
from workflows.engines.dask import DaskEngine
from workflows.engines.engine import Engine
from workflows.engines.local import LocalEngine
from workflows.engines.tasks import ModelSource
from workflows.errors import WorkersUnable

WORKERS = 2
Start = Callable[[ModelSource], Engine]
# Dask says so where the disk is busy, and closes what it has open when it is collected.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Creating scratch directories"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The scheduler of a cluster on this machine whose workers come back when they died."""
    settings = {
        "distributed.scheduler.allowed-failures": 1,
        "distributed.comm.timeouts.connect": "10s",
    }
    with (
        dask.config.set(settings),
        LocalCluster(
            n_workers=WORKERS, threads_per_worker=1, dashboard_address="127.0.0.1:0", memory_limit=0
        ) as local,
    ):
        yield local.scheduler_address


@pytest.fixture(params=["local", "dask"])
def start(request) -> Start:
    """What starts an engine with two workers for a model."""
    if request.param == "local":
        return lambda source: LocalEngine(source, WORKERS)
    address = request.getfixturevalue("address")
    return lambda source: DaskEngine(source, address)


def source(model: str = "any") -> ModelSource:
    return ModelSource(model, "cpu", load_fake)


@pytest.mark.slow
def test_every_task_comes_back_once_and_a_bad_one_takes_nothing_with_it(start, tasks, tmp_path):
    *others, bad = tasks("plain", "slow", "raise", "big", "unpicklable", "plain", "abort")
    with start(source()) as engine:
        assert engine.wanted() >= 2 * WORKERS
        outcomes = drive(engine, others)
        # Alone: what is sent to a worker beside a task that takes it down may count as lost with it.
        outcomes |= drive(engine, [bad]) | drive(engine, others[:1])
        assert engine.shared_folder(tmp_path)
        assert engine.wait(0.1) == [] and engine.withdraw() == []
    states = {pair.partition("-")[0]: outcome.state for pair, outcome in outcomes.items()}
    assert states == {
        "plain": "done", "slow": "done", "raise": "failed", "big": "done", "unpicklable": "failed",
        "abort": "crashed",
    }  # fmt: skip
    assert outcomes["raise-2"].line == "unexpected RuntimeError: nothing is known of raise_2.tif"
    assert (outcomes["abort-6"].error, outcomes["abort-6"].result) == ("WorkerDied", None)
    assert len(outcomes["big-3"].result.report) > BIG
    assert all(one.worker.startswith(engine.name) and one.seconds >= 0 for one in outcomes.values())


@pytest.mark.slow
def test_a_model_that_is_missing_ends_the_run(start, tasks):
    with (
        pytest.raises(ModelNotFound, match="missing: no model has this name"),
        start(source("missing")) as engine,
    ):
        drive(engine, tasks(*["plain"] * 12))


@pytest.mark.slow
def test_a_model_that_takes_its_process_down_ends_a_local_run(tasks):
    with (
        pytest.raises(WorkersUnable, match=r"cannot load the model.*SIGKILL"),
        LocalEngine(source("dies"), WORKERS) as engine,
    ):
        drive(engine, tasks(*["plain"] * 12))


@pytest.mark.slow
def test_tasks_that_nobody_began_are_taken_back(start, tasks, tmp_path):
    (tmp_path / "runs.log").touch()
    made = tasks(*["slow"] * WORKERS, *["plain"] * 6)
    with start(source()) as engine:
        for task in made[:WORKERS]:
            engine.submit(task)
        outcomes = []
        wait_until(lambda: outcomes.extend(engine.wait(0.05)) or len(runs(tmp_path)) >= 1)
        for task in made[WORKERS:]:
            engine.submit(task)
        withdrawn = engine.withdraw()
        rest = [task for task in made if task not in withdrawn]
        wait_until(lambda: outcomes.extend(engine.wait(0.5)) or len(outcomes) == len(rest))
        assert engine.wait(0.5) == []
    assert withdrawn
    assert sorted(one.task.pair for one in outcomes) == sorted(task.pair for task in rest)
    assert sorted(runs(tmp_path)) == sorted(Path(task.before).name for task in rest)

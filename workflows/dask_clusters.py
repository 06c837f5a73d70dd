"""How the engine comes by a Dask cluster: one of its own, or the client of one that is there."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ipaddress import IPv4Address
from typing import Any

import dask
from distributed import Client, LocalCluster

from workflows.errors import SchedulerLost, WorkersUnable
from workflows.processes import no_interrupts, threads_each

# Seconds that a scheduler has to answer.
ANSWER = 20.0
# How long a worker that died over a result is asked for it, before another one does the task again.
CONNECT = "10s"
LOOPBACK = IPv4Address(socket.INADDR_LOOPBACK)
SILENT = logging.CRITICAL + 1


@contextmanager
def client_of(address: Any) -> Iterator[Client]:
    """Connect to the scheduler at an address, or to that of a cluster.

    Raises:
        SchedulerLost: none answers there.
    """
    try:
        client = Client(address, timeout=ANSWER, set_as_default=False)
    except (TimeoutError, OSError, ValueError) as error:
        raise SchedulerLost(
            f"{address}: no Dask scheduler answers; start one, and give its address as tcp://HOST:PORT"
        ) from error
    try:
        yield client
    finally:
        client.close(timeout=ANSWER)


@contextmanager
def own_cluster(workers: int, resources: dict[str, int] | None) -> Iterator[LocalCluster]:
    """Start worker processes of one thread each, that nobody else can reach and that get no Ctrl-C.

    Raises:
        WorkersUnable: the system refused.
    """
    threads = str(threads_each(workers))
    settings = {
        # Once more on another worker; the coordinator has retries of its own.
        "distributed.scheduler.allowed-failures": 1,
        "distributed.scheduler.worker-saturation": 1.0,
        "distributed.comm.timeouts.connect": CONNECT,
        # Dask gives up a worker whose process is not back by then, and starts no other: on a machine with
        # much to do that takes longer than its 15 seconds.
        "distributed.deploy.lost-worker-timeout": "1 hour",
        "distributed.nanny.pre-spawn-environ.OMP_NUM_THREADS": threads,
        "distributed.nanny.pre-spawn-environ.MKL_NUM_THREADS": threads,
        "distributed.nanny.pre-spawn-environ.OPENBLAS_NUM_THREADS": threads,
        "distributed.nanny.pre-spawn-environ.OMP_WAIT_POLICY": "PASSIVE",
    }
    environment = dict(os.environ)
    with dask.config.set(settings):
        try:
            with no_interrupts(), warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Creating scratch directories is taking")
                cluster = LocalCluster(
                    n_workers=workers,
                    threads_per_worker=1,
                    processes=True,
                    memory_limit=0,
                    dashboard_address=f"{LOOPBACK}:0",
                    scheduler_kwargs={"dashboard": False},
                    silence_logs=SILENT,
                    resources=resources,
                )
        except (TimeoutError, OSError, RuntimeError) as error:
            raise WorkersUnable(f"no Dask cluster can be started here ({error})") from error
        try:
            yield cluster
        finally:
            cluster.close(timeout=ANSWER)
            # Dask leaves in this process what it sets for its workers.
            for name in os.environ.keys() - environment.keys():
                del os.environ[name]
            os.environ.update(environment)


def kill_workers(cluster: LocalCluster) -> None:
    """End the worker processes whatever they do: they are asked nothing, and none is started again."""

    async def kill() -> None:
        await asyncio.gather(*(nanny.close(timeout=0.1) for nanny in cluster.workers.values()))

    with suppress(Exception):
        cluster.sync(kill)


@contextmanager
def quiet_dask() -> Iterator[None]:
    """Keep what Dask logs about workers off the terminal: what matters of it is said in other words."""
    loggers = [
        logging.getLogger(name)
        for name in [*logging.root.manager.loggerDict, "asyncio", "tornado.application"]
        if name.partition(".")[0] in ("distributed", "asyncio", "tornado")
    ]
    # Those of Dask have handlers of their own, the others take what is there.
    targets = {handler for logger in loggers for handler in logger.handlers} | set(loggers[-2:])
    levels = {target: target.level for target in targets}
    try:
        for target in targets:
            target.setLevel(SILENT)
        yield
    finally:
        for target, level in levels.items():
            target.setLevel(level)

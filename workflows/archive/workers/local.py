"""A Dask cluster of one machine that talks over Unix sockets in a private folder.

It differs from ``distributed.LocalCluster`` in the transport: no network port is opened, so other users of
the machine cannot connect, and a machine without a network can run it. Where the system has no Unix sockets,
it listens on 127.0.0.1.
"""

import logging
import os
import secrets
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

import dask
from distributed import Nanny, Scheduler, SpecCluster, Status, Worker
from distributed.comm.core import CommClosedError
from distributed.comm.registry import backends
from distributed.comm.tcp import MAX_BUFFER_SIZE, TCP, TCPBackend, TCPConnector, TCPListener
from distributed.comm.tcp import convert_stream_closed_error as raise_comm_error
from distributed.utils import get_mp_context
from tornado.iostream import IOStream, StreamClosedError
from tornado.netutil import bind_unix_socket
from tornado.tcpserver import TCPServer

from rscc.files import temporary_folder
from workflows.errors import WorkersUnable

# The path of a Unix socket has at most 107 bytes; its name has at most 11 of them.
_LONGEST_FOLDER = 90
_BACKLOG = 2048


class SocketConnector(TCPConnector):
    """Connects to ``unix://FOLDER:NUMBER``, the socket named NUMBER in FOLDER."""

    prefix = "unix://"

    async def connect(self, address: str, deserialize: bool = True, **_: Any) -> TCP:
        """Open a connection."""
        stream = IOStream(socket.socket(socket.AF_UNIX), max_buffer_size=MAX_BUFFER_SIZE)
        try:
            await stream.connect(os.path.join(*address.rsplit(":", 1)))
        except StreamClosedError as error:
            raise_comm_error(self, error)
        own = f"{self.prefix}{address.rsplit(':', 1)[0]}:0"
        return TCP(stream, own, self.prefix + address, deserialize)


class SocketListener(TCPListener):
    """Listens at ``unix://FOLDER:NUMBER``; with the number 0 at a new one."""

    prefix = "unix://"

    async def start(self) -> None:
        """Begin to listen."""
        number = self.port or secrets.randbelow(2**31)
        self.tcp_server = TCPServer(max_buffer_size=MAX_BUFFER_SIZE)
        setattr(self.tcp_server, "handle_stream", self._handle_stream)  # noqa: B010
        self.tcp_server.add_socket(bind_unix_socket(f"{self.ip}/{number}", backlog=_BACKLOG))
        self.bound_address = (self.ip, number)

    async def _handle_stream(self, stream: IOStream, address: Any) -> None:
        peer = f"{self.prefix}{self.ip}:0"
        comm = TCP(stream, self.contact_address, peer, self.deserialize)
        comm.allow_offload = self.allow_offload
        with suppress(CommClosedError):
            await self.on_connection(comm)
            await self.comm_handler(comm)


class SocketBackend(TCPBackend):
    """The transport ``unix://`` of Dask."""

    _connector_class = SocketConnector
    _listener_class = SocketListener

    def resolve_address(self, loc: str) -> str:
        """Return the address as it is: there is no name to look up."""
        return loc

    def get_local_address_for(self, loc: str) -> str:
        """Return where to listen to be reached from ``loc``: in the same folder."""
        return loc.rsplit(":", 1)[0]


backends["unix"] = SocketBackend()
# Dask sets TCP timeouts on each connection and logs an error where a Unix socket has none.
logging.getLogger("distributed.comm.tcp").setLevel(logging.CRITICAL)


class _NoServer:
    """Without the HTTP server that Dask opens on every network interface."""

    def start_http_server(self, *arguments: Any, **options: Any) -> None:
        """Open nothing."""


class LocalScheduler(_NoServer, Scheduler):
    """A scheduler without an HTTP server."""


class LocalWorker(_NoServer, Worker):
    """A worker without an HTTP server; unpickling it in a new process registers the transport."""


class LocalNanny(Nanny):
    """Starts a :class:`LocalWorker`, and starts it again when it has died."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, worker_class=LocalWorker, **options)

    async def kill(self, *arguments: Any, **options: Any) -> None:
        """End the worker process, also where Dask asserts that a restart has not got that far."""
        with suppress(AssertionError):
            await super().kill(*arguments, **options)


@contextmanager
def local_cluster(
    workers: int, threads: int, memory: int, allowed_failures: int, preload: str
) -> Iterator[SpecCluster]:
    """Yield a running cluster; at the end its worker processes are killed.

    Args:
        threads: that each computes with.
        memory: bytes at which the nanny of a worker ends its process.
        allowed_failures: workers that may die of a task before Dask gives the task up.
        preload: module that worker processes have loaded before they start.
    """
    threads_of = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    settings = {
        "distributed.scheduler.allowed-failures": allowed_failures,
        "distributed.scheduler.worker-saturation": 1.0,
        # Only the nanny's limit: a worker that pauses would wait for ever for memory that the model holds.
        **{f"distributed.worker.memory.{limit}": False for limit in ("target", "spill", "pause")},
        "distributed.nanny.pre-spawn-environ": {**threads_of, "OMP_WAIT_POLICY": "PASSIVE"},
        "distributed.worker.profile.enabled": False,
        "distributed.admin.log-format": "%(message)s",
    }
    if sys.platform == "linux":
        settings["distributed.worker.multiprocessing-method"] = "forkserver"
    with ExitStack() as stack:
        folder = stack.enter_context(temporary_folder())
        stack.enter_context(dask.config.set(settings))
        if sys.platform == "linux":
            get_mp_context().set_forkserver_preload(["distributed", __name__, preload, "workflows.scene.run"])
        place = _place(folder)
        nanny = {"nthreads": 1, "memory_limit": memory, "local_directory": str(folder), "silence_logs": 60}
        # Temporary maps of a worker that is killed go with the folder.
        environment = {"TMPDIR": str(folder)}
        worker = {"cls": LocalNanny, "options": {**nanny, "env": environment, **place}}
        try:
            with _blocked_interrupts():
                cluster = SpecCluster(
                    scheduler={"cls": LocalScheduler, "options": {**place, "dashboard": False}},
                    workers=dict.fromkeys(range(1, workers + 1), worker),
                    silence_logs=60,
                )
        except (RuntimeError, OSError, TimeoutError) as error:
            raise WorkersUnable(
                f"no worker process can be started ({error}); try fewer with --workers"
            ) from error
        try:
            yield cluster
        finally:
            _kill_workers(cluster)
            cluster.close(timeout=10)


def _place(folder: Path) -> dict[str, str]:
    """Return the host and protocol that scheduler and workers listen at."""
    path = str(folder)
    if hasattr(socket, "AF_UNIX") and len(path) <= _LONGEST_FOLDER and ":" not in path:
        return {"host": path, "protocol": "unix://"}
    return {"host": "127.0.0.1", "protocol": "tcp://"}


def _kill_workers(cluster: SpecCluster) -> None:
    """End the worker processes now: a task that never returns must not keep the command waiting."""
    for nanny in cluster.workers.values():
        nanny.status = Status.closing_gracefully  # it must not start the worker again
        with suppress(ProcessLookupError, TypeError):
            os.kill(nanny.pid, signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL)


@contextmanager
def _blocked_interrupts() -> Iterator[None]:
    """Start threads and processes that never get Ctrl-C: the main thread of the command alone acts on it.

    A signal mask is inherited. The resource tracker unblocks the signal when it starts, so it starts first.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()
    earlier = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, earlier)

"""The coordinator of an archive as a process that notes what it does: when, how long, how often, how much.

    python benchmarks/watched.py SETTINGS

``SETTINGS`` is a JSON file with the fields of :class:`Settings`. The coordinator, ledger, folder and engine
are the product's own; their methods are timed from outside. What was noted is in ``notes``, written anew
every few seconds, so that it is there when the process was killed.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil
from stub_cluster import QUIET, use_of
from stub_pairs import load_stub, stub_card

NOTED_EVERY = 2.0
TIMED = {
    "workflows.store.ledger:Ledger": ("next", "start", "done", "failed", "again"),
    "workflows.store.folder:ArchiveFolder": ("install",),
    "workflows.archive.dispatch:Dispatch": ("_install",),
}


@dataclass(frozen=True)
class Settings:
    """What a watched coordinator does.

    Attributes:
        table: of the pairs.
        archive: the folder.
        scheduler: address of the Dask scheduler.
        notes: file for what was noted.
    """

    table: str
    archive: str
    scheduler: str
    notes: str


class Notes:
    """What is noted: moments as seconds since the process was started, and calls with their seconds."""

    def __init__(self, path: Path) -> None:
        self._path, self._written = path, 0.0
        # Reports are installed by several threads.
        self._lock = threading.Lock()
        self._born = psutil.Process().create_time()
        self.moments: dict[str, float] = {}
        self.cpu_at: dict[str, float] = {}
        self.peak_at: dict[str, int] = {}
        self.calls: dict[str, list[float]] = {}
        self.summary: dict[str, Any] | None = None

    def moment(self, name: str) -> None:
        """Note that this happens now, unless it was noted before."""
        if name not in self.moments:
            self.moments[name] = time.time() - self._born
            use = use_of(os.getpid())
            self.cpu_at[name], self.peak_at[name] = use.cpu, use.peak
            self.write()

    def write(self) -> None:
        """Write everything that was noted so far; the file is complete at every moment."""
        use = use_of(os.getpid())
        content = {**vars(self), "cpu": use.cpu, "peak": use.peak, "now": time.time() - self._born}
        temporary = self._path.with_suffix(".tmp")
        public = {name: value for name, value in content.items() if not name.startswith("_")}
        temporary.write_text(json.dumps(public))
        temporary.replace(self._path)
        self._written = time.monotonic()

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with every call noted under ``name``."""
        noted = self.calls.setdefault(name, [0, 0.0])

        def call(*positional: Any, **named: Any) -> Any:
            clock = time.perf_counter()
            try:
                return function(*positional, **named)
            finally:
                with self._lock:
                    noted[0] += 1
                    noted[1] += time.perf_counter() - clock
                    if time.monotonic() - self._written > NOTED_EVERY:
                        self.write()

        return call


class WatchedEngine:
    """An engine whose first task, submissions and waiting are noted."""

    def __init__(self, engine: Any, notes: Notes) -> None:
        self._engine, self._notes = engine, notes
        self._submit = notes.timed("engine.submit", engine.submit)
        self.wait = notes.timed("engine.wait", engine.wait)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def submit(self, task: Any) -> None:
        """Submit; the first one is the moment at which work begins."""
        self._submit(task)
        self._notes.moment("work began")

    def __enter__(self) -> WatchedEngine:
        self._engine.__enter__()
        self._notes.moment("engine ready")
        return self

    def __exit__(self, *ended: Any) -> None:
        self._notes.moment("pairs finished")
        self._engine.__exit__(*ended)


def coordinate(settings: Settings) -> None:
    """Run the coordinator over the table until it is through."""
    notes = Notes(Path(settings.notes))
    import dask

    dask.config.set(QUIET)
    from workflows import SceneOptions
    from workflows.archive.plan import ArchiveOptions
    from workflows.archive.run import run_archive
    from workflows.engines.dask import DaskEngine
    from workflows.engines.tasks import ModelSource
    from workflows.pairs.table import read_pairs

    for place, names in TIMED.items():
        module, kind = place.split(":")
        owner = getattr(sys.modules[module], kind)
        for name in names:
            setattr(owner, name, notes.timed(f"{kind.lower()}.{name}", getattr(owner, name)))
    notes.moment("imported")
    rows = read_pairs(settings.table)
    notes.moment("table read")
    summary = run_archive(
        rows,
        settings.archive,
        stub_card(),
        ModelSource("stub", "cpu", load_stub),
        lambda source: WatchedEngine(DaskEngine(source, scheduler=settings.scheduler), notes),
        SceneOptions(),
        ArchiveOptions(),
        notice=lambda line: print(line, flush=True),
    )
    notes.summary = asdict(summary)
    notes.moment("finished")


if __name__ == "__main__":
    coordinate(Settings(**json.loads(Path(sys.argv[1]).read_text())))

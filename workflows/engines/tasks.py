"""What a worker process of an archive does: one pair of scenes, or a part of one, in; bytes or a reason out.

Everything here travels between processes, so it is plain values. A worker writes nothing into the archive: it
hands the report back as the bytes of its file.
"""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Literal

from workflows.addresses import without_secrets
from workflows.errors import WorkersUnable
from workflows.options import SceneOptions

if TYPE_CHECKING:
    from rscc.captioner import Captioner
    from workflows.report.report import ChangeReport
    from workflows.scene.opening import Scene

Kind = Literal["pair", "part", "finish", "report"]
State = Literal["done", "refused", "failed", "crashed", "split"]


@dataclass(frozen=True)
class Task:
    """One piece of work.

    Attributes:
        id: unique among the tasks of one run.
        pair: the pair's id in the table.
        kind: ``pair`` a whole one; ``part`` some rows of tiles of a large one, kept in the tile cache of the
            options; ``finish`` a large one whose rows are all there; ``report`` a whole one whose report is
            handed back as it is, to be written in any format.
        attempt: from 1.
        before, after: the scenes.
        options: how the pair is read, with its own dates and tile cache.
        rows: first row of the working grid and the row behind the last, of a ``part``.
        split_above: a ``pair`` with more tiles than this is not run but cut; None never cuts.
    """

    id: str
    pair: str
    kind: Kind
    attempt: int
    before: str
    after: str
    options: SceneOptions
    rows: tuple[int, int] | None = None
    split_above: int | None = None


@dataclass(frozen=True)
class PairResult:
    """What was found in a pair.

    Attributes:
        report: the GeoJSON file.
        changes, area_m2: how many and how large together, square metres.
        tiles: how many the pair has.
        warnings: of the run record.
    """

    report: bytes
    changes: int
    area_m2: float
    tiles: int
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class Outcome:
    """What became of a task.

    Attributes:
        task: the task.
        state: ``done``; ``refused`` the input or an option is wrong, so that another attempt is in vain;
            ``failed`` it may go better the next time; ``crashed`` the worker process ended in it; ``split``
            the pair is large, and ``rows`` are the parts to do.
        result: of a pair that is done; None for a part.
        rows: of a pair that is to be split, as in :attr:`Task.rows`.
        error: name of the error's class.
        line: what went wrong, in one line without secrets of addresses.
        worker: the name of who did it.
        seconds: that it took.
    """

    task: Task
    state: State
    result: PairResult | None = None
    rows: tuple[tuple[int, int], ...] | None = None
    error: str | None = None
    line: str | None = None
    worker: str = ""
    seconds: float = 0.0
    report: ChangeReport | None = None


@dataclass(frozen=True)
class ModelSource:
    """How a worker process comes by its captioner; who leads the workers loads neither model nor torch.

    Attributes:
        model: name or folder of the model.
        device: where it computes, as ``rscc caption --device`` takes it.
        load: gives the captioner for (model, device), a function at the top level of a module; None takes
            :func:`rscc.captioner.load_captioner`.
    """

    model: str
    device: str = "auto"
    load: Callable[[str, str], Captioner] | None = None

    @property
    def module(self) -> str:
        """The module that the model comes from, which a worker imports."""
        return "rscc.captioner" if self.load is None else self.load.__module__

    def captioner(self) -> Captioner:
        """Return the captioner, loaded once per process.

        Raises:
            RsccError: the model cannot be found or cannot run here; the next call tries again.
        """
        with _LOADING:
            if self not in _LOADED:
                load: Callable[[str, str], Captioner] = self.load or import_module(self.module).load_captioner
                _LOADED[self] = load(self.model, self.device)
            return _LOADED[self]

    def forget(self) -> None:
        """Let go of the captioner of this process."""
        with _LOADING:
            _LOADED.pop(self, None)


@dataclass(frozen=True)
class Unable:
    """What a worker says that cannot do any task: ``error`` is why, as far as it can travel."""

    error: BaseException

    @classmethod
    def of(cls, error: Exception) -> Unable:
        """Take the error, or its words where it does not survive the way to another process."""
        try:
            same = pickle.loads(pickle.dumps(error))
        except Exception:
            same = None
        if type(same) is type(error) and str(same) == str(error):
            return cls(error)
        told = WorkersUnable(f"the model cannot be loaded: {error_line(error)}")
        told.exit_code = getattr(error, "exit_code", told.exit_code)
        return cls(told)


_LOADED: dict[ModelSource, Captioner] = {}
_LOADING = threading.Lock()


def run_task(task: Task, captioner: Captioner, worker: str) -> Outcome:
    """Do a task; whatever goes wrong with it is part of the outcome, never raised.

    An error that says its input or option is wrong (``exit_code`` 2) refuses the pair; every other one fails
    the attempt.
    """
    started = time.perf_counter()
    try:
        outcome = _run(task, captioner)
    except MemoryError as error:
        told = f" ({without_secrets(' '.join(str(error).split()))})" if str(error) else ""
        line = f"memory ran out{told}; set --memory, or run less at a time"
        outcome = Outcome(task, "failed", error="MemoryError", line=line)
    except (Exception, SystemExit) as error:
        refused = getattr(error, "exit_code", None) == 2
        state: State = "refused" if refused else "failed"
        outcome = Outcome(task, state, error=type(error).__name__, line=error_line(error))
    return replace(outcome, worker=worker, seconds=time.perf_counter() - started)


def device_lost(outcome: Outcome) -> bool:
    """Return whether the device failed in a way after which its process can compute no more."""
    return outcome.error == "AcceleratorError"


def error_line(error: BaseException) -> str:
    """Return what an error says in one line; addresses without user, password and query."""
    text = " ".join(str(error).split())
    if getattr(error, "exit_code", None) is None:
        text = f"unexpected {type(error).__name__}" + (f": {text}" if text else "")
    return without_secrets(text)


def _run(task: Task, captioner: Captioner) -> Outcome:
    # Whoever leads the workers knows their tasks, and none of this.
    from workflows.scene.opening import read_headers
    from workflows.scene.parts import find_part, join_parts, split_of
    from workflows.scene.run import caption_scene

    scenes: tuple[Scene, Scene] = (task.before, task.after)
    if task.kind == "part":
        assert task.rows is not None
        find_part(*scenes, captioner, task.options, task.rows)
        return Outcome(task, "done")
    if task.kind == "pair" and task.split_above is not None:
        scenes = read_headers(*scenes, task.options)
        rows = split_of(*scenes, captioner.card, task.options, task.split_above)
        if rows:
            return Outcome(task, "split", rows=rows)
    if task.kind == "report":
        return Outcome(task, "done", report=caption_scene(*scenes, captioner, task.options))
    # What finished tiles were kept for large pairs stays until the report has its name in the archive.
    make_report = join_parts if task.kind == "finish" else caption_scene
    report = make_report(*scenes, captioner, task.options)
    return Outcome(task, "done", result=_result(report))


def _result(report: ChangeReport) -> PairResult:
    return PairResult(
        report=report.encoded(),
        changes=len(report.changes),
        area_m2=float(report.area_m2),
        tiles=int(report.run["tiling"]["tiles"]),
        warnings=tuple(str(warning) for warning in report.run["warnings"]),
    )

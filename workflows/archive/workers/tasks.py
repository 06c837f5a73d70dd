"""What a worker does: one pair of scenes in, a report as bytes or a reason out.

Everything here travels between processes. A worker writes nothing into the archive but maps of large pairs.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from workflows.addresses import without_secrets
from workflows.archive.folder import MARK
from workflows.errors import OptionInvalid
from workflows.options import SceneOptions
from workflows.progress import cores

if TYPE_CHECKING:
    from rscc.captioner import Captioner
    from workflows.report.report import Report
    from workflows.scenes import Scene

State = Literal["done", "refused", "failed", "crashed"]
Rows = tuple[int, int]
SPLIT_ABOVE = 1024
"""A pair with more tiles than this is split into parts that several workers do."""
# One of them exists where a GPU can be had; to ask torch takes over a second.
_GPU_FILES = ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd", "/dev/nvhost-gpu", "/dev/nvgpu")


@dataclass(frozen=True)
class Task:
    """One pair to do.

    Attributes:
        options: how the pair is read, with its own dates.
        maps: folder in which workers share the maps of a large pair; None: the pair is not split.
        split_above: tiles of a pair above which it is split.
        keep_maps: leave the maps in ``maps``.
    """

    pair: str
    before: str
    after: str
    options: SceneOptions
    maps: Path | None = None
    split_above: int = SPLIT_ABOVE
    keep_maps: bool = False


@dataclass(frozen=True)
class Outcome:
    """What became of a task.

    Attributes:
        state: ``done``; ``refused``: the input or an option is wrong, another attempt is useless; ``failed``:
            another attempt may succeed; ``crashed``: the worker process ended.
        report: the GeoJSON file of a pair that is done.
        line: what went wrong, in one line without secrets of addresses.
    """

    pair: str
    state: State
    report: bytes | None = None
    error: str | None = None
    line: str | None = None
    worker: str = ""
    seconds: float = 0.0


class TaskFailed(Exception):
    """A task failed, and Dask may try it again; its argument is the outcome."""


@dataclass(frozen=True)
class ModelSource:
    """How a worker loads its model; the process that leads the workers loads neither model nor torch.

    Attributes:
        model: name or folder of the model.
        device: where it computes, as ``rscc caption --device`` takes it.
        load: returns the captioner for (model, device), a function at the top level of a module; None takes
            :meth:`rscc.Captioner.load`.
        detector: see :meth:`rscc.Captioner.with_detector`; None: the model's change head.
    """

    model: str
    device: str = "auto"
    load: Callable[[str, str], Captioner] | None = None
    detector: str | None = None

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
                load: Callable[[str, str], Captioner] = self.load or import_module(self.module).Captioner.load
                captioner = load(self.model, self.device)
                if self.detector is not None:
                    captioner = captioner.with_detector(self.detector)
                _LOADED[self] = captioner
            return _LOADED[self]

    @staticmethod
    def forget() -> None:
        """Let go of the captioners of this process."""
        with _LOADING:
            _LOADED.clear()


_LOADED: dict[ModelSource, Captioner] = {}
_LOADING = threading.Lock()


@dataclass(frozen=True)
class Unable:
    """The answer of a worker that cannot do any task: a message and an exit code."""

    line: str
    exit_code: int


def run_task(
    task: Task,
    captioner: Captioner,
    worker: str,
    in_parts: Callable[[Task, tuple[Rows, ...]], bool] | None = None,
) -> Outcome:
    """Do a task; whatever goes wrong is part of the outcome, never raised.

    Args:
        in_parts: called with the parts of a large pair, to have other workers write its maps; returns whether
            they could. None never splits a pair.
    """
    started = time.perf_counter()
    try:
        report = _caption(task, captioner, in_parts)
        outcome = Outcome(task.pair, "done", report=report.encoded())
    except MemoryError as error:
        detail = f" ({without_secrets(' '.join(str(error).split()))})" if str(error) else ""
        line = f"memory ran out{detail}; set --memory, or use fewer workers"
        outcome = Outcome(task.pair, "failed", error="MemoryError", line=line)
    except (Exception, SystemExit) as error:
        # Exit code 2: an input or an option is wrong.
        state: State = "refused" if getattr(error, "exit_code", None) == 2 else "failed"
        outcome = Outcome(task.pair, state, error=type(error).__name__, line=error_line(error))
    return replace(outcome, worker=worker, seconds=time.perf_counter() - started)


def run_part(task: Task, captioner: Captioner, rows: Rows) -> bool:
    """Write some rows of the maps of a large pair; False where this worker does not see their folder."""
    from workflows.scene.parts import find_part

    if task.maps is None or not task.maps.is_dir():
        return False
    find_part(task.before, task.after, captioner, _with_maps(task), rows)
    return True


def error_line(error: BaseException) -> str:
    """Return the message of an error in one line; addresses without user, password and query."""
    text = " ".join(str(error).split())
    if getattr(error, "exit_code", None) is None:
        text = f"unexpected {type(error).__name__}" + (f": {text}" if text else "")
    return without_secrets(text)


def local_devices(device: str, workers: int | None) -> list[str]:
    """Return the device of each worker of this machine.

    Args:
        device: with ``auto`` or ``cuda`` the visible GPUs take turns; any other is taken as it is.
        workers: their number; None takes one per GPU, else one per core.
    """
    gpus = _visible_gpus() if device in ("auto", "cuda") else 0
    if gpus:
        return [f"cuda:{number % gpus}" for number in range(workers or gpus)]
    return [device] * (workers or cores())


def _visible_gpus() -> int:
    if sys.platform == "linux" and not any(os.path.exists(name) for name in _GPU_FILES):
        return 0
    import torch

    return torch.cuda.device_count()


def _caption(
    task: Task, captioner: Captioner, in_parts: Callable[[Task, tuple[Rows, ...]], bool] | None
) -> Report:
    # The process that leads the workers imports this module, and none of these.
    from workflows.scene.maps import read_maps
    from workflows.scene.network.map_folder import compress_maps
    from workflows.scene.parts import join_parts, split_of, start_parts
    from workflows.scene.run import caption_scene
    from workflows.scenes import read_headers

    scenes: tuple[Scene, Scene] = (task.before, task.after)
    report = None
    # Workers of a cluster may not see the archive.
    is_shared = task.maps is not None and (task.maps.parents[2] / MARK).is_file()
    if task.keep_maps and not is_shared:
        raise OptionInvalid("--keep-maps needs workers that see the archive under the same path")
    if task.maps is not None and in_parts is not None and is_shared:
        scenes = read_headers(*scenes, task.options)
        rows = split_of(*scenes, captioner.card, task.options, task.split_above)
        if rows:
            # Maps that a killed run of other settings left would be refused by every part.
            start_parts(*scenes, captioner, _with_maps(task))
        if rows and in_parts(task, rows):
            report = join_parts(*scenes, captioner, _with_maps(task))
    if report is None:
        resume = task.maps if task.keep_maps else None
        report = caption_scene(*scenes, captioner, task.options, resume=resume)
    if task.keep_maps and task.maps is not None:
        compress_maps(read_maps(task.maps))
    return report


def _with_maps(task: Task) -> SceneOptions:
    return replace(task.options, keep_maps=task.maps)

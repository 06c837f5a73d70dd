"""A model for the tests of archives, and pairs that do to a worker process what the name of their file says.

``load_fake`` goes where a model is loaded: worker processes import it, as they get the paths of modules from
the test. The first time it is called in a process it puts itself before the run of a pair, and does, as the
NAME of the scene before (not its folder) holds one of the words:

    abort segv oom exit     end the process: by a native abort, by a bad address, by SIGKILL, by an exit code
    raise unpicklable       fail: with an unexpected error, with an error that cannot travel between processes
    hang held spin          never end; the second one holds the interpreter as a native call does, the third
                            one computes
    hungry                  take memory until somebody ends it
    slow                    take 0.3 seconds more
    big                     a report of 20 MB
    noisy                   print to both streams

Where the folder of the scene holds a file ``runs.log``, each run adds a line to it: the scene's name.
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from captioners import BrightnessCaptioner, card

from rscc.errors import ModelNotFound
from tiling import SceneInfo

RUNS = "runs.log"
BIG = 20_000_000


def load_fake(model: str, device: str) -> BrightnessCaptioner:
    """A fake captioner; ``missing`` cannot be loaded, ``dies`` ends the process that tries."""
    from workflows.scene import run
    from workflows.scene.parts import caption_scene  # what joins the parts of a pair keeps this one

    if model == "missing":
        raise ModelNotFound("missing: no model has this name; see rscc models")
    if model == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    if not hasattr(run.caption_scene, "behaves"):
        run.caption_scene = _behaving(caption_scene)
    captioner = BrightnessCaptioner()
    captioner.device = device
    return captioner


def fake_card(model: str):
    """The card of what ``load_fake`` loads, without loading it."""
    return card()


def runs(folder: Path) -> list[str]:
    """The names of the scenes before of all runs that a folder with a ``runs.log`` has seen."""
    return (folder / RUNS).read_text().splitlines()


class Unpicklable(Exception):
    """Cannot be made again from its message, and holds what cannot be pickled."""

    def __init__(self, left: str, right: str) -> None:
        super().__init__(f"{left} and {right}")
        self.held = lambda: left


def _behaving(run: Callable[..., Any]) -> Callable[..., Any]:
    def behave(before: str | SceneInfo, after: str | SceneInfo, *arguments: Any, **options: Any) -> Any:
        scene = Path(before.path if isinstance(before, SceneInfo) else before)
        _note(scene)
        words = re.findall("[a-z]+", scene.stem)
        for word in words:
            if word in _BEHAVIOURS:
                _BEHAVIOURS[word](scene)
        report = run(before, after, *arguments, **options)
        if "big" in words:
            report = replace(report, run={**report.run, "padding": "x" * BIG})
        return report

    behave.behaves = True  # type: ignore[attr-defined]
    return behave


def _note(before: Path) -> None:
    log = before.parent / RUNS
    if log.exists():
        with log.open("a") as file:
            file.write(before.name + "\n")


def _fail(error: Exception) -> None:
    raise error


def _take_memory() -> None:
    taken = []
    while True:
        taken.append(bytes(2**26).replace(b"\0", b"x"))
        time.sleep(0.05)


def _spin() -> None:
    while True:
        pass


def _print() -> None:
    print("a line on stdout", flush=True)
    print("a line on stderr", file=sys.stderr, flush=True)


_BEHAVIOURS: dict[str, Callable[[Path], object]] = {
    "abort": lambda before: os.abort(),
    "segv": lambda before: ctypes.string_at(0),
    "oom": lambda before: os.kill(os.getpid(), signal.SIGKILL),
    "exit": lambda before: os._exit(3),
    "raise": lambda before: _fail(RuntimeError(f"nothing is known of\n{before.name}")),
    "unpicklable": lambda before: _fail(Unpicklable("this", "that")),
    "hang": lambda before: time.sleep(3600),
    # PyDLL keeps the interpreter's lock during the call.
    "held": lambda before: ctypes.PyDLL(None).sleep(3600),
    "spin": lambda before: _spin(),
    "hungry": lambda before: _take_memory(),
    "slow": lambda before: time.sleep(0.3),
    "noisy": lambda before: _print(),
}

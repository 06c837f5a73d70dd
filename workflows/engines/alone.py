"""One pair of scenes in a process of its own, with limits: what a decoder does, it does to that alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workflows.engines.limits import Limits
from workflows.engines.local import LocalEngine
from workflows.engines.tasks import ModelSource, Task
from workflows.errors import RunFailed, WorkflowError

if TYPE_CHECKING:
    from workflows.options import SceneOptions
    from workflows.report.report import ChangeReport

# Seconds between two looks; an answer ends the wait at once.
_LOOK = 60.0
# What these say of a pair names none.
_NAMELESS = {"WorkerDied", "MemoryError"}


def caption_alone(before: str, after: str, source: ModelSource, options: SceneOptions) -> ChangeReport:
    """Do what :func:`workflows.caption_scene` does, in another process; nothing of a scene is read here.

    Args:
        before, after, options: as there.
        source: how the other process comes by its captioner.

    Raises:
        WorkflowError: an input or option is wrong, as the message says.
        RunFailed: the run failed, or its process ended.
        RsccError: the model cannot be loaded.
    """
    with LocalEngine(source, 1, limits=Limits()) as engine:
        engine.submit(Task("report", "report", "report", 1, before, after, options))
        while not (outcomes := engine.wait(_LOOK)):
            pass
    (outcome,) = outcomes
    if outcome.report is not None:
        return outcome.report
    line = f"{before} and {after}: {outcome.line}" if outcome.error in _NAMELESS else outcome.line
    raise (WorkflowError if outcome.state == "refused" else RunFailed)(line)

"""Whole jobs: a pair of scenes in, a report of captioned changes out.

Importing this package is cheap: a public name brings its module on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workflows.errors import WorkflowError
    from workflows.options import SceneOptions
    from workflows.page.scene_report import SceneReport, caption
    from workflows.report.change import Change
    from workflows.report.report import ChangeReport
    from workflows.scene.run import caption_scene

_HOME_OF = {
    "Change": "workflows.report.report",
    "ChangeReport": "workflows.report.report",
    "SceneOptions": "workflows.options",
    "SceneReport": "workflows.page.scene_report",
    "WorkflowError": "workflows.errors",
    "caption": "workflows.page.scene_report",
    "caption_scene": "workflows.scene.run",
}

__all__ = [
    "Change",
    "ChangeReport",
    "SceneOptions",
    "SceneReport",
    "WorkflowError",
    "caption",
    "caption_scene",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""Whole jobs: a pair of scenes in, a report of captioned changes out."""

from workflows.errors import WorkflowError
from workflows.report import Change, ChangeReport
from workflows.scene import SceneOptions, caption_scene

__all__ = ["Change", "ChangeReport", "SceneOptions", "WorkflowError", "caption_scene"]

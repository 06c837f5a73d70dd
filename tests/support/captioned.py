"""The report of a pair of scenes by a fake captioner."""

from __future__ import annotations

from typing import Any

from fakes import BrightnessCaptioner
from scene_pairs import MadePair

from workflows import SceneOptions, caption_scene
from workflows.progress import Progress
from workflows.report.report import ChangeReport


def captioned(
    pair: MadePair, model: Any = None, *, progress: Progress | None = None, **options: Any
) -> ChangeReport:
    """Caption a pair with a model, by default the fake one; ``options`` are those of a run."""
    return caption_scene(
        pair.before, pair.after, model or BrightnessCaptioner(), SceneOptions(**options), progress
    )

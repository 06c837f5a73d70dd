"""The report of a pair of scenes by a fake captioner."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fakes import BrightnessCaptioner
from scene_pairs import MadePair

from workflows import SceneOptions, caption_scene
from workflows.inspection.event import read_report
from workflows.progress import Progress
from workflows.report.report import ChangeReport


def captioned(
    pair: MadePair,
    model: Any = None,
    *,
    progress: Progress | None = None,
    probability: Path | None = None,
    **options: Any,
) -> ChangeReport:
    """Caption a pair with a model, by default the fake one; ``options`` are those of a run."""
    scenes, model = (pair.before, pair.after), model or BrightnessCaptioner()
    return caption_scene(*scenes, model, SceneOptions(**options), progress, probability=probability)


def kept(pair: MadePair, folder: Path, model: Any = None, **options: Any) -> tuple[ChangeReport, Path]:
    """The report, read again from its file, and that file; the change probability lies beside it."""
    made = captioned(pair, model, probability=folder / "change.tif", **options)
    source = made.write(folder / "r.geojson")
    return read_report(source), source

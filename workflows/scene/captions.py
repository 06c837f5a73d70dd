"""The words for each change of a scene: which crops are read for it, and what is said of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import shapely
from shapely.geometry import MultiPolygon, box

from rscc.structures import Caption
from tiling import ChangeRegion, ScenePair, Window
from workflows.progress import tell
from workflows.scene.carrier import OpenRun
from workflows.scene.crops import CropPlanner, View, best_caption, burnt, view_of, zoom_side
from workflows.scene.detection import outline_of

# A caption and its alternatives.
Description = tuple[Caption, tuple[str, ...]]


def describe_regions(
    run: OpenRun, events: Sequence[Sequence[ChangeRegion]], others: Sequence[Sequence[ChangeRegion]] = ()
) -> list[Description]:
    """Return for every event, which is one region or a group of them, its caption and alternatives.

    An event that fits into a crop is described from the crop centred on it, a larger one from crops centred
    on its parts. Where another event shares a crop, ``options.focus_captions`` says how the words are kept
    to this one. The captioner is told that something changed: a region exists because the model saw a
    change there; and that where in a crop it lies does not matter.

    ``others`` are events that are not described, but may share a crop with one that is. Progress is reported
    as the stage ``captions``.
    """
    outlines = [outline_of(event) for event in events]
    neighbours = Neighbours([*outlines, *(outline_of(event) for event in others)])
    jobs = jobs_of(outlines, run.crops)
    captions_of: list[list[tuple[Caption, float]]] = [[] for _ in events]

    def say(batch: Sequence[Job]) -> list[Caption]:
        views = [_view(run, job, neighbours) for job in batch]
        with run.naming([job.window for job in batch]):
            return run.captioner.caption(
                np.stack([view.before for view in views]),
                np.stack([view.after for view in views]),
                beams=run.options.beams,
                assume_changed=True,
                placeless=True,
                **_asked(run, views),
            )

    done = 0
    for batch, captions in run.sizes.run(jobs, say):
        for job, caption in zip(batch, captions, strict=True):
            captions_of[job.event].append((caption, job.weight))
        done += len(batch)
        tell(run.progress, "captions", done, len(jobs))
    return [best_caption(candidates) for candidates in captions_of]


def jobs_of(outlines: Sequence[MultiPolygon], planner: CropPlanner) -> list[Job]:
    """Return the crops to look at for events, from top to bottom: what is read next lies close."""
    jobs = [
        Job(number, window, weight)
        for number, outline in enumerate(outlines)
        for window, weight in planner.crops(outline)
    ]
    return sorted(jobs, key=lambda job: (job.window.row_off, job.window.col_off, job.event))


@dataclass(frozen=True)
class Job:
    """One crop to describe: of which event, and how many of its pixels it stands for."""

    event: int
    window: Window
    weight: float


class Neighbours:
    """Finds the events that reach into a window."""

    def __init__(self, outlines: Sequence[MultiPolygon]) -> None:
        self.outlines = outlines
        self._tree = shapely.STRtree(outlines)

    def masks(self, event: int, window: Window) -> tuple[np.ndarray, np.ndarray]:
        """Return the pixels of the event and those of all others in a window, (h, w) bool each."""
        edges = (window.col_off, window.row_off, window.col_end, window.row_end)
        near = np.sort(self._tree.query(box(*edges), predicate="intersects"))
        others = [self.outlines[number] for number in near if number != event]
        own, other = burnt([self.outlines[event]], window), burnt(others, window)
        return own, other & ~own


def _view(run: OpenRun, job: Job, neighbours: Neighbours) -> View:
    pair, way = run.pair, run.options.focus_captions
    own, others = neighbours.masks(job.event, job.window) if way != "none" else (None, None)
    if own is None or others is None or not others.any():
        return View(*pair.read(job.window)[:2])
    if way == "zoom":
        return _zoomed(pair, run.crops, own, job.window)
    return view_of(way, *pair.read(job.window)[:2], own, others)


def _zoomed(pair: ScenePair, crops: CropPlanner, own: np.ndarray, window: Window) -> View:
    """Return the tighter crop around the pixels of a change in a window, enlarged to the window's size."""
    # It brings torch with it, which those who only read reports do without.
    from rscc.images import resize

    rows, cols = np.flatnonzero(own.any(1)), np.flatnonzero(own.any(0))
    left, right = window.col_off + cols[0], window.col_off + cols[-1] + 1
    top, bottom = window.row_off + rows[0], window.row_off + rows[-1] + 1
    side = zoom_side(right - left, bottom - top, crops.size)
    closer = crops.around((left, top, right, bottom), side)
    before, after = (resize(date, (crops.size, crops.size)) for date in pair.read(closer)[:2])
    return View(before, after)


def _asked(run: OpenRun, views: Sequence[View]) -> dict[str, Any]:
    """Return the arguments that not every captioner knows, where they are needed."""
    # The decoder of a captioner that tells facts speaks for itself here.
    asked: dict[str, Any] = {} if getattr(run.captioner, "facts", None) is None else {"ground": False}
    if any(view.focus is not None for view in views):
        everything = np.ones(views[0].before.shape[1:], np.float32)
        asked["focus"] = np.stack([everything if view.focus is None else view.focus for view in views])
    return asked

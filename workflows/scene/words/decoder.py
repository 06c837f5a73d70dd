"""Sentences of the decoder from crops of the scenes, for models without facts and with ``--no-ground``."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from shapely.geometry import MultiPolygon

from rscc.structures import Caption
from tiling import ScenePair, Window
from workflows.progress import Progress, report_progress
from workflows.scene.network.models import Network
from workflows.scene.pixels import Neighbours
from workflows.scene.visibility.layer import Visibility
from workflows.scene.words.crops import CropPlanner, best_caption, masked


def describe_by_decoder(
    outlines: Sequence[MultiPolygon],
    others: Sequence[MultiPolygon],
    pair: ScenePair,
    network: Network,
    progress: Progress | None = None,
    layer: Visibility | None = None,
) -> list[Caption]:
    """Return the caption of every change, given by its outlines in pixels.

    A change that fits into a crop is described from the crop centred on it, a larger one from crops centred
    on its parts. Where another change shares a crop, everything but this one and its surroundings looks in
    AFTER as in BEFORE. The captioner is told that something changed, since the change head saw it, and that
    where in a crop it lies does not matter. Progress is reported as the stage ``captions``.

    Args:
        others: changes that are not described, but may share a crop with one that is.
        layer: what hides the ground; the captioner sees dates without haze, and hidden ground on both as the
            other date shows it. None: nothing is hidden.
    """
    captioner = network.captioner
    neighbours = Neighbours([*outlines, *others])
    jobs = jobs_of(outlines, CropPlanner(pair.grid.width, pair.grid.height, captioner.card.tile_size))
    # A captioner with facts would make its sentences of them.
    decoder: dict[str, Any] = {} if getattr(captioner, "facts", None) is None else {"ground": False}
    captions_of: list[list[tuple[Caption, float]]] = [[] for _ in outlines]

    def caption(batch: Sequence[Job]) -> list[Caption]:
        views = [_view(pair, layer, job, neighbours) for job in batch]
        with network.naming([job.window for job in batch]):
            return captioner.caption(
                *(np.stack(dates) for dates in zip(*views, strict=True)),
                assume_changed=True,
                placeless=True,
                **decoder,
            )

    done = 0
    for batch, captions in network.batches.run(jobs, caption):
        for job, one in zip(batch, captions, strict=True):
            captions_of[job.change].append((one, job.weight))
        done += len(batch)
        report_progress(progress, "captions", done, len(jobs))
    return [best_caption(candidates) for candidates in captions_of]


@dataclass(frozen=True)
class Job:
    """One crop to describe: of which change, and how many of its pixels it stands for."""

    change: int
    window: Window
    weight: float


def jobs_of(outlines: Sequence[MultiPolygon], planner: CropPlanner) -> list[Job]:
    """Return the crops to look at, from top to bottom, so that reads that follow each other are close."""
    jobs = [
        Job(number, window, weight)
        for number, outline in enumerate(outlines)
        for window, weight in planner.crops(outline)
    ]
    return sorted(jobs, key=lambda job: (job.window.row_off, job.window.col_off, job.change))


def _view(
    pair: ScenePair, layer: Visibility | None, job: Job, neighbours: Neighbours
) -> tuple[np.ndarray, np.ndarray]:
    """Return what the captioner is shown of both dates, (3, T, T) uint8 each."""
    before, after, valid = pair.read(job.window)
    if layer is not None:
        before, after, _ = layer.view(before, after, valid, job.window)
    own, others = neighbours.masks(job.change, job.window)
    return before, masked(before, after, own) if others.any() else after

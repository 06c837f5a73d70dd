"""The facts of each change of a scene, and the sentence that they make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import ndimage
from shapely.geometry import MultiPolygon

from tiling import Window
from workflows.progress import tell
from workflows.report.change import LARGE_BUILDING
from workflows.scene.captions import Job, Neighbours, jobs_of
from workflows.scene.carrier import OpenRun
from workflows.scene.crops import SURROUNDINGS
from workflows.scene.events import Event
from workflows.scene.failures import naming_windows
from workflows.scene.layout import compass_words

if TYPE_CHECKING:
    from rscc.inference.facts import GroundedCaption


def tells_facts(run: OpenRun) -> bool:
    """Return whether the sentences of a run are made of facts."""
    return run.options.ground and getattr(run.captioner, "facts", None) is not None


def describe_by_facts(
    run: OpenRun, events: Sequence[Event], others: Sequence[Event]
) -> list[GroundedCaption]:
    """Return the caption of every event, with the facts that it states.

    Progress is reported as the stage ``captions``.
    """
    from rscc.inference.facts import map_caption

    answers = fact_logits(run, [event.outline for event in events], [event.outline for event in others])
    rules = run.captioner.facts.rules  # type: ignore[union-attr]
    captions = []
    for event, logits in zip(events, answers, strict=True):
        place = compass_words(event.geometry, run.ground)
        facts = replace(
            rules.facts(logits, known=True),
            count=event.count,
            place=tuple(place.split("-")) if place else (),
            large=event.median_m2 >= LARGE_BUILDING,
        )
        captions.append(map_caption(facts))
    return captions


def fact_logits(
    run: OpenRun, outlines: Sequence[MultiPolygon], others: Sequence[MultiPolygon]
) -> list[np.ndarray]:
    """Return the logits of the fact heads, (answers,), for changes with these outlines in pixels.

    What is asked about is the outlines and their surroundings, without those of other changes. A change
    larger than a crop is seen in several, whose answers are one.
    """
    from rscc.inference.fact_heads import joined_logits

    neighbours = Neighbours([*outlines, *others])
    jobs = jobs_of(outlines, run.crops)

    def measure(batch: Sequence[Job]) -> np.ndarray:
        pairs = [run.pair.read(job.window)[:2] for job in batch]
        before, after = (np.stack(dates) for dates in zip(*pairs, strict=True))
        regions = np.stack([region_of(neighbours, job.event, job.window) for job in batch])
        with naming_windows(run, [job.window for job in batch]):
            return run.captioner.measure(before, after, regions)

    logits: list[list[np.ndarray]] = [[] for _ in outlines]
    weights: list[list[float]] = [[] for _ in outlines]
    done = 0
    for batch, answers in run.sizes.run(jobs, measure):
        for job, answer in zip(batch, answers, strict=True):
            logits[job.event].append(answer)
            weights[job.event].append(job.weight)
        done += len(batch)
        tell(run.progress, "captions", done, len(jobs))
    return [joined_logits(several, pixels) for several, pixels in zip(logits, weights, strict=True)]


def region_of(neighbours: Neighbours, event: int, window: Window) -> np.ndarray:
    """Return the pixels (h, w) bool of a window that an event's facts are asked of."""
    own, others = neighbours.masks(event, window)
    near: np.ndarray = ndimage.distance_transform_edt(~own) <= SURROUNDINGS
    return near & ~others

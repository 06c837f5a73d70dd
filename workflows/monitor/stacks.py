"""Events in a stack of scenes of 0.2 to 1.2 m, by the change and fact heads of a model.

1. The network compares each scene with those near it in time (:mod:`workflows.monitor.stack.pairs`).
2. For each date the pairs across it give the maps of a lasting step (:mod:`workflows.monitor.stack.steps`).
3. These maps are outlined, grouped and described as those of two scenes.
4. The pairs, averaged over each outline, tell which dates show the ground as before, as after, or not at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
import rasterio
import shapely
from shapely.geometry import MultiPolygon

from rscc.facts.lone_changes import KINDS as LONE_KINDS
from rscc.model_folder import ModelCard
from workflows.archive.folder import writing
from workflows.errors import OptionInvalid
from workflows.monitor.events import Direction, FoundEvent, Kind, Pair, Series, map_key
from workflows.monitor.options import MonitorOptions
from workflows.monitor.stack.kept import KeptSteps, StepChange
from workflows.monitor.stack.pairs import READ_PX, PairMaps, pair_maps
from workflows.monitor.stack.step_maps import step_maps
from workflows.monitor.stack.visibility import (
    comparable,
    next_step,
    shown_by_dates,
    sightings,
    veiled_shares,
    went_back,
)
from workflows.options import SceneOptions
from workflows.progress import Progress, report_progress
from workflows.scene.found import FoundChange
from workflows.scene.group import group
from workflows.scene.outline import outline
from workflows.scene.pixels import rasterize_outlines, window_around
from workflows.scene.words.facts import describe_by_facts
from workflows.scene.words.location import ground_of

if TYPE_CHECKING:
    from rscc.captioner import Captioner
    from rscc.facts.grounded_captions import GroundedCaption
    from rscc.visibility.detector import VeilDetector

SAME_GROUND = 0.5
"""Share of an outline that a later one must cover to be the end of the same event."""
VEILED = 0.5
"""Share of an outline under cloud, shadow or dense haze from which a date does not show its ground."""
LEAST = 0.76
"""Share of a model's threshold from which a step is outlined that four pairs show: their least probability is
lower than any one of them."""
FOLLOWED = 80
"""Scenes before and after a step that tell about its change, so that what is stored of it is bounded."""
_SPARSE = 8
"""A small place is read at once where outlines fill more than one part in so many of it."""
_KINDS: dict[str, Kind] = {
    "building": "building",
    "road": "road",
    "parking lot": "built_up",
    "trees": "trees",
    "bare ground": "bare_ground",
}


@dataclass(frozen=True)
class _Step:
    """A change of the ground after date ``date``, and its mean probability in each pair that shows it."""

    date: int
    change: StepChange
    pooled: dict[Pair, float]


def find_objects(
    series: Series, options: MonitorOptions, captioner: Captioner, progress: Progress | None = None
) -> list[FoundEvent]:
    """Find what appeared or disappeared to stay in a series; a pure function of its scenes.

    Maps of pairs are kept in ``series.folder``. Progress is reported as the stages ``pairs`` and ``steps``.

    Args:
        captioner: a model with fact heads that is meant for the resolution of the scenes.

    Raises:
        OptionInvalid: the model has no fact heads.
        TilingError, TooCoarse: a scene cannot be read, or the model is not meant for it.
        MapsBusy, MapsUnusable: another run uses the folder, or the system refuses.
    """
    chosen = options.reading
    if getattr(captioner, "facts", None) is None:
        raise OptionInvalid(
            f"model: {captioner.card.name} has no fact heads, by which events are named; leave --model out, "
            "or give rscc-base or rscc-small"
        )
    with rasterio.Env():
        pairs = pair_maps(series, chosen, captioner, progress)
        if pairs is None:
            return []
        try:
            steps = _steps(series, pairs, chosen, captioner, progress)
        finally:
            pairs.close()
    return _events(steps, [scene.name for scene in series.scenes])


def _without_veiled(
    changes: list[StepChange],
    date: int,
    series: Series,
    pairs: PairMaps,
    detector: VeilDetector | None,
) -> list[StepChange]:
    """Return the changes after a date, except those that cloud, shadow or dense haze may explain.

    Before the second date, and after the last but one, a single date tells how the ground was.
    """
    lone = ([0] if date == 0 else []) + ([pairs.count - 1] if date == pairs.count - 2 else [])
    for one in lone if changes else ():
        # The nearest date is compared with it; the ground changed between the two, so they have a pair.
        pair = next(pair for pair in sorted(pairs.names, reverse=one > 0) if one in pair and pair in pairs)
        if map_key(*(series.scenes[number].key for number in pair)) in series.archived:
            continue  # the archive judged no ground that is hidden
        shares = veiled_shares(pairs, pair, pair.index(one), [change.pixels for change in changes], detector)
        changes = [change for change, share in zip(changes, shares, strict=True) if share < VEILED]
    return changes


def _steps(
    series: Series,
    pairs: PairMaps,
    options: SceneOptions,
    captioner: Captioner,
    progress: Progress | None,
) -> list[_Step]:
    kept = KeptSteps(pairs.maker.folder, [one.key for one in series.scenes], pairs.frame)
    steps: list[list[StepChange]] = []
    new: set[int] = set()
    for date in range(pairs.count - 1):
        found = kept.read(date)
        if found is None:
            changes = _find_changes(pairs, date, options, captioner.card)
            found = _without_veiled(changes, date, series, pairs, getattr(captioner, "veils", None))
            new.add(date)
        steps.append(found)
        report_progress(progress, "steps", date + 1, pairs.count - 1)
    if new:
        kept.add_known_means(change for date in new for change in steps[date])
    new |= _pool([(date, change) for date, changes in enumerate(steps) for change in changes], pairs)
    with writing(kept.folder):
        for date in sorted(new):
            kept.write(date, steps[date])
        kept.remove_others()
    return [
        _Step(
            date,
            change,
            {
                pair: comparable(mean, change.band)
                for pair, name in pairs.names.items()
                if _is_followed(date, pair) and (mean := change.pooled[name]) is not None
            },
        )
        for date, changes in enumerate(steps)
        for change in changes
    ]


def _is_followed(date: int, pair: Pair) -> bool:
    """Return whether a pair tells about the step after a date."""
    return date - FOLLOWED < pair[0] and pair[1] <= date + FOLLOWED


def _find_changes(pairs: PairMaps, date: int, options: SceneOptions, card: ModelCard) -> list[StepChange]:
    """Return what changed to stay after a date."""
    options = replace(options, threshold=LEAST * card.threshold)
    with (
        TemporaryDirectory(prefix="rscc-step-") as folder,
        step_maps(pairs, date, Path(folder), card, options) as maps,
    ):
        if maps is None:
            return []
        regions = outline(maps.bands(), options.threshold_for(card), maps.frame.grid, options)
        changes = group(regions, maps, options)
        captions = describe_by_facts(changes, maps, ground_of(pairs.frame))
        return [
            _step_change(change, caption)
            for change, caption in zip(changes.found, captions, strict=True)
            if _is_witnessed(date, pairs.count, caption)
        ]


def _step_change(change: FoundChange, caption: GroundedCaption) -> StepChange:
    told = caption.facts
    return StepChange(
        band=change.kind,
        kind=_kind(caption),
        direction=_direction(caption),
        pixels=change.pixels,
        geometry=MultiPolygon(list(shapely.get_parts(change.geometry))),
        probability=change.probability,
        count=change.count if change.kind == "change" else None,
        area_m2=change.area_m2,
        facts={
            "sentence": caption.text,
            "came": list(told.came),
            "gone": list(told.gone),
            "before_cover": list(told.before),
            "count_sure": told.sure,
            "largest_m2": change.largest_m2,
            "cut_by_edge": change.cut_by_edge,
        },
    )


def _is_witnessed(date: int, count: int, caption: GroundedCaption) -> bool:
    """Return whether a step after a date can be reported.

    Before the second date only one tells how the ground was. An object that it shows alone may be a lorry,
    and objects that are not certain a veil.
    """
    is_object_gone = _direction(caption) == "disappeared" and _kind(caption) != "trees"
    return date > 0 or count == 2 or (caption.facts.sure != 0 and not is_object_gone)


def _pool(changes: Sequence[tuple[int, StepChange]], pairs: PairMaps) -> set[int]:
    """Add to each change its mean probability in pairs that it lacks; return the dates of those added to."""
    bands = ["change", *(kind.name for kind in LONE_KINDS)]
    whole = pairs.frame.focus
    windows = [window_around(change.pixels).intersection(whole) for _, change in changes]
    masks: dict[int, np.ndarray] = {}
    new: set[int] = set()
    for pair, name in pairs.names.items():
        lacking = [
            number
            for number, (date, change) in enumerate(changes)
            if name not in change.pooled and _is_followed(date, pair)
        ]
        pixels = sum(windows[number].width * windows[number].height for number in lacking)
        at_once = whole.width * whole.height <= min(READ_PX, _SPARSE * pixels)
        for number in lacking:
            (date, change), window = changes[number], windows[number]
            values = pairs.probability(pair, whole if at_once else window, bands.index(change.band))
            if values is not None and at_once:
                values = values[window.slices(whole)]
            if number not in masks:
                masks[number] = rasterize_outlines([change.pixels], window, all_touched=False)
            change.pooled[name] = None if values is None else _mean(values[masks[number]])
            new.add(date)
    return new


def _mean(values: np.ndarray) -> float | None:
    """Return the mean of the known values; None where less than half of them is known."""
    valid = values[~np.isnan(values)]
    return float(valid.mean()) if len(valid) and 2 * len(valid) >= len(values) else None


def _events(steps: Sequence[_Step], names: Sequence[str]) -> list[FoundEvent]:
    """Return one event for each step, but one for what came and went."""
    tree = shapely.STRtree([step.change.pixels for step in steps])
    ends: dict[int, int] = {}
    for number in range(len(steps)):
        if number not in ends.values():
            later = _end_of(number, steps, tree, len(names))
            if later is not None and later not in ends.values():
                ends[number] = later
    gone = set(ends.values())
    return [
        _event(step, steps[ends[number]].date if number in ends else None, names)
        for number, step in enumerate(steps)
        if number not in gone
    ]


def _end_of(number: int, steps: Sequence[_Step], tree: shapely.STRtree, count: int) -> int | None:
    """Return the later step by which the ground of a step became as before; None where it stays."""
    step = steps[number]
    date = next_step(step.pooled, step.date, count)
    if date is None:
        return None
    back = went_back(step.pooled, step.date, date)
    for other in sorted(tree.query(step.change.pixels, predicate="intersects").tolist()):
        later = steps[other]
        if later.date != date:
            continue
        shared = step.change.pixels.intersection(later.change.pixels).area
        if shared < SAME_GROUND * later.change.pixels.area:
            continue
        opposite = (step.change.direction, later.change.direction) == ("appeared", "disappeared")
        if back or (back is None and opposite):
            return int(other)
    return None


def _event(step: _Step, stop: int | None, names: Sequence[str]) -> FoundEvent:
    change = step.change
    shown = shown_by_dates(step.pooled, step.date, stop, len(names))
    near = slice(max(0, step.date - FOLLOWED + 1), step.date + FOLLOWED + 1)
    return FoundEvent(
        geometry=change.geometry,
        kind=change.kind,
        direction=change.direction,
        sightings=sightings(shown[near], names[near], change.area_m2, change.count),
        probability=change.probability,
        count=change.count,
        area_m2=change.area_m2,
        facts=change.facts,
    )


def _direction(caption: GroundedCaption) -> Direction:
    direction = caption.facts.direction
    return direction if direction in ("appeared", "disappeared") else "changed"


def _kind(caption: GroundedCaption) -> Kind:
    """Return what appeared or disappeared: what is built decides, see ``ChangeFacts.direction``."""
    facts = caption.facts
    for name in _KINDS:
        if name in (facts.gone if facts.direction == "disappeared" else facts.came):
            return _KINDS[name]
    return "changed"

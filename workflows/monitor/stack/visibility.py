"""What each date shows of one step: the ground as before, the ground as after, or neither."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rscc.facts.lone_changes import KINDS as LONE_KINDS
from workflows.monitor.events import Pair, Sighting, Visibility
from workflows.monitor.stack.pairs import REACH, PairMaps
from workflows.monitor.stack.steps import step_probability
from workflows.scene.pixels import rasterize_outlines, window_around
from workflows.scene.visibility.layer import HIDDEN_BY, VISIBILITY
from workflows.scene.visibility.layer import Visibility as VisibilityLayer
from workflows.scene.visibility.survey import survey

if TYPE_CHECKING:
    from shapely.geometry import MultiPolygon

    from rscc.visibility.detector import VeilDetector

ALIKE = 0.5
"""Change probability below which two dates look alike."""
CLEARER = 0.2
"""By so much less a date must differ from one side than from the other to belong to it."""
Pooled = Mapping[Pair, float]
"""Mean change probability of an outline in each pair that shows it."""


class Shown(NamedTuple):
    """What one date shows, as :class:`workflows.monitor.events.Sighting` has it."""

    state: Visibility
    probability: float | None


HIDDEN = Shown("hidden", None)


def comparable(mean: float, band: str) -> float:
    """Return a mean probability so that :data:`ALIKE` decides: of a lone road or clearing, less does."""
    least = next((kind.least for kind in LONE_KINDS if kind.name == band), ALIKE)
    return min(1.0, mean * ALIKE / least)


def next_step(pooled: Pooled, step: int, count: int) -> int | None:
    """Return the next date after which the ground of an outline changed again; None where it stays."""

    def read(pair: Pair) -> np.ndarray | None:
        return np.float32(pooled[pair]) if pair in pooled else None  # type: ignore[return-value]

    for later in range(step + 1, count - 1):
        found = step_probability(read, later, count, ALIKE)
        if found is not None and found >= ALIKE:
            return later
    return None


def went_back(pooled: Pooled, step: int, later: int) -> bool | None:
    """Return whether the ground looks after ``later`` as it did up to ``step``; None where no pair tells."""
    apart = [value for (first, second), value in pooled.items() if first <= step and second > later]
    return None if not apart else float(np.median(apart)) < ALIKE


def shown_by_dates(pooled: Pooled, step: int, stop: int | None, count: int) -> list[Shown]:
    """Return what each date shows of the step after date ``step``.

    Args:
        step: the last date that shows the ground as before.
        stop: the last date before the ground changed again; None where it did not.
    """
    end = count - 1 if stop is None else stop
    before, after = range(step + 1), range(step + 1, end + 1)
    return [_shown(pooled, date, before, after, is_later=date > end) for date in range(count)]


def _shown(
    pooled: Pooled, date: int, before: Sequence[int], after: Sequence[int], *, is_later: bool
) -> Shown:
    like_before, like_after = (1 - _difference(pooled, date, side) for side in (before, after))
    if is_later:
        # Beyond a second change only dates of the same kind tell whether the ground is visible.
        others = range(after[-1] + 1, date + REACH + 1)
        is_visible = not _difference(pooled, date, others) >= ALIKE and any(date in pair for pair in pooled)
        return Shown("absent", 0.0) if is_visible else HIDDEN
    if math.isnan(like_before) and math.isnan(like_after):
        return HIDDEN
    if math.isnan(like_before):  # the only date before, or far after it
        return _one_sided("seen", like_after, "absent", date in before)
    if math.isnan(like_after):
        return _one_sided("absent", like_before, "seen", date in after)
    probability = 0.5 + (like_after - like_before) / 2
    if abs(like_after - like_before) < CLEARER:
        return HIDDEN
    return Shown("seen" if probability > 0.5 else "absent", probability)


def _one_sided(state: Visibility, like: float, other: Visibility, is_other: bool) -> Shown:
    """Return what a date shows that is compared with dates of ``state`` alone."""
    if like <= 1 - ALIKE:
        if not is_other:
            return HIDDEN
        state = other
    return Shown(state, like if state == "seen" else 1 - like)


def _difference(pooled: Pooled, date: int, others: Sequence[int]) -> float:
    """Return the median change probability between a date and others; NaN where no pair tells."""
    pairs = [(min(date, other), max(date, other)) for other in others if 0 < abs(date - other) <= REACH]
    values = [pooled[pair] for pair in pairs if pair in pooled]
    return float(np.median(values)) if values else math.nan


def sightings(
    shown: Sequence[Shown], names: Sequence[str], area_m2: float, count: int | None
) -> tuple[Sighting, ...]:
    """Return the sightings of an event of ``count`` objects, one for each scene."""
    none = None if count is None else 0
    measured = {"seen": (area_m2, count), "absent": (0.0, none), "hidden": (None, None)}
    return tuple(
        Sighting(name, one.state, one.probability, *measured[one.state])
        for name, one in zip(names, shown, strict=True)
    )


def veiled_shares(
    pairs: PairMaps, pair: Pair, role: int, outlines: Sequence[MultiPolygon], detector: VeilDetector | None
) -> list[float]:
    """Return the share of each outline that cloud, shadow or dense haze hides on one date of a pair.

    Args:
        role: 0 for the first date, 1 for the second.
        outlines: in pixels of the grid of the place.
    """
    with TemporaryDirectory(prefix="rscc-veils-") as folder, pairs.maker.opened(pair) as opened:
        survey(opened.pair, opened.grid.area, Path(folder), detector)
        grid = opened.pair.grid
        layer = VisibilityLayer(Path(folder) / VISIBILITY, grid.anchor, opened.grid.area)
        right, down = (one - other for one, other in zip(pairs.frame.grid.anchor, grid.anchor, strict=True))
        shares = []
        for outline in outlines:
            window = window_around(outline).shifted(right, down).intersection(opened.grid.area)
            if not window:
                shares.append(0.0)
                continue
            inside = rasterize_outlines([outline], window.shifted(-right, -down), all_touched=False)
            hidden = layer.classes(window)[role][inside] > HIDDEN_BY.index("fill")
            shares.append(float(hidden.mean()) if hidden.size else 0.0)
        layer.close()
    return shares

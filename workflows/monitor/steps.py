"""Events in a series of scenes of 8 to 40 m: steps in the brightness and colour of the ground that last.

1. All dates are brought to one brightness (:mod:`workflows.monitor.step.cube`); dates that a cloud or its
   shadow hides count for neither side (:mod:`workflows.monitor.step.clear`).
2. One step beside the season is fitted to each pixel (:mod:`workflows.monitor.step.fit`), and what tells it
   from season and noise is measured (:mod:`workflows.monitor.step.features`).
3. A logistic regression says how probable a lasting change is.
4. Neighbouring pixels that changed at about the same time are a region, see
   :mod:`workflows.monitor.step.regions`. Its commonest date is the first with the event; later dates look as
   after it, or as before it again.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import compress

import numpy as np
import shapely
from affine import Affine
from rasterio.features import shapes
from scipy import ndimage
from shapely.geometry import MultiPolygon, shape

from tiling import Window, geodesic_area_m2, to_wgs84
from workflows.monitor.events import FoundEvent, Series, Sighting
from workflows.monitor.options import MonitorOptions
from workflows.monitor.step.cube import SeriesCube
from workflows.monitor.step.features import FEATURES, Measured, StepModel, Usual, measure, step_model
from workflows.monitor.step.fit import SHORT, SIDE, side_of, without_season
from workflows.monitor.step.kinds import CHANGED, Colors, KindOf, kind_by_indices
from workflows.monitor.step.regions import Pixels, find_regions
from workflows.progress import Progress, report_progress

LEAST = 0.22
"""Probability of every pixel of a region."""
# A pixel with less than these shares of the statistic around it lies beside a stronger change.
EDGE, WIDE_EDGE = 0.8, 0.7
# Standard deviations in pixels of the filters of the probability, and of the statistic that dates a pixel.
SMOOTH, DATING = 0.7, 1.5
# Values of a block of all dates and bands, and pixels around a block that its filters need.
BLOCK_VALUES, MARGIN, SMALLEST = 9_000_000, 36, 64
# Shares of the pixels of a region: seen at least, to count as usable; changed at a date, to count as growth;
# as after the step, below which all last dates show that it is gone.
USABLE, GROWTH, GONE = 0.5, 0.15, 0.4
# Dates from which a series needs SIDE of them before a step: what one of four dates alone lacks may be the
# season, or high water, and more dates after it confirm nothing.
FEW = 4
# Dates on each side that tell the kind by indices.
KIND_DATES = 3
DAYS_PER_MONTH = 365.2425 / 12


def find_steps(
    series: Series,
    options: MonitorOptions,
    progress: Progress | None = None,
    model: StepModel | None = None,
) -> list[FoundEvent]:
    """Find what changed to stay in a series; a pure function of its scenes.

    A step needs two usable dates on both sides; in a series of fewer than six dates one after it, of fewer
    than four one on both sides. Progress is reported as the stage ``steps``.

    Args:
        model: in place of the shipped coefficients.
    """
    if len(series.scenes) < 2:
        return []
    with SeriesCube.open(series, options) as cube:
        shown = cube.dates_with_ground()
        if not all(shown):
            # A hidden date repeats the one before it, so one that hides everything would confirm any step.
            kept = tuple(compress(series.scenes, shown))
            events = find_steps(replace(series, scenes=kept), options, progress, model)
            return [_with_hidden(event, series) for event in events]
        months = _months(series)
        changed = [
            _changed_pixels(core, window, found, model or step_model())
            for core, window, found in measured_blocks(series, cube, progress)
        ]
        colors = Colors.of(cube.median)
        names = [scene.name for scene in series.scenes]
        return [
            _event(region, first, usable, names, cube, colors)
            for region in find_regions(Pixels.joined(changed), months)
            if _has_sides(usable := _usable_dates(region), first := _first_date(region, len(names)))
        ]


def _with_hidden(event: FoundEvent, series: Series) -> FoundEvent:
    """Return an event with a sighting of each scene of a series: hidden, where it has none."""
    known = {one.scene: one for one in event.sightings}
    sightings = (known.get(scene.name, Sighting(scene.name, "hidden")) for scene in series.scenes)
    return replace(event, sightings=tuple(sightings))


def measured_blocks(
    series: Series, cube: SeriesCube, progress: Progress | None = None
) -> Iterator[tuple[Window, Window, Measured]]:
    """Yield windows that cover the grid once, and each within a wider window with what was measured there."""
    months = _months(series)
    # A date that is known to the year only tells nothing about the season.
    season = np.where([len(scene.date.text) > 4 for scene in series.scenes], months, np.nan)
    remove = without_season(season)
    usual = Usual.of(cube.sample, remove)
    blocks = list(_blocks(cube.grid.width, cube.grid.height, len(months)))
    for number, (core, window) in enumerate(blocks, start=1):
        values, valid = cube.read(window)
        yield core, window, measure(values, valid, season, remove, usual)
        report_progress(progress, "steps", number, len(blocks))


def _months(series: Series) -> np.ndarray:
    return np.array([scene.date.ordinal for scene in series.scenes]) / DAYS_PER_MONTH


def _blocks(width: int, height: int, dates: int) -> Iterator[tuple[Window, Window]]:
    """Yield windows that cover a grid once, each with the window that is read for it."""
    whole = Window(0, 0, width, height)
    side = max(SMALLEST, int((BLOCK_VALUES / (3 * dates)) ** 0.5) - 2 * MARGIN)
    for row in range(0, height, side):
        for col in range(0, width, side):
            core = Window(col, row, side, side).intersection(whole)
            around = Window(col - MARGIN, row - MARGIN, side + 2 * MARGIN, side + 2 * MARGIN)
            yield core, around.intersection(whole)


def _changed_pixels(core: Window, window: Window, found: Measured, model: StepModel) -> Pixels:
    probability = ndimage.gaussian_filter(model.probability(found.features), SMOOTH)
    near, around, widely = (
        np.expm1(found.features[FEATURES.index(name)]) for name in ("strength", "around", "widely")
    )
    maybe = (probability > LEAST) & (near >= EDGE * around) & (near >= WIDE_EDGE * widely)
    support = found.steps.strength * np.where(maybe, probability, 0)
    support = ndimage.gaussian_filter(support, (0, DATING, DATING))
    inside = np.zeros_like(maybe)
    inside[core.slices(window)] = True
    row, col = np.nonzero(maybe & inside)
    return Pixels(
        row=row + window.row_off,
        col=col + window.col_off,
        probability=probability[row, col],
        first=found.steps.first[support[:, row, col].argmax(axis=0)],
        level=found.level[:, row, col].T.astype(np.float16),
        before=found.before[:, row, col].T.astype(np.float16),
        after=found.after[:, row, col].T.astype(np.float16),
    )


def _first_date(region: Pixels, dates: int) -> int:
    """Return the first date with the change of a region: the commonest of its pixels."""
    counts = np.bincount(region.first, region.probability, minlength=dates)
    # Neighbouring dates support each other: pixels at the rim are dated a little early or late.
    return int(np.convolve(counts, (0.6, 1.0, 0.6), "same").argmax())


def _usable_dates(region: Pixels) -> np.ndarray:
    """Return (dates,) bool: the date shows most of the region."""
    return np.asarray(np.isfinite(region.level).mean(axis=0) >= USABLE)


def _has_sides(usable: np.ndarray, first: int) -> bool:
    """Return whether enough usable dates lie before and after a step."""
    dates = len(usable)
    before = 1 if dates < FEW else SIDE
    return bool(usable[:first].sum() >= before and usable[first:].sum() >= side_of(dates))


def _event(
    region: Pixels, first: int, usable: np.ndarray, names: list[str], cube: SeriesCube, colors: Colors
) -> FoundEvent:
    geometry = _outline(region, cube)
    area = geodesic_area_m2(geometry)
    visible = np.isfinite(region.level)
    share = (region.level > 0).sum(axis=0) / np.maximum(visible.sum(axis=0), 1)
    gone = _gone_from(share, usable, first)
    kind = _kind(region, cube, colors, usable, first, gone)
    steps = np.bincount(region.first, minlength=len(names)) / len(region.first)
    later = [date for date in range(first + 1, gone) if usable[date] and steps[date] >= GROWTH]
    return FoundEvent(
        geometry=geometry,
        kind=kind.kind,
        direction=kind.direction,
        sightings=tuple(
            _sighting(name, bool(usable[date]), first <= date < gone, float(share[date]), area)
            for date, name in enumerate(names)
        ),
        probability=round(float(region.probability.max()), 4),
        count=None,
        area_m2=area,
        facts={"pixels": len(region.row), **({"kind_by": kind.by} if kind.by else {})},
        growth=tuple(names[date] for date in later),
    )


def _sighting(name: str, usable: bool, seen: bool, share: float, area: float) -> Sighting:
    if not usable:
        return Sighting(name, "hidden")
    return Sighting(
        name, "seen" if seen else "absent", round(share, 3), round(share * area, 1) if seen else None
    )


def _gone_from(share: np.ndarray, usable: np.ndarray, first: int) -> int:
    """Return the first of the last dates that all look as before the step, at least two; else their end."""
    later = [date for date in range(first, len(share)) if usable[date]]
    gone = len(share)
    while later and share[later[-1]] < GONE:
        gone = later.pop()
    enough = usable[gone:].sum() >= side_of(len(share)) and bool(later)
    return gone if enough else len(share)


def _kind(
    region: Pixels, cube: SeriesCube, colors: Colors, usable: np.ndarray, first: int, gone: int
) -> KindOf:
    dates = np.flatnonzero(usable)
    before, after = dates[dates < first][-KIND_DATES:], dates[(dates >= first) & (dates < gone)][-KIND_DATES:]
    parts = cube.parts
    if parts and len(before) and len(after):
        old, new = (cube.spectral_means(region.row, region.col, side) for side in (before, after))
        by_index = kind_by_indices(old, new, parts)
        if by_index is not None:
            return by_index
    # Of few dates the colours are mostly season and light.
    if not cube.true_colors or len(usable) < SHORT:
        return CHANGED
    colour = [np.median(side.astype(np.float32), axis=0) for side in (region.before, region.after)]
    return colors.kind(*colour)


def _outline(region: Pixels, cube: SeriesCube) -> MultiPolygon:
    """Return the outline of the pixels in WGS84."""
    top, left = int(region.row.min()), int(region.col.min())
    mask = np.zeros((int(region.row.max()) - top + 1, int(region.col.max()) - left + 1), np.uint8)
    mask[region.row - top, region.col - left] = 1
    moved = cube.grid.transform @ Affine.translation(left, top)
    parts = [shape(part) for part, _ in shapes(mask, mask=mask.astype(bool), transform=moved)]
    return MultiPolygon(shapely.get_parts(to_wgs84(shapely.union_all(parts), cube.grid.crs)).tolist())

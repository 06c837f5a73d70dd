"""Where a pair changed: the rows that the model found, traced as regions; in bounded memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from typing import Any, NamedTuple

import numpy as np
import shapely
from shapely.geometry import MultiPolygon

from tiling import Band, ChangeRegion, Grid, Window, polygonize
from workflows.options import SceneOptions
from workflows.scene.carrier import OpenRun
from workflows.scene.probability import NOTHING, find_rows


def touching(outlines: Sequence[Any], window: Window) -> np.ndarray:
    """Return (n,) bool: which of the outlines, in pixels, touch a window of the same grid."""
    return shapely.intersects(
        np.array(outlines, dtype=object),
        shapely.box(window.col_off, window.row_off, window.col_end, window.row_end),
    )


def outline_of(regions: Iterable[ChangeRegion]) -> MultiPolygon:
    """Return all outlines of regions, in pixels, as one geometry."""
    return shapely.multipolygons(shapely.get_parts([region.pixel_polygon for region in regions]))


class Detection(NamedTuple):
    """The changed regions of an area, and the counts of its tiles, see :func:`find_rows`."""

    regions: list[ChangeRegion]
    counts: dict[str, int]


def find_regions(
    run: OpenRun, area: Window | None = None, keep: Callable[[Band], None] | None = None
) -> Detection:
    """Return the changed regions of an area, by default of all that is to be looked at.

    Without an area, progress is reported and the rows that an earlier run finished are not computed again;
    the regions are the same. ``keep`` is given every band, from top to bottom.
    """
    counts = Counter(NOTHING)

    def bands() -> Generator[Band]:
        for several, row_counts in find_rows(run, area):
            counts.update(row_counts)
            for band in several:
                if keep is not None:
                    keep(band)
                yield band

    # Closed also when tracing fails, so that the threads end.
    with closing(bands()) as given:
        regions = traced(given, run.options.threshold_for(run.card), run.pair.grid, run.options)
    return Detection(regions, {name: count for name, count in counts.items() if name != "tiles"})


def traced(bands: Iterable[Band], threshold: float, grid: Grid, options: SceneOptions) -> list[ChangeRegion]:
    """Return the regions of at least ``threshold`` in bands of change probability, from top to bottom."""
    # Half the area here, all of it once the outline that is reported is known: simplifying moves edges.
    smallest = 0.5 * options.least_outline_for(grid.gsd) / grid.gsd**2
    return polygonize(
        bands, threshold, min_area_px=smallest, simplify_px=options.simplify, transform=grid.transform
    )

"""Where a pair changed: the rows that the model found, traced as regions; in bounded memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import shapely
from shapely.geometry import MultiPolygon

from tiling import ChangeRegion, Polygonizer, ScenePair, TileGrid, Window
from tiling.frame import Frame
from workflows.memory import AHEAD, Batches
from workflows.options import SceneOptions
from workflows.progress import Progress
from workflows.rows import find_rows

if TYPE_CHECKING:
    from rscc.captioner import Captioner
    from rscc.weights import ModelCard
    from workflows.tile_cache import TileCache


def tile_grid(
    pair: ScenePair | Frame, card: ModelCard, options: SceneOptions, area: Window | None = None
) -> TileGrid:
    """Return the tiles of a pair that touch ``area``, by default all; they are fixed to the ground.

    Raises:
        OptionInvalid: the overlap that was asked for is too large.
    """
    return TileGrid(
        pair.grid.width,
        pair.grid.height,
        tile=card.tile_size,
        overlap=options.overlap_for(card),
        anchor=pair.grid.anchor,
        area=area,
    )


def search_area(pair: ScenePair | Frame, card: ModelCard, options: SceneOptions) -> Window:
    """Return the pixels to look at: those asked for, and around them a tile and the distance of a group.

    So a change that lies across the edge of what was asked for is seen whole, unless it is larger than that.
    """
    return grown(pair, pair.focus, card.tile_size + int(np.ceil(options.group_distance / pair.grid.gsd)))


def grown(pair: ScenePair | Frame, window: Window, pixels: int) -> Window:
    """Return ``window`` with ``pixels`` more on every side, as far as the working grid goes."""
    larger = Window(
        window.col_off - pixels,
        window.row_off - pixels,
        window.width + 2 * pixels,
        window.height + 2 * pixels,
    )
    return larger.intersection(Window(0, 0, pair.grid.width, pair.grid.height))


def find_changes(
    pair: ScenePair,
    grid: TileGrid,
    captioner: Captioner,
    options: SceneOptions,
    progress: Progress | None = None,
) -> tuple[list[ChangeRegion], dict[str, int]]:
    """Return the changed regions that touch what was asked for of ``pair``, and the counts of its tiles.

    Arguments and counts as :func:`find_regions`.
    """
    regions, counts = find_regions(pair, grid, captioner, options, progress)
    touched = touching([region.pixel_polygon for region in regions], pair.focus)
    return [region for region, touches in zip(regions, touched, strict=True) if touches], counts


def touching(outlines: Sequence[Any], window: Window) -> np.ndarray:
    """Return (n,) bool: which of the outlines, in pixels, touch a window of the same grid."""
    return shapely.intersects(
        np.array(outlines, dtype=object),
        shapely.box(window.col_off, window.row_off, window.col_end, window.row_end),
    )


def outline_of(regions: Iterable[ChangeRegion]) -> MultiPolygon:
    """Return all outlines of regions, in pixels, as one geometry."""
    return shapely.multipolygons(shapely.get_parts([region.pixel_polygon for region in regions]))


def find_regions(
    pair: ScenePair,
    grid: TileGrid,
    captioner: Captioner,
    options: SceneOptions,
    progress: Progress | None = None,
    *,
    sizes: Batches | None = None,
    ahead: int = AHEAD,
    cache: TileCache | None = None,
) -> tuple[list[ChangeRegion], dict[str, int]]:
    """Return the changed regions of the grid's area, and how many tiles were ``blank`` and ``changed``.

    Blank tiles have no valid pixel and are not shown to the model. With a cache, the rows that an earlier
    run finished are not computed again; the regions are the same.

    Args:
        pair: the scenes.
        grid: the tiles to look at.
        captioner: the model.
        options: of the run.
        progress: told of the stage ``tiles``.
        sizes: how many tiles the model gets at once; by default as the options say.
        ahead: tiles that are read in advance.
        cache: keeps the finished rows.
    """
    # Half the area here, all of it once the outline that is reported is known: simplifying moves edges.
    smallest = 0.5 * options.min_area / pair.grid.gsd**2
    polygons = Polygonizer(options.threshold_for(captioner.card), min_area_px=smallest)
    counts = Counter(tiles=0, blank=0, changed=0)
    sizes = sizes or Batches(options.batch_size)
    found = find_rows(pair, grid, captioner, sizes, progress, ahead=ahead, cache=cache)
    for bands, own in found:
        counts.update(own)
        for band in bands:
            polygons.add(band)
    regions = polygons.finish(simplify_px=options.simplify, transform=pair.grid.transform)
    return regions, {name: counts[name] for name in ("blank", "changed")}

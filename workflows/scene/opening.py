"""Two scenes opened as one pair for a model: dates, working grid, tiles and warnings."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import shapely
from shapely.geometry import MultiPolygon, Polygon

from rscc.model_folder import ModelCard
from tiling import Frame, Lattice, NoOverlap, ScenePair, TileGrid, Window, around, common_data, plan_frame
from workflows.dates import scene_date
from workflows.options import SceneOptions
from workflows.printable import counted, printable
from workflows.report.record import grid_record, model_record, scene_record, settings_record, versions
from workflows.report.scenes import in_pixels
from workflows.scene.evidence import ROAD_REACH
from workflows.scene.given.layer import GivenLayer, GivenOutline
from workflows.scene.given.read import read_changes
from workflows.scene.network.models import common_side
from workflows.scene.pixels import window_around
from workflows.scene.resolution import Dates, pair_warnings, planned_gsd
from workflows.scene.words.location import ground_of
from workflows.scenes import Infos, Scene, bounded_cache, expanded, open_at, read_headers


@dataclass(frozen=True)
class OpenPair:
    """A pair of scenes, and how a model looks at it.

    Attributes:
        grid: the tiles to search; their area is what was asked for and a margin around it.
        given: changes that are described in place of those that would be found; None to find them.
    """

    pair: ScenePair
    card: ModelCard
    options: SceneOptions
    grid: TileGrid
    given: GivenLayer | None = None

    @property
    def infos(self) -> Infos:
        """The headers of both scenes."""
        return self.pair.before, self.pair.after

    @property
    def frame(self) -> Frame:
        """The working grid, and the pixels that were asked for."""
        return Frame(self.pair.grid, self.pair.focus, self.pair.site)

    @cached_property
    def dates(self) -> Dates:
        """When the scenes were taken."""
        before, after = self.infos
        return (
            scene_date(before.path, before.tags, self.options.date_before),
            scene_date(after.path, after.tags, self.options.date_after),
        )

    @cached_property
    def ground(self) -> Polygon | MultiPolygon | None:
        """What was asked for of the pair, in WGS84; None around a pole."""
        return ground_of(self.frame)

    @cached_property
    def tiles(self) -> Sequence[int]:
        """The numbers of the tiles that the network sees: those with data, or those near given changes."""
        if self.given is None:
            return tiles_with_data(self.grid, self.pair.data_near)
        return _tiles_near(self.given.outlines, self.frame, self.grid, self.card)

    @property
    def warnings(self) -> list[str]:
        """What makes the result doubtful though the run goes through, one line each."""
        of_given = [] if self.given is None else self.given.warnings()
        return [*pair_warnings(self.pair, self.dates, self.card), *of_given]

    def record(self) -> dict[str, Any]:
        """Return what the run record says before anything is found."""
        return {
            "inputs": {
                role: scene_record(info, taken)
                for role, info, taken in zip(("before", "after"), self.infos, self.dates, strict=True)
            },
            "model": model_record(self.card),
            "settings": settings_record(self.options, self.card),
            "tiling": grid_record(self.pair, self.grid),
            "versions": versions(),
            **({} if self.given is None else {"given": self.given.record()}),
        }


@contextmanager
def open_pair(
    before: Scene,
    after: Scene,
    card: ModelCard,
    options: SceneOptions,
    lattice: Lattice | None = None,
) -> Iterator[OpenPair]:
    """Open two scenes (names or headers) as one pair; ``lattice`` as :meth:`tiling.ScenePair.open`."""
    infos = read_headers(before, after, options)
    with ExitStack() as stack:
        stack.enter_context(bounded_cache())
        pair = stack.enter_context(open_at(planned_gsd(infos, card, options), infos, options, lattice))
        frame = Frame(pair.grid, pair.focus)
        given = None if options.changes is None else read_changes(options.changes, options.access)
        grid = tile_grid(frame, card, options, search_area(frame, card, options, pair.data_near, given))
        yield OpenPair(pair, card, options, grid, given)


def planned_tiles(
    before: Scene, after: Scene, card: ModelCard, options: SceneOptions
) -> tuple[TileGrid, Sequence[int]]:
    """Return the tiles of a pair, and the numbers of those that the network has to see, by the headers."""
    infos = read_headers(before, after, options)
    frame = plan_frame(*infos, gsd=planned_gsd(infos, card, options), bounds=options.box)
    given = None if options.changes is None else read_changes(options.changes, options.access)
    data = common_data(infos, frame.grid)
    grid = tile_grid(frame, card, options, search_area(frame, card, options, data, given))
    return grid, tiles_with_data(grid, data)


def tiles_with_data(grid: TileGrid, data: Sequence[Window]) -> Sequence[int]:
    """Return the numbers of the tiles that some windows touch."""
    if any(window.intersection(grid.area) == grid.area for window in data):
        return range(len(grid))
    return [tile.index for tile in grid if any(map(tile.window.intersection, data))]


def tile_grid(frame: Frame, card: ModelCard, options: SceneOptions, area: Window | None = None) -> TileGrid:
    """Return the tiles that touch ``area``, by default the whole grid; they are fixed to the ground."""
    multiple = common_side(card) if options.fast else card.position_size
    return TileGrid(
        frame.grid.width,
        frame.grid.height,
        tile=max(card.search_size, card.tile_size),
        least=-(-card.tile_size // multiple) * multiple,
        multiple=multiple,
        overlap=options.overlap_for(card),
        anchor=frame.grid.anchor,
        area=area,
    )


def search_area(
    frame: Frame,
    card: ModelCard,
    options: SceneOptions,
    data: Sequence[Window],
    given: GivenLayer | None = None,
) -> Window:
    """Return the pixels asked for and a margin of a crop and the distance of a group.

    So a change that lies across the edge of a box is seen whole, unless it is larger than that. Of ``given``
    changes only their ground and a margin around it. What lies outside of ``data`` is left out.

    Raises:
        NoOverlap: there are given changes, and none lies there.
    """
    apart = options.group_distance_for(frame.grid.gsd) / frame.grid.gsd
    margin = card.tile_size + int(np.ceil(apart))
    area = expanded(frame, frame.focus, margin)
    # A box without any data is searched like others, to say so.
    area = area.intersection(expanded(frame, around(data), margin)) or area
    return area if given is None else _ground_around(given, frame, area, card)


def margin_of(card: ModelCard) -> int:
    """Return the pixels around a change that its facts depend on."""
    return ROAD_REACH + card.position_size


def _ground_around(given: GivenLayer, frame: Frame, area: Window, card: ModelCard) -> Window:
    """Return the pixels around all given changes that lie in ``area``; of no changes one pixel of it."""
    if not given.outlines:
        return Window(area.col_off, area.row_off, 1, 1)
    inside = _inside(given.outlines, frame, area)
    if not inside:
        raise NoOverlap(
            f"{printable(given.name)}: none of its {counted(len(given.outlines), 'polygon')} lies on the "
            "ground that both scenes show; check its place and its coordinate reference system"
        )
    ground = window_around(shapely.box(*shapely.total_bounds(inside)), margin_of(card))
    return ground.intersection(area)


def _tiles_near(
    outlines: Sequence[GivenOutline], frame: Frame, grid: TileGrid, card: ModelCard
) -> tuple[int, ...]:
    """Return the numbers of the tiles of a grid that see a given change or the ground around it."""
    inside = _inside(outlines, frame, grid.area)
    if not inside:
        return ()
    boxes = shapely.box(*np.array([tile.window.bounds for tile in grid], dtype=float).T)
    near = shapely.STRtree(inside).query(boxes, predicate="dwithin", distance=margin_of(card))[0]
    return tuple(np.unique(near).tolist())


def _inside(outlines: Sequence[GivenOutline], frame: Frame, area: Window) -> list[MultiPolygon]:
    """Return the outlines in pixels that touch a window."""
    window = shapely.box(*area.bounds)
    shapes = in_pixels([outline.geometry for outline in outlines], frame)
    return [shape for shape in shapes if shape.intersects(window)]

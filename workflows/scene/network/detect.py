"""Run the network over the tiles of a pair and write what it finds as maps, row by row, in bounded memory.

What a row holds does not depend on which other rows are wanted, or were finished by an earlier run.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from functools import partial
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tiling
from rscc.facts.answers import ANSWERS
from rscc.facts.ground_after import MEASURES
from rscc.sequences import batches
from tiling import Band, PairTile, SceneInfo, TileGrid, Window, read_tiles
from workflows.options import SceneOptions
from workflows.progress import Progress, device_of, report_progress
from workflows.report.record import hash_of, pair_record, settings_record
from workflows.scene.map_description import FAMILIARITY, ROADS
from workflows.scene.maps import ChangeMaps
from workflows.scene.network.map_folder import grid_of, new_maps, position_edges, surveying
from workflows.scene.network.memory import AHEAD, plan, tiles_at_once, weight_of
from workflows.scene.network.models import RULED_OUT, Network, has_familiarity, tells_facts
from workflows.scene.network.mosaics import Mosaics, row_edges
from workflows.scene.network.threads import side_by_side, streams_of
from workflows.scene.opening import OpenPair
from workflows.scene.visibility.layer import VISIBILITY
from workflows.scene.visibility.survey import survey

if TYPE_CHECKING:
    from rscc.captioner import Captioner

Rows = tuple[int, int]
"""The first row of pixels of the working grid, and the first one below."""


def answers_of(captioner: Captioner, options: SceneOptions) -> tuple[tuple[str, ...], dict[str, Any] | None]:
    """Return the bands of the evidence that a model gives, and the rules by which they become facts."""
    answers: tuple[str, ...] = ()
    rules: dict[str, Any] | None = None
    if tells_facts(captioner, options):
        facts = captioner.facts
        assert facts is not None
        roads = () if facts.roads is None else ROADS
        answers = (*ANSWERS, *roads, *MEASURES)
        rules = {**asdict(facts.rules.on_maps()), "scores": {}, "around": []}
    if has_familiarity(captioner):
        answers = (*answers, FAMILIARITY)
    return answers, rules


@contextmanager
def maps_of(
    opened: OpenPair,
    captioner: Captioner,
    folder: Path,
    *,
    shared: bool = False,
    replace_others: bool = False,
    veils: bool = True,
) -> Iterator[tuple[ChangeMaps, Network]]:
    """Yield the maps of a pair in a folder, and the network that fills them.

    The maps are new, or have the rows that a killed run has finished, and keep its size of batches.

    Args:
        veils: look for clouds, their shadows and haze; False: only ground without data is not judged.
    """
    options, on_cpu = opened.options, device_of(captioner) == "cpu"
    memory = plan(options.memory, opened.grid, opened.card, batch_size=options.batch_size, on_cpu=on_cpu)
    answers, rules = answers_of(captioner, options)
    about = {
        "identity": identity_of(opened, captioner),
        **opened.record(),
        "batch_size": memory.batch_size,
        "grid": grid_of(opened.frame, opened.grid.area),
        "position": opened.card.position_size,
        "position_edges": {
            "columns": position_edges(opened.grid.columns, opened.card.position_size),
            "rows": position_edges(opened.grid.rows, opened.card.position_size),
        },
        "rules": rules,
    }
    with new_maps(
        folder, about, opened.pair.grid.crs, answers, shared=shared, replace_others=replace_others
    ) as maps:
        with surveying(folder):
            if not (folder / VISIBILITY).exists():
                detector = getattr(captioner, "veils", None) if veils else None
                survey(opened.pair, opened.grid.area, folder, detector)
        memory = replace(memory, batch_size=int(maps.about["batch_size"]))
        yield maps, Network(captioner, opened.pair, options, memory)


def detect(
    opened: OpenPair,
    network: Network,
    maps: ChangeMaps,
    progress: Progress | None = None,
    rows: Rows | None = None,
) -> Iterator[Band]:
    """Fill maps, and yield their change probability from top to bottom as soon as it is written.

    Progress is reported as the stage ``tiles``.

    Args:
        rows: the rows to detect, from one of :func:`row_edges` to another; None: all.
    """
    grid = opened.grid
    top, end = rows or (grid.area.row_off, grid.area.row_end)
    wanted = [(start, stop) for start, stop in pairwise(row_edges(grid)) if top <= start and stop <= end]
    finished = {start for start, _ in wanted if maps.is_finished(start)}
    # Tiles that begin above and reach into these rows belong to the rows above.
    first = 0 if top == grid.area.row_off else _tiles_above(grid, top)
    total = _tiles_above(grid, end) - first
    maps.resumed_tiles = 0
    for is_finished, spans in groupby(wanted, key=lambda span: span[0] in finished):
        stretch = list(spans)
        if not is_finished:
            part = _Stretch(opened, network, maps, (stretch[0][0], stretch[-1][1]))
            report = partial(_report_tiles, progress, first, total)
            yield from part.bands(report)
            continue
        for start, stop in stretch:
            yield from maps.row_bands(maps.rows[start])
            _report_tiles(progress, first, total, _tiles_above(grid, stop))
            maps.resumed_tiles += maps.rows[start].counts["tiles"]


def fill_maps(
    opened: OpenPair,
    captioner: Captioner,
    folder: Path,
    rows: Rows | None = None,
    *,
    shared: bool = False,
    replace_others: bool = False,
    veils: bool = True,
) -> None:
    """Fill maps in a folder; arguments as of :func:`maps_of` and :func:`detect`, whose errors it raises."""
    with maps_of(opened, captioner, folder, shared=shared, replace_others=replace_others, veils=veils) as (
        maps,
        network,
    ):
        for _ in detect(opened, network, maps, rows=rows):
            pass  # written to the maps


def _report_tiles(progress: Progress | None, first: int, total: int, tiles: int) -> None:
    report_progress(progress, "tiles", min(max(tiles - first, 0), total), total)


def _tiles_above(grid: TileGrid, row: int) -> int:
    """Return how many tiles begin above a row of pixels."""
    return bisect_left(grid.rows.starts, row) * grid.shape[1]


class _Stretch:
    """Rows without a gap that the network has to find.

    Attributes:
        part: the grid of their tiles.
        tiles: numbers in the whole grid of the tiles that are read. Batches begin and end where they do when
            all of ``opened.tiles`` are computed: in its last bits, the answer for a tile may depend on the
            tiles in the batch beside it.
    """

    def __init__(self, opened: OpenPair, network: Network, maps: ChangeMaps, rows: Rows) -> None:
        self.opened, self.network, self.maps = opened, network, maps
        grid, card = opened.grid, opened.card
        at_once = tiles_at_once(int(maps.about["batch_size"]), grid, card)
        self.streams = streams_of(device_of(network.captioner), at_once, card.localiser)
        self.batch = at_once // max(1, self.streams)
        if len(opened.tiles) <= self.batch:
            self.streams = min(self.streams, 1)  # a single batch gets all cores
        area, (top, end) = grid.area, rows
        self.part = TileGrid(
            grid.width,
            grid.height,
            grid.tile,
            grid.overlap,
            anchor=grid.anchor,
            area=Window(area.col_off, top, area.width, end - top),
            least=grid.least,
            multiple=grid.multiple,
        )
        self.offset = _tiles_above(grid, self.part.rows.starts[0])
        first, last = (
            bisect_left(opened.tiles, number) for number in (self.offset, self.offset + len(self.part))
        )
        self.tiles = opened.tiles[first - first % self.batch : last + -last % self.batch]
        # Tiles that begin above these rows were counted there.
        self.counted = 0 if top == area.row_off else _tiles_above(self.part, top)

    def bands(self, report_done: Callable[[int], None]) -> Iterator[Band]:
        """Yield the change probability; ``report_done`` is called with the number of a tile."""
        reader: Any = read_tiles(self.opened.pair, self.opened.grid, ahead=AHEAD, numbers=self.tiles)
        look = partial(self.network.look, weight=weight_of(self.opened.grid, self.opened.card))
        mosaics = Mosaics(self.part, self.maps)
        # Closed also when the network fails, so that the reader threads end.
        with (
            closing(reader) as read,
            side_by_side(look, batches(map(self._as_seen, read), self.batch), self.streams) as looks,
        ):
            done = 0
            for batch, found in looks:
                for tile in batch:
                    number = tile.tile.index - self.offset
                    if 0 <= number < len(self.part):
                        yield from self._skip(mosaics, range(done, number))
                        answers = found.get(tile.tile.index)
                        is_counted = number >= self.counted
                        yield from mosaics.add(self.part[number], tile.tile, tile, answers, is_counted)
                        done = number + 1
                report_done(batch[-1].tile.index + 1)
                # Free this batch before the next one is read.
                del batch, found
            yield from self._skip(mosaics, range(done, len(self.part)))

    def _skip(self, mosaics: Mosaics, numbers: range) -> Iterator[Band]:
        """Add tiles without data, or that nobody asked about: nothing changed there."""
        for number in numbers:
            whole = self.opened.grid[self.offset + number]
            yield from mosaics.add(self.part[number], whole, None, None, number >= self.counted)

    def _as_seen(self, tile: PairTile) -> PairTile:
        window = tile.tile.window
        before, after, valid = self.maps.seen.view(tile.before, tile.after, tile.valid, window)
        return replace(tile, before=before, after=after, valid=valid)


def identity_of(opened: OpenPair, captioner: Captioner) -> str:
    """Return a hash of everything that the maps of a pair depend on."""
    record, options = opened.record(), opened.options
    settings = {
        name: value
        for name, value in settings_record(options, opened.card).items()
        if name not in ("threshold", "min_area", "group_distance", "regularize", "only", "direction", "area")
    }
    return hash_of(
        {
            **record,
            "settings": settings,
            "scenes": [_file_identity(info) for info in opened.infos],
            "pair": pair_record(opened.pair),
            "grid": grid_of(opened.frame, opened.grid.area),
            "scout": min(RULED_OUT, options.threshold_for(opened.card)) if options.fast else None,
            "facts": tells_facts(captioner, options),
            "tiles": None if opened.given is None else list(opened.tiles),
            # The kind of device, not its number: parts of a scene may be detected on several.
            "device": device_of(captioner).partition(":")[0],
        }
    )


def _file_identity(info: SceneInfo) -> dict[str, Any]:
    """Return size and time of the files of a scene where they are on this machine, and its header."""
    with tiling.open_scene(info) as file:
        header = [str(file.profile), sorted(file.tags().items())]
    names = tiling.files_of(info)
    stats = [(name, os.stat(name)) for name in sorted(names)]
    return {
        "files": [[os.path.abspath(name), stat.st_size, stat.st_mtime_ns] for name, stat in stats],
        "header": repr(header),
    }

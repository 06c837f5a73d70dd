"""What a run will cost: memory by the run's own plan, time by a stated rate or by a trial on this machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from shapely import box
from shapely.affinity import affine_transform

from rscc.sequences import batches
from tiling import Tile, Window
from tiling.polygons import ChangeRegion
from workflows.progress import cores, device_of
from workflows.scene.events import Event, Events, places_of
from workflows.scene.memory import MemoryPlan, alike, tiles_at_once
from workflows.texts import counted

if TYPE_CHECKING:
    from rscc.model_folder import ModelCard
    from tiling import ScenePair, TileGrid
    from workflows.scene.run import SceneRun

# Tiles that are given to the model in a trial, and changes that are described, each once before for nothing:
# the first time is slow.
TRIED, DESCRIBED = 16, 4
# Side of such a change in pixels.
SQUARE = 24


@dataclass(frozen=True)
class Rate:
    """How fast a model is.

    Attributes:
        tile: seconds for a tile.
        caption: seconds for the words of a change.
        source: "stated" or "measured".
        words: what the numbers are from, for people.
    """

    tile: float
    caption: float
    source: str
    words: str


# Seconds of one core for a tile, as many as 16 crops at once, and for the words of a change, of the shipped
# models. Tiles: processor time of Captioner.search with one thread on one core of an AMD EPYC with AVX-512
# and bf16, torch 2.13, 2026-11, the trunk in bf16; asking the fact heads too takes 2 percent more, reading
# comes on top, without bf16 it is several times as much, in 8-bit integers half. Words: measured_rate on such
# a core without AVX-512; the network has no part in them, for the facts come with the search.
CORE_SECONDS = {"rscc-base": (0.41, 0.002), "rscc-small": (0.095, 0.002), "rscc-medium": (0.006, 0.01)}


def stated_rate(card: ModelCard) -> Rate | None:
    """Return what is known of a shipped model on this many cores; None for another model."""
    stated = CORE_SECONDS.get(card.name)
    if stated is None:
        return None
    count = cores()
    tile, caption = (seconds / count for seconds in stated)
    words = f"{counted(count, 'server core')} with bf16, without a GPU"
    return Rate(tile, caption, "stated", words)


def measured_rate(run: SceneRun) -> Rate:
    """Time reading, finding and describing on some tiles of the pair, one after the other, on this machine.

    Tiles without data are as good as any: the model does not look at what it is shown. What is described is a
    square of the size of a house in each of some tiles, in the way that the run would describe it.
    """
    pair, grid, captioner = run.pair, run.grid, run.captioner
    batch_size = tiles_at_once(run.memory.batch_size, grid, run.card)
    step = max(1, len(grid) // TRIED)
    tiles = [grid[number] for number in range(0, len(grid), step)][:TRIED]
    sizes = alike(tiles, lambda tile: (tile.window.height, tile.window.width))
    shown = [batch for same in sizes for batch in batches(same, batch_size)]
    look = captioner.search if run.fact_maps is None else captioner.survey

    def find(batch: Sequence[Tile]) -> None:
        dates = [pair.read(tile.window)[:2] for tile in batch]
        look(np.stack([before for before, _ in dates]), np.stack([after for _, after in dates]))

    find(shown[0])
    tile = sum(_seconds(partial(find, batch)) for batch in shown) / len(tiles)
    places = places_of([_square(each.window, pair) for each in tiles[:DESCRIBED]], pair, min_area=0)
    describe = partial(run.describe, Events([Event((place,)) for place in places], [], {}, []))
    describe()
    device = device_of(captioner, "this machine")
    words = f"{counted(len(tiles), 'tile')} of these scenes on {device}"
    return Rate(tile, _seconds(describe) / len(places), "measured", words)


def _square(window: Window, pair: ScenePair) -> ChangeRegion:
    """Return a square in the middle of a window as a region that changed."""
    half = SQUARE / 2
    row, col = window.row_off + window.height / 2, window.col_off + window.width / 2
    square = box(col - half, row - half, col + half, row + half)
    ground = affine_transform(square, pair.grid.transform.to_shapely())
    return ChangeRegion(square, ground, mean_probability=1.0, area_px=SQUARE**2)


def expected_cost(grid: TileGrid, memory: MemoryPlan, rate: Rate | None) -> dict[str, Any]:
    """Return the cost of a run as plain values; ``seconds`` is None where no rate is known.

    It is the time to find the changes; every change takes ``rate.caption`` seconds more for its words.
    """
    planned = {**memory.as_dict(), "expected": memory.expected}
    if rate is None:
        return {"memory": planned, "seconds": None, "rate": None}
    speed = {**asdict(rate), "tile": _digits(rate.tile), "caption": _digits(rate.caption)}
    return {"memory": planned, "seconds": round(rate.tile * len(grid), 1), "rate": speed}


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _digits(value: float) -> float:
    return float(f"{value:.3g}")

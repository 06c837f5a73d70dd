"""What a run will cost: memory by the run's own plan, time by a stated rate or by a trial on this machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tiling import Tile
from workflows.progress import cores, device_of
from workflows.scene.memory import MemoryPlan, tiles_at_once

if TYPE_CHECKING:
    from rscc.model_folder import ModelCard
    from tiling import ScenePair, TileGrid
    from workflows.scene.run import SceneRun

# Tiles that are given to the model in a trial, and changes that it describes, each once before for nothing:
# the first time is slow.
TRIED, DESCRIBED = 16, 4


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


# Seconds of one core for a tile and for the words of a change, of the shipped models, as many as 16 crops at
# once: processor time of Captioner.search and Captioner.measure with one thread on one core of an AMD EPYC
# with AVX-512 and bf16, torch 2.13, 2026-11. Reading comes on top; without bf16 it is several times as much.
# The words of rscc-medium are read off the pixels.
CORE_SECONDS = {"rscc-base": (0.41, 0.11), "rscc-small": (0.095, 0.024), "rscc-medium": (0.006, 0.01)}


def stated_rate(card: ModelCard) -> Rate | None:
    """Return what is known of a shipped model on this many cores; None for another model."""
    stated = CORE_SECONDS.get(card.name)
    if stated is None:
        return None
    count = cores()
    tile, caption = (seconds / count for seconds in stated)
    words = f"{count} server core{'' if count == 1 else 's'} with bf16, without a GPU"
    return Rate(tile, caption, "stated", words)


def measured_rate(run: SceneRun) -> Rate:
    """Time reading, finding and describing on some tiles of the pair, one after the other, on this machine.

    Tiles without data are as good as any: the model does not look at what it is shown.
    """
    pair, grid, captioner = run.pair, run.grid, run.captioner
    batch_size = tiles_at_once(run.memory.batch_size, grid, run.card)
    step = max(1, len(grid) // TRIED)
    tiles = [grid[number] for number in range(0, len(grid), step)][:TRIED]
    batches = [tiles[start : start + batch_size] for start in range(0, len(tiles), batch_size)]

    def find(batch: Sequence[Tile]) -> None:
        captioner.search(*_read(pair, batch))

    def describe(batch: Sequence[Tile]) -> None:
        captioner.caption(*_read(pair, batch), beams=run.options.beams, assume_changed=True, placeless=True)

    find(batches[0])
    tile = sum(_seconds(find, batch) for batch in batches) / len(tiles)
    few = batches[0][:DESCRIBED]
    describe(few)
    device = device_of(captioner, "this machine")
    words = f"{len(tiles)} tile{'' if len(tiles) == 1 else 's'} of these scenes on {device}"
    return Rate(tile, _seconds(describe, few) / len(few), "measured", words)


def expected_cost(grid: TileGrid, memory: MemoryPlan, rate: Rate | None) -> dict[str, Any]:
    """Return the cost of a run as plain values; ``seconds`` is None where no rate is known.

    It is the time to find the changes; every change takes ``rate.caption`` seconds more for its words.
    """
    planned = {**memory.as_dict(), "expected": memory.expected}
    if rate is None:
        return {"memory": planned, "seconds": None, "rate": None}
    speed = {**asdict(rate), "tile": _digits(rate.tile), "caption": _digits(rate.caption)}
    return {"memory": planned, "seconds": round(rate.tile * len(grid), 1), "rate": speed}


def _read(pair: ScenePair, tiles: Sequence[Tile]) -> tuple[np.ndarray, np.ndarray]:
    dates = [pair.read(tile.window)[:2] for tile in tiles]
    return np.stack([before for before, _ in dates]), np.stack([after for _, after in dates])


def _seconds(work: Callable[[Sequence[Tile]], None], batch: Sequence[Tile]) -> float:
    started = time.perf_counter()
    work(batch)
    return time.perf_counter() - started


def _digits(value: float) -> float:
    return float(f"{value:.3g}")

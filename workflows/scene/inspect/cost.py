"""Estimates of a run: memory as it would be planned, time from a tile that the model sees on this machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tiling import PairTile
from workflows.progress import device_of
from workflows.scene.network.memory import MemoryPlan, plan, tiles_at_once, weight_of
from workflows.scene.network.models import Network

if TYPE_CHECKING:
    from rscc.captioner import Captioner
    from workflows.scene.opening import OpenPair

LONG_ENOUGH = 0.3
"""Seconds from which a measurement is not repeated."""


@dataclass(frozen=True)
class Speed:
    """How fast a model is on this machine.

    Attributes:
        start: seconds until the scenes are open and the model is loaded.
        tile: seconds for a tile: to read it, twice, and to look at it.
        device: where the model computes.
    """

    start: float
    tile: float
    device: str


def measured_speed(opened: OpenPair, load: Callable[[], Captioner], started: float) -> Speed:
    """Load a model and measure its speed on a tile in the middle of a pair.

    Args:
        started: reading of :func:`time.perf_counter` before the scenes were opened.

    Raises:
        RsccError, TilingError, WorkflowError: the model cannot run here, or the tile cannot be read.
    """
    clock = time.perf_counter
    captioner = load()
    start = clock() - started
    grid, card, device = opened.grid, opened.card, device_of(captioner)
    options, on_cpu = replace(opened.options, fast=False), device == "cpu"
    memory = plan(None, grid, card, batch_size=options.batch_size, on_cpu=on_cpu)
    network = Network(captioner, opened.pair, options, memory)
    tile = grid[opened.tiles[len(opened.tiles) // 2]]
    started = clock()
    before, after, valid = opened.pair.read(tile.window)
    reading = clock() - started
    if np.array_equal(before, after):  # the network would not look at it
        after = 255 - before
    count = 1 if on_cpu else tiles_at_once(memory.batch_size, grid, card)
    tiles = [PairTile(before, after, valid, replace(tile, index=number)) for number in range(count)]
    looks: list[float] = []
    while len(looks) < 2 or (sum(looks) < LONG_ENOUGH and len(looks) < 10):  # the first one is slow
        started = clock()
        network.look(tiles, weight_of(grid, card))
        looks.append(clock() - started)
    return Speed(start, 2 * reading + min(looks) / count, device)


def expected_cost(opened: OpenPair, memory: MemoryPlan, speed: Speed | None) -> dict[str, Any]:
    """Return the cost of a run as plain values; ``seconds`` is None where no speed was measured."""
    planned = {**memory.as_dict(), "expected": memory.expected}
    if speed is None:
        return {"memory": planned, "seconds": None, "device": None}
    # The network does not see tiles without data.
    tiles = sum(bool(opened.grid[n].window.intersection(opened.pair.site)) for n in opened.tiles)
    seconds = round(speed.start + speed.tile * tiles, 1)
    return {"memory": planned, "seconds": seconds, "device": speed.device}

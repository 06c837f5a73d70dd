"""Estimates of a run: memory as it would be planned, time from the measured speed of the models."""

from dataclasses import asdict, dataclass
from typing import Any

from rscc.model_folder import ModelCard
from tiling import TileGrid, Window
from workflows.printable import counted
from workflows.progress import cores
from workflows.scene.network.memory import MemoryPlan


@dataclass(frozen=True)
class Rate:
    """The speed of a model.

    Attributes:
        words: what the numbers are from, for people.
    """

    tile: float
    caption: float
    words: str


# Seconds of one core for a tile, as many as 16 crops at once, and for the words of a change, of the shipped
# models. Tiles: processor time of Captioner.search with one thread on one core of an AMD EPYC with AVX-512
# and bf16, torch 2.13, 2026-11, the trunk in bf16; asking the fact heads too takes 2 percent more, reading
# comes on top, without bf16 it is several times as much, in 8-bit integers half. Words: on such a
# core without AVX-512; the network has no part in them, for the facts come with the search.
CORE_SECONDS = {"rscc-base": (0.41, 0.002), "rscc-small": (0.095, 0.002), "rscc-medium": (0.006, 0.01)}


def stated_rate(card: ModelCard) -> Rate | None:
    """Return the speed of a shipped model on the cores of this process; None for another model."""
    stated = CORE_SECONDS.get(card.name)
    if stated is None:
        return None
    count = cores()
    tile, caption = (seconds / count for seconds in stated)
    words = f"{counted(count, 'server core')} with bf16, without a GPU"
    return Rate(tile, caption, words)


def expected_cost(grid: TileGrid, site: Window, memory: MemoryPlan, rate: Rate | None) -> dict[str, Any]:
    """Return the cost of a run as plain values; ``seconds`` is None where no rate is known.

    It is the time to find the changes; every change takes ``rate.caption`` seconds more for its words.

    Args:
        site: the pixels around all data; the network does not see tiles without.
    """
    planned = {**memory.as_dict(), "expected": memory.expected}
    if rate is None:
        return {"memory": planned, "seconds": None, "rate": None}
    speed = {**asdict(rate), "tile": _digits(rate.tile), "caption": _digits(rate.caption)}
    tiles = sum(bool(tile.window.intersection(site)) for tile in grid)
    return {"memory": planned, "seconds": round(rate.tile * tiles, 1), "rate": speed}


def _digits(value: float) -> float:
    return float(f"{value:.3g}")

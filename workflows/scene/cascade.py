"""A cascade: a small model looks at every tile, the model asked for at those that it does not rule out."""

from __future__ import annotations

from functools import lru_cache
from math import lcm
from typing import TYPE_CHECKING

import numpy as np

from rscc.model_folder import ModelCard, load_card
from tiling import PairTile
from workflows.errors import OptionInvalid
from workflows.progress import device_of

if TYPE_CHECKING:
    from rscc.captioner import Captioner

SCOUT = "rscc-small"
# A tile is ruled out where no pixel reaches this change probability: chosen on training places, see
# docs/performance.md.
RULED_OUT = 0.1


def open_scout(captioner: Captioner) -> Captioner:
    """Load the small model that looks first.

    Raises:
        OptionInvalid: it sees no faster, or not the same, as the model asked for.
    """
    asked = captioner.card
    if asked.name == SCOUT:
        raise OptionInvalid(f"fast: {asked.name} is the fast model; leave the option out")
    scout = _load(SCOUT, device_of(captioner))
    first = scout.card
    if asked.localiser != "change_head" or asked.gsd != first.gsd:
        raise OptionInvalid(
            f"fast: {first.name} looks at buildings at {first.gsd:g} m per pixel and cannot rule out what "
            f"{asked.name} looks for; leave the option out"
        )
    side = max(asked.search_size, asked.tile_size)
    if side % first.position_size:
        raise OptionInvalid(
            f"fast: {asked.name} looks at tiles of {side} pixels, {first.name} only at multiples of "
            f"{first.position_size}; leave the option out"
        )
    return scout


def sides_of_both(card: ModelCard) -> int:
    """Return of how many pixels the sides of tiles are multiples that the scout and a model can look at."""
    return lcm(card.position_size, load_card(SCOUT).position_size)


def is_ruled_out(tile: PairTile, probability: np.ndarray, threshold: float) -> bool:
    """Return whether the scout's change probability (h, w) leaves nothing to look for in a tile.

    ``threshold`` is that from which a pixel counts as changed.
    """
    return not (probability[tile.valid] >= min(RULED_OUT, threshold)).any()


@lru_cache(maxsize=1)
def _load(name: str, device: str) -> Captioner:
    from rscc.captioner import Captioner

    return Captioner.load(name, device=device, ground=False)

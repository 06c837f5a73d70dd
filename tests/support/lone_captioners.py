"""Captioners without weights that tell facts and find roads or clearings: ground a little brighter."""

from __future__ import annotations

import numpy as np
from fact_captioner import CELL, FactCaptioner

from rscc.inference.fact_heads import ANSWERS

ROAD_BRIGHTNESS = CLEARING_BRIGHTNESS = 140
"""On ground of 100; too little of a difference for the change head."""
_LEAST, _MOST = 125, 180


def _in_positions(pixels: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return the means (n, h, w) of the positions of pixels (n, H, W)."""
    height, width = shape
    means: np.ndarray = pixels.reshape(len(pixels), height, CELL, width, CELL).mean((2, 4))
    return means


def _a_little_brighter(values: np.ndarray) -> np.ndarray:
    return (values > _LEAST) & (values < _MOST)


class RoadCaptioner(FactCaptioner):
    """A position is a road, with ``logit``, where its mean brightness on a date is that of one."""

    def __init__(self, *, logit: float = 5.0, **values):
        super().__init__(roads=(0.0, 0.0), **values)
        self.logit = logit

    def survey(self, before: np.ndarray, after: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found, logits = super().survey(before, after)
        for channel, date in ((-2, before), (-1, after)):
            roads = _a_little_brighter(_in_positions(date.mean(1), logits.shape[2:]))
            logits[:, channel] = np.where(roads, self.logit, -5.0)
        return found, logits


class ClearingCaptioner(RoadCaptioner):
    """Trees are gone, with ``cleared``, where most of a position has the brightness of a clearing."""

    def __init__(self, *, cleared: float = 3.0, **values):
        super().__init__(**{"logit": -5.0, **values})
        self.cleared = cleared

    def survey(self, before: np.ndarray, after: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found, logits = super().survey(before, after)
        cleared = _in_positions(_a_little_brighter(after.mean(1)), logits.shape[2:]) > 0.5
        logits[:, ANSWERS.index("gone trees")] = np.where(cleared, self.cleared, -5.0)
        return found, logits

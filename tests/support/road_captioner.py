"""A captioner without weights that tells facts and finds roads: ground that is a little brighter."""

from __future__ import annotations

import numpy as np
from fact_captioner import CELL, FactCaptioner

ROAD_BRIGHTNESS = 140
"""Of a road on ground of 100; too little of a difference for the change head."""
_LEAST = 125


class RoadCaptioner(FactCaptioner):
    """A position is a road, with ``logit``, where its mean brightness on a date is that of one, up to 180."""

    def __init__(self, *, logit: float = 5.0, **values):
        super().__init__(roads=(0.0, 0.0), **values)
        self.logit = logit

    def survey(self, before: np.ndarray, after: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found, logits = super().survey(before, after)
        for channel, date in ((-2, before), (-1, after)):
            height, width = logits.shape[2:]
            cells = date.mean(1).reshape(len(date), height, CELL, width, CELL).mean((2, 4))
            logits[:, channel] = np.where((cells > _LEAST) & (cells < 180), self.logit, -5.0)
        return found, logits

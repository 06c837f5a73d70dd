"""A captioner without weights that tells facts: brighter ground is a building that came."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from fakes import BrightnessCaptioner

from rscc.inference.fact_heads import ANSWERS, FactRules
from rscc.structures import Caption

LOGITS = {
    "came building": -0.4,
    "gone building": -2.2,
    "came road": 3.0,
    "around trees": 1.0,
} | dict.fromkeys(("gone trees", "around bare ground", "around grass"), -2.0)
"""Of every position, for the questions that are not answered by 0."""
CELL = 16
"""Pixels of a position, by default."""


class FactCaptioner(BrightnessCaptioner):
    """Answers alike everywhere; ``surveyed`` counts the tiles whose facts it was asked for.

    Whether a road is around is told by the brightness after of a position, 0..255, over 100. What is known of
    water is too little to be stated. With ``roads``, (before, after), those are the logits of a road on each
    date, in every position.
    """

    def __init__(self, *, roads: tuple[float, float] | None = None, **values):
        super().__init__(**values)
        slopes = [0.0 if answer == "around water" else 1.0 for answer in ANSWERS]
        sure = [0.9 if answer == "around trees" else 0.6 for answer in ANSWERS]
        rules = FactRules(tuple(slopes), (0.0,) * len(ANSWERS), tuple(sure))
        self.facts = SimpleNamespace(rules=rules, roads=roads)
        self.surveyed = 0

    def caption(self, *dates: np.ndarray, ground: bool = True, **options) -> list[Caption]:
        assert not ground, "what a scene's facts are is asked by survey"
        return super().caption(*dates, **options)

    def survey(self, before: np.ndarray, after: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        self.surveyed += len(before)
        count, _, height, width = after.shape
        cell = self.card.position_size
        assert height % cell == width % cell == 0
        logits = np.zeros((count, len(ANSWERS), height // cell, width // cell), np.float16)
        for answer, logit in LOGITS.items():
            logits[:, ANSWERS.index(answer)] = logit
        cells = after.mean(1).reshape(count, height // cell, cell, width // cell, cell).mean((2, 4))
        logits[:, ANSWERS.index("around road")] = cells / 100
        if self.facts.roads is not None:
            found = np.zeros((count, 2, *logits.shape[2:]), np.float16) + np.reshape(
                self.facts.roads, (2, 1, 1)
            )
            logits = np.concatenate([logits, found.astype(np.float16)], 1)
        return self.search(before, after), logits

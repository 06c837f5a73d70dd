"""A captioner without weights that tells facts: brighter ground is a building that came."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from fakes import BrightnessCaptioner

from rscc.inference.fact_heads import ANSWERS, FactRules
from rscc.structures import Caption

LOGITS = {"came building": -0.4, "gone building": -2.2, "came road": 3.0, "around trees": 1.0}
"""Of every region, for the questions that are not answered by 0."""


class FactCaptioner(BrightnessCaptioner):
    """Answers alike for every region; ``measured`` keeps what it was shown.

    Whether a road is around is told by the mean brightness after of the region, 0..255, over 100. What is
    known of water is too little to be stated.
    """

    def __init__(self, **values):
        super().__init__(**values)
        slopes = [0.0 if answer == "around water" else 1.0 for answer in ANSWERS]
        sure = [0.9 if answer == "around trees" else 0.6 for answer in ANSWERS]
        rules = FactRules(tuple(slopes), (0.0,) * len(ANSWERS), tuple(sure))
        self.facts = SimpleNamespace(rules=rules)
        self.measured: list[tuple[np.ndarray, np.ndarray]] = []

    def caption(self, *dates: np.ndarray, ground: bool = True, **options) -> list[Caption]:
        assert not ground, "what a scene's facts are is asked by measure"
        return super().caption(*dates, **options)

    def measure(self, before: np.ndarray, after: np.ndarray, regions: np.ndarray) -> np.ndarray:
        assert before.dtype == after.dtype == np.uint8
        assert before.shape == after.shape == (len(before), 3, self.card.tile_size, self.card.tile_size)
        assert regions.shape == (len(before), self.card.tile_size, self.card.tile_size)
        self.measured += list(zip(after, regions, strict=True))
        logits = np.array([[LOGITS.get(answer, 0.0) for answer in ANSWERS]] * len(before))
        for row, image, region in zip(logits, after, regions, strict=True):
            row[ANSWERS.index("around road")] = image.mean(0)[region].mean() / 100
        return logits

"""A captioner without weights: brighter or darker pixels are changes, the middle of a crop has the words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rscc.model_folder import ModelCard
from rscc.structures import Caption, ChangePrediction

if TYPE_CHECKING:
    from rscc.inference.explanations import Explanation


def card(**values) -> ModelCard:
    """The card of the fake; ``values`` replace its fields."""
    fields = {
        "name": "brightness",
        "version": "1.2.3",
        "description": "For tests.",
        "paper": "none",
        "weights_sha256": "0" * 64,
        "gsd": 0.5,
        "gsd_range": (0.2, 2.0),
        "tile_size": 64,
        "threshold": 0.5,
        "changed_threshold": 0.5,
        "localisation": "difference of brightness",
        "licence": "Apache-2.0",
        "data": "none",
        "trained": "never",
    }
    return ModelCard(**{**fields, **values})


class BrightnessCaptioner:
    """P(change) = |mean of RGB after - before| / 100, at most 1; ``shapes`` keeps what it was shown."""

    def __init__(self, **values):
        self.card = card(**values)
        self.shapes: list[tuple[int, ...]] = []
        self.crops: list[tuple[int, ...]] = []
        self.explained: list[tuple[np.ndarray, np.ndarray, bool]] = []

    @property
    def seen(self) -> int:
        """How many tiles it was shown."""
        return sum(shape[0] for shape in self.shapes)

    def predict_change(self, before: np.ndarray, after: np.ndarray) -> ChangePrediction:
        assert before.dtype == after.dtype == np.uint8
        assert before.shape == after.shape
        assert max(before.shape[2:]) <= (self.card.search_size or self.card.tile_size)
        self.shapes.append(before.shape)
        difference = np.abs(after.astype(np.float32).mean(1) - before.astype(np.float32).mean(1))
        probability = np.minimum(difference / 100, 1)
        return ChangePrediction(probability, probability.max((1, 2)))

    def search(self, before: np.ndarray, after: np.ndarray) -> np.ndarray:
        return self.predict_change(before, after).change_probability

    def caption(
        self,
        before: np.ndarray,
        after: np.ndarray,
        *,
        beams: int = 3,
        assume_changed: bool = False,
        placeless: bool = False,
    ) -> list[Caption]:
        """Say the brightness of the middle pixel after; the score is the share of changed pixels."""
        assert before.shape == after.shape == (len(before), 3, self.card.tile_size, self.card.tile_size)
        assert assume_changed, "polygons are described because something changed there"
        assert placeless, "where in its crop a polygon lies says nothing"
        self.crops.append(before.shape)
        middle = self.card.tile_size // 2
        score = (np.abs(after.astype(int) - before).max(1) > 50).mean((1, 2))
        return [
            Caption(
                text=f"brightness {int(image[:, middle, middle].mean())} appears",
                score=float(part),
                changed=True,
                alternatives=tuple(f"alternative {number}" for number in range(1, beams)),
            )
            for image, part in zip(after, score, strict=True)
        ]

    def explain(
        self, before: np.ndarray, after: np.ndarray, *, beams: int = 3, assume_changed: bool = False
    ) -> Explanation:
        """Say the brightness of the middle; the first word looks at the upper left, the next one step on."""
        # Torch comes with them: a worker process of an archive's tests starts three times as fast without.
        from rscc.inference.explanations import ExplainedWord, Explanation

        assert before.dtype == after.dtype == np.uint8
        assert before.shape == after.shape == (3, self.card.tile_size, self.card.tile_size)
        self.explained.append((before, after, assume_changed))
        found = self.predict_change(before[None], after[None])
        middle = self.card.tile_size // 2
        text = f"brightness {int(after[:, middle, middle].mean())} appears"
        words = []
        for place, word in enumerate(text.split()):
            ground = np.full((4, 4), 0.02, np.float32)
            ground.flat[place] = 0.5
            words.append(ExplainedWord(word, 0.5 + place / 10, ground))
        return Explanation(
            caption=Caption(text, 0.75, True, tuple(f"alternative {n}" for n in range(1, beams))),
            changed_probability=float(found.changed_probability[0]),
            words=tuple(words),
            change=found.change_probability[0],
            difference=np.arange(16, dtype=np.float32).reshape(4, 4) / 16,
            entities=("villas", "road"),
            attention={"attention before": np.eye(4, dtype=np.float32)},
        )

"""Captioners without weights: brightness is change, building, road or clearing; their reports."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from rscc.facts.answers import ANSWERS
from rscc.facts.rules import FactRules
from rscc.model_card import ModelCard
from rscc.structures import Caption, ChangePrediction
from workflows import SceneOptions, caption_scene
from workflows.progress import Progress
from workflows.report.reading import open_report
from workflows.report.report import Report

if TYPE_CHECKING:
    from scene_pairs import MadePair

    from rscc.facts.explanations import Explanation


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
        from rscc.facts.explanations import ExplainedWord, Explanation

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
    """Gives the same answers everywhere; ``surveyed`` counts the tiles whose facts were requested.

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


def captioned(
    pair: MadePair,
    model: Any = None,
    *,
    progress: Progress | None = None,
    resume: Path | None = None,
    **options: Any,
) -> Report:
    """Caption a pair with a model, by default the fake one; ``options`` are those of a run."""
    scenes, model = (pair.before, pair.after), model or BrightnessCaptioner()
    return caption_scene(*scenes, model, SceneOptions(**options), progress, resume=resume)


def kept(pair: MadePair, folder: Path, model: Any = None, **options: Any) -> tuple[Report, Path]:
    """The report, read again from its file, and that file; its maps are beside it."""
    made = captioned(pair, model, keep_maps=folder / "maps", **options)
    source = made.write(folder / "r.geojson")
    return open_report(source), source

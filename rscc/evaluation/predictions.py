"""Predictions for pairs: the captions, flags and masks that an evaluation scores."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from rscc.data.pairs import PairRecord, read_pair
from rscc.images import resize
from rscc.sequences import batches
from rscc.text.no_change import is_no_change

if TYPE_CHECKING:
    from rscc.captioner import Captioner
    from rscc.model_card import ModelCard
    from rscc.text.change_facts import ChangeFacts

BATCH = 16


@dataclass(frozen=True)
class PairPrediction:
    """Prediction for one pair.

    Attributes:
        mask: (H, W) bool at the size of the true mask; None if the captioner gives none.
        probability: P(changed) in 0..1; None if the captioner never learned it.
        facts: what the caption is made of; None if the captioner has no facts.
    """

    caption: str
    changed: bool
    mask: np.ndarray | None = None
    probability: float | None = None
    facts: ChangeFacts | None = None


def prediction_line(record: PairRecord, prediction: PairPrediction) -> str:
    """Return a prediction as a line of JSON.

    ``file`` is the pair's id; ``p_changed`` and ``facts`` are null if the captioner gives none.
    """
    facts = prediction.facts
    content = {
        "file": record.id,
        "p_changed": prediction.probability,
        "changed": prediction.changed,
        "caption": prediction.caption,
        "facts": None if facts is None else asdict(facts),
    }
    return json.dumps(content, ensure_ascii=False) + "\n"


def caption_predictions(captions: Iterable[str]) -> Iterator[PairPrediction]:
    """Yield predictions from captions alone; the caption decides the flag."""
    for caption in captions:
        yield PairPrediction(caption=caption, changed=not is_no_change(caption))


def masks_count(card: ModelCard) -> bool:
    """Return whether a model's masks are scored: only those of a trained change head are."""
    return card.localiser == "change_head"


def captioner_predictions(
    captioner: Captioner, records: Sequence[PairRecord], *, beams: int = 3, batch_size: int = BATCH
) -> Iterator[PairPrediction]:
    """Run a captioner over pairs at the model's tile size; masks are enlarged to the size of the images.

    Masks are only given for batches with a true one, P(changed) only of a model that learned it.
    """
    card = captioner.card
    has_probability = card.changed_threshold > 0
    for part in batches(records, batch_size):
        before, after, sizes = read_batch(part, card.tile_size)
        masks: list[np.ndarray | None] = [None] * len(part)
        probabilities: list[float | None] = [None] * len(part)
        scores_masks = masks_count(card) and any(record.mask is not None for record in part)
        if scores_masks or has_probability:
            prediction, captions = captioner.describe(before, after, beams=beams)
            if has_probability:
                probabilities = list(map(float, prediction.changed_probability))
            if scores_masks:
                maps = zip(prediction.change_probability, sizes, strict=True)
                masks = [enlarge(probability, size) >= card.threshold for probability, size in maps]
        else:
            captions = captioner.caption(before, after, beams=beams)
        for caption, mask, probability in zip(captions, masks, probabilities, strict=True):
            facts = getattr(caption, "facts", None)
            yield PairPrediction(caption.text, caption.changed, mask, probability, facts)


def ungated_captions(captioner: Captioner, records: Sequence[PairRecord], *, beams: int = 3) -> Iterator[str]:
    """Caption pairs by the decoder alone, which then also states that nothing changed, as in the papers."""
    for part in batches(records, BATCH):
        before, after, _ = read_batch(part, captioner.card.tile_size)
        yield from (one.text for one in captioner.caption(before, after, beams=beams, gated=False))


def read_batch(
    records: Sequence[PairRecord], side: int
) -> tuple[np.ndarray, np.ndarray, list[tuple[int, int]]]:
    """Read pairs as (B, 3, side, side) uint8 per date, and their stored (height, width)."""
    samples = [read_pair(record) for record in records]
    before, after = (
        np.stack([resize(getattr(sample, date), (side, side)) for sample in samples])
        for date in ("before", "after")
    )
    return before, after, [(s.before.shape[1], s.before.shape[2]) for s in samples]


def enlarge(probability: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Resize a probability map (h, w) bilinearly to (height, width)."""
    if probability.shape == size:
        return probability
    import torch

    from rscc.models.shared.blocks import enlarge_maps

    grid = torch.from_numpy(np.ascontiguousarray(probability, dtype=np.float32))
    return enlarge_maps(grid[None], size)[0].numpy()

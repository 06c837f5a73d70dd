"""What a captioner, or a baseline, says of pairs: the captions, flags and masks that an evaluation scores."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from rscc.data.pairs import PairRecord, read_pair
from rscc.images import resize
from rscc.sequences import batches
from rscc.text.no_change import is_no_change

if TYPE_CHECKING:
    from rscc.model_folder import ModelCard
    from rscc.structures import Caption, ChangePrediction
    from rscc.text.facts import ChangeFacts

_BATCH = 16


@dataclass(frozen=True)
class PairPrediction:
    """What a captioner says of one pair.

    Attributes:
        caption: the sentence.
        changed: whether anything changed.
        mask: (H, W) bool at the size of the true mask; None when the captioner gives none.
        probability: P(changed) in 0..1; None when the captioner never learnt it.
        facts: what the caption rests on; None when the captioner tells none.
    """

    caption: str
    changed: bool
    mask: np.ndarray | None = None
    probability: float | None = None
    facts: ChangeFacts | None = None


def prediction_line(record: PairRecord, prediction: PairPrediction) -> str:
    """Return what is said of a pair as a line of JSON.

    ``file`` is the pair's id; ``p_changed`` and ``facts`` are null where the captioner gives none.
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


class PairCaptioner(Protocol):
    """The part of :class:`~rscc.captioner.Captioner` that an evaluation calls."""

    card: ModelCard

    def caption(self, before: np.ndarray, after: np.ndarray, *, beams: int) -> list[Caption]:
        """Return one caption per pair of (B, 3, H, W) uint8 images."""

    def describe(
        self, before: np.ndarray, after: np.ndarray, *, beams: int
    ) -> tuple[ChangePrediction, list[Caption]]:
        """Return probabilities too."""

    def predict_change(self, before: np.ndarray, after: np.ndarray) -> ChangePrediction:
        """Return probabilities alone."""


def caption_predictions(captions: Iterable[str]) -> Iterator[PairPrediction]:
    """Make predictions of captions alone; the flag is what the caption says."""
    for caption in captions:
        yield PairPrediction(caption=caption, changed=not is_no_change(caption))


def masks_count(card: ModelCard) -> bool:
    """Return whether a model's masks are to be scored: only those of a trained change head are."""
    return card.localiser == "change_head"


def captioner_predictions(
    captioner: PairCaptioner, records: Sequence[PairRecord], *, beams: int = 3, batch_size: int = _BATCH
) -> Iterator[PairPrediction]:
    """Run a captioner over pairs, at the model's tile size; masks come back at the size of the images.

    Masks are only given where there is a true one to compare with, P(changed) only of a model that learnt it.
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
                shares = zip(prediction.change_probability, sizes, strict=True)
                masks = [enlarge(probability, size) >= card.threshold for probability, size in shares]
        else:
            captions = captioner.caption(before, after, beams=beams)
        for caption, mask, probability in zip(captions, masks, probabilities, strict=True):
            facts = getattr(caption, "facts", None)
            yield PairPrediction(caption.text, caption.changed, mask, probability, facts)


def read_batch(
    records: Sequence[PairRecord], side: int
) -> tuple[np.ndarray, np.ndarray, list[tuple[int, int]]]:
    """Read pairs as (B, 3, side, side) uint8 each date, and the (height, width) they had."""
    samples = [read_pair(record) for record in records]
    before, after = (
        np.stack([resize(image, (side, side)) for image in images])
        for images in ([s.before for s in samples], [s.after for s in samples])
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

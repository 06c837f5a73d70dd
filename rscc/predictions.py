"""What a captioner, or a baseline, says of pairs: the captions, flags and masks that an evaluation scores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from rscc.data.pairs import PairRecord, read_pair, resize
from rscc.no_change import is_no_change

if TYPE_CHECKING:
    from rscc.structures import Caption, ChangePrediction
    from rscc.weights import ModelCard

_BATCH = 16


@dataclass(frozen=True)
class PairPrediction:
    """What a captioner says of one pair.

    Attributes:
        caption: the sentence.
        changed: whether anything changed.
        mask: (H, W) bool at the size of the true mask; None when the captioner gives none.
        probability: P(changed) in 0..1; None when the captioner never learnt it.
    """

    caption: str
    changed: bool
    mask: np.ndarray | None = None
    probability: float | None = None


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
    """Tell whether a model's masks are to be scored: only those of a trained change head are."""
    return card.localiser == "change_head"


def captioner_predictions(
    captioner: PairCaptioner, records: Sequence[PairRecord], *, beams: int = 3, batch_size: int = _BATCH
) -> Iterator[PairPrediction]:
    """Run a captioner over pairs, at the model's tile size; masks come back at the size of the images.

    Masks are only given where there is a true one to compare with, P(changed) only of a model that learnt it.
    """
    card = captioner.card
    knows = card.changed_threshold > 0
    for start in range(0, len(records), batch_size):
        part = records[start : start + batch_size]
        before, after, sizes = read_batch(part, card.tile_size)
        masks: list[np.ndarray | None] = [None] * len(part)
        probabilities: list[float | None] = [None] * len(part)
        wanted = masks_count(card) and any(record.mask is not None for record in part)
        if wanted or knows:
            seen, said = captioner.describe(before, after, beams=beams)
            if knows:
                probabilities = list(map(float, seen.changed_probability))
            if wanted:
                shares = zip(seen.change_probability, sizes, strict=True)
                masks = [enlarge(probability, size) >= card.threshold for probability, size in shares]
        else:
            said = captioner.caption(before, after, beams=beams)
        for caption, mask, probability in zip(said, masks, probabilities, strict=True):
            yield PairPrediction(caption.text, caption.changed, mask, probability)


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

    from rscc.models.blocks import enlarge_maps

    grid = torch.from_numpy(np.ascontiguousarray(probability, dtype=np.float32))
    return enlarge_maps(grid[None], size)[0].numpy()

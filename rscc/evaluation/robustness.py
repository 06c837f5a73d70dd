"""Robustness of a captioner on pairs made from real ones.

Swapped dates: a changed pair whose references describe construction is shown with its dates swapped; the
caption must say that something is gone. No change: each image beside itself, and beside itself with one
disturbance of strength :data:`STRENGTH`, must be called unchanged.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from rscc.captioner import Captioner
from rscc.data.augmentation import blur, haze, jpeg, tint
from rscc.data.pairs import PairRecord, truly_changed
from rscc.evaluation.predictions import BATCH, read_batch
from rscc.evaluation.score_rows import Share
from rscc.sequences import batches
from rscc.text.reversal import describes_removal, reverse_captions

STRENGTH = 0.5
"""Of the disturbances, in 0..1: a veil of 5 to 35 percent, JPEG of quality 60 to 84, a blur of 0.2 to 0.75
pixels, a tint of at most a fifth of a channel."""

IDENTICAL = "identical"

_SEED = 1

Disturbance = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def shift_by_one(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Move an image (3, H, W) by one pixel in one of the eight directions, edges repeated."""
    dy, dx = divmod((int(rng.integers(8)) + 5) % 9, 3)  # 4, which is no move, is left out
    padded = np.pad(image, ((0, 0), (1, 1), (1, 1)), mode="edge")
    height, width = image.shape[1:]
    return np.ascontiguousarray(padded[:, dy : dy + height, dx : dx + width])


DISTURBANCES: Mapping[str, Disturbance] = {
    IDENTICAL: lambda image, rng: image,
    "haze": partial(haze, strength=STRENGTH),
    "tint": partial(tint, strength=STRENGTH),
    "blur": partial(blur, strength=STRENGTH),
    "jpeg": partial(jpeg, strength=STRENGTH),
    "shift by 1 pixel": shift_by_one,
}
"""Make the second date of an unchanged pair from an image (3, H, W) uint8."""


@dataclass(frozen=True)
class Robustness:
    """Result of :func:`measure_robustness`.

    Attributes:
        removal: pairs with swapped dates whose caption says that something built is gone.
        still_changed: of the same pairs, those called changed.
        unchanged: by disturbance, the pairs called unchanged.
    """

    removal: Share
    still_changed: Share
    unchanged: Mapping[str, Share]

    @property
    def all_unchanged(self) -> Share:
        """The pairs of all disturbances together."""
        shares = self.unchanged.values()
        return Share.of(sum(one.right for one in shares), sum(one.counted for one in shares))

    def as_dict(self) -> dict[str, object]:
        """Return plain values for JSON."""
        return {
            "backwards": {
                "describes_removal": self.removal.as_dict("pairs"),
                "called_changed": self.still_changed.as_dict("pairs"),
            },
            "called_unchanged": {
                **{name: share.as_dict("pairs") for name, share in self.unchanged.items()},
                "all": self.all_unchanged.as_dict("pairs"),
            },
            "strength": STRENGTH,
        }


def describes_construction(captions: Sequence[str]) -> bool:
    """Return whether references describe only construction, so that with swapped dates something is gone.

    No reference says that something built disappeared, and more than half of the reversed references do.
    """
    if any(map(describes_removal, captions)):
        return False
    backwards = reverse_captions(captions)
    return 2 * sum(map(describes_removal, backwards)) > len(backwards)


def swapped(record: PairRecord) -> PairRecord:
    """Return a pair with its dates swapped, without mask and references."""
    return replace(record, before=record.after, after=record.before, mask=None, captions=())


def measure_robustness(
    captioner: Captioner,
    records: Sequence[PairRecord],
    *,
    beams: int = 3,
    disturbances: Mapping[str, Disturbance] = DISTURBANCES,
) -> Robustness:
    """Show a captioner pairs with swapped dates, and every image beside itself and its disturbed copies.

    Args:
        records: pairs; their references decide which are swapped.
    """
    built = [
        swapped(pair) for pair in records if truly_changed(pair) and describes_construction(pair.captions)
    ]
    removed = changed = 0
    for part in batches(built, BATCH):
        before, after, _ = read_batch(part, captioner.card.tile_size)
        for caption in captioner.caption(before, after, beams=beams):
            removed += caption.changed and describes_removal(caption.text)
            changed += caption.changed
    unchanged = {}
    for number, (name, disturb) in enumerate(disturbances.items()):
        pairs = _disturbed_pairs(records, captioner.card.tile_size, number, disturb)
        flags: list[bool] = []
        for images in batches(pairs, BATCH):
            before, after = map(np.stack, zip(*images, strict=True))
            flags += called_changed(captioner, before, after)
        unchanged[name] = Share.of(flags.count(False), len(flags))
    return Robustness(Share.of(removed, len(built)), Share.of(changed, len(built)), unchanged)


def _disturbed_pairs(
    records: Sequence[PairRecord], side: int, number: int, disturb: Disturbance
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for place, record in enumerate(records):
        for date, (image,) in enumerate(read_batch([record], side)[:2]):
            yield image, disturb(image, np.random.default_rng((_SEED, number, place, date)))


def called_changed(captioner: Captioner, before: np.ndarray, after: np.ndarray) -> list[bool]:
    """Return which pairs of (B, 3, H, W) uint8 images are called changed, without captions if possible."""
    threshold = captioner.card.changed_threshold
    if threshold > 0:
        return [bool(p >= threshold) for p in captioner.predict_change(before, after).changed_probability]
    return [caption.changed for caption in captioner.caption(before, after, beams=1)]

"""Captions that state facts only, and the measurements of pictures that they are made of."""

from dataclasses import dataclass, field

import numpy as np
from scipy import ndimage

from rscc.facts.answers import ANSWERS
from rscc.facts.objects import object_sizes
from rscc.structures import Caption
from rscc.text.change_facts import ChangeFacts
from rscc.text.map_sentences import cover_sentences, map_sentences

SMALLEST = 60
"""Minimum number of pixels, at the model's resolution, of an outline that is counted."""
MOST_COUNTED = 11
OF_BUILDINGS = np.array([name in ("came building", "gone building") for name in ANSWERS])
_ONE_SIDE, _MIDDLE = 0.85, (0.4, 0.6)


@dataclass(frozen=True)
class GroundedCaption(Caption):
    """A caption that states facts only.

    Its score is the probability of the facts (:attr:`ChangeFacts.probability`) times that of a change, 0
    where it is not confident; it has no likelihood.

    Attributes:
        confident: False where too little is known for a specific sentence ("something changed").
    """

    facts: ChangeFacts = field(default_factory=ChangeFacts)
    confident: bool = True


def grounded_caption(sentences: list[str], facts: ChangeFacts, changed: float) -> GroundedCaption:
    """Return the caption of a change that exists with probability ``changed``; the best sentence first."""
    return GroundedCaption(
        text=sentences[0],
        score=changed * facts.probability,
        changed=True,
        alternatives=tuple(sentences[1:]),
        facts=facts,
        confident=facts.direction is not None,
    )


def map_caption(facts: ChangeFacts, changed: float = 1.0) -> GroundedCaption:
    """Return the caption of a change on a map, which exists with probability ``changed``."""
    sentences = map_sentences(facts) if facts.area_m2 is None else cover_sentences(facts)
    return grounded_caption(sentences, facts, changed)


def stated_logits(logits: np.ndarray, closer: np.ndarray) -> np.ndarray:
    """Return the logits that decide which facts of pictures are stated, (..., len(ANSWERS)).

    ``logits`` are of whole pictures, ``closer`` of their changed pixels alone, which reveal a small building.
    """
    return np.where(OF_BUILDINGS, np.maximum(logits, closer), logits)


def counted(mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the outlines of a mask (H, W) that are large enough to count, and the pixels of each object."""
    labels, _ = ndimage.label(mask)
    large = np.bincount(labels.ravel()) >= SMALLEST
    large[0] = False
    outlines: np.ndarray = large[labels]
    return outlines, object_sizes(outlines)


def picture_place(mask: np.ndarray) -> tuple[str, ...]:
    """Return where in the picture nearly all of a mask (H, W) lies; empty where no word fits."""
    total = int(mask.sum())
    if total == 0:
        return ()
    height, width = mask.shape
    top, left = mask[: height // 2].sum() / total, mask[:, : width // 2].sum() / total
    rows, cols = np.nonzero(mask)
    low, high = _MIDDLE
    if low < rows.mean() / height < high and low < cols.mean() / width < high:
        inner = mask[height // 4 : height - height // 4, width // 4 : width - width // 4]
        return ("middle",) if inner.sum() / total > _ONE_SIDE else ()
    vertical = "top" if top > _ONE_SIDE else "bottom" if top < 1 - _ONE_SIDE else ""
    horizontal = "left" if left > _ONE_SIDE else "right" if left < 1 - _ONE_SIDE else ""
    return tuple(word for word in (vertical, horizontal) if word)


def measurements(logits: np.ndarray, outlines: np.ndarray, count: int) -> np.ndarray:
    """Return the features of a change that a phrasing reads, (F,).

    These are the logits, the number of objects, the changed share of the picture, location and spread.
    """
    number = np.eye(MOST_COUNTED + 1)[min(count, MOST_COUNTED)]
    shape = np.zeros(6)
    if count:
        rows, cols = (
            side / length for side, length in zip(np.nonzero(outlines), outlines.shape, strict=True)
        )
        shape[:] = (rows.mean() - 0.5, cols.mean() - 0.5, rows.std(), cols.std(), len(rows) / count, 0)
        shape[4] = np.log1p(shape[4])
    shape[5] = 5 * outlines.mean()
    return np.concatenate([logits, number, [np.log1p(count)], shape])

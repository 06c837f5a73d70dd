"""Baselines that hardly look at the images: what a model's captions must beat."""

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from scipy import ndimage

from rscc.data.pairs import PairRecord
from rscc.errors import DatasetLayoutInvalid
from rscc.text.no_change import NO_CHANGE_SENTENCES, is_no_change
from rscc.text.statements import number_class

ALWAYS_NO_CHANGE = "always no change"
FREQUENT_CHANGE = "most frequent change caption"
NEAREST_PAIR = "nearest training pair"
TEMPLATE_BY_COUNT = "template by count"

LEAST_OUTLINE = 60
"""Fewest pixels of a patch of a predicted mask that counts as a building."""
_TEMPLATES = {
    "one": "a house is built",
    "two": "two houses are built",
    "some": "some houses are built along the road",
    "many": "many houses are built along the road",
}


def template_caption(mask: np.ndarray) -> str:
    """Return one of five fixed sentences, by the number of 8-connected patches of a mask (H, W) bool.

    Only patches of at least :data:`LEAST_OUTLINE` pixels count.
    """
    labels, _ = ndimage.label(mask, np.ones((3, 3)))
    count = int((np.bincount(labels.ravel())[1:] >= LEAST_OUTLINE).sum())
    return _TEMPLATES[number_class(count)] if count else NO_CHANGE_SENTENCES[0]


def most_frequent_change_caption(train: Sequence[PairRecord]) -> str:
    """Return the most frequent sentence of the changed training pairs, of several the first by alphabet."""
    counts = Counter(caption for record in train for caption in record.captions if not is_no_change(caption))
    if not counts:
        raise DatasetLayoutInvalid("no training caption describes a change; check the training split")
    return min(counts, key=lambda caption: (-counts[caption], caption))


def nearest_captions(
    train: Sequence[PairRecord], train_features: np.ndarray, features: np.ndarray
) -> list[str]:
    """Return, for each pair, the first caption of the most similar training pair.

    The distance is Euclidean between vectors [before, after, after - before], standardised over the training
    pairs.

    Args:
        train: N training pairs with captions, at least one.
        train_features: (N, 2, C) pooled trunk features of both dates.
        features: (M, 2, C) the same of the pairs to be captioned.
    """
    references, queries = _describe(train_features), _describe(features)
    mean, deviation = references.mean(0), references.std(0) + 1e-6
    references, queries = (references - mean) / deviation, (queries - mean) / deviation
    # (M, N), without the constant length of each query
    distance = (references**2).sum(1) - 2 * queries @ references.T
    return [train[index].captions[0] for index in distance.argmin(1)]


def _describe(features: np.ndarray) -> np.ndarray:
    before, after = features[:, 0].astype(np.float64), features[:, 1].astype(np.float64)
    return np.concatenate([before, after, after - before], axis=1)


def baseline_captions(
    records: Sequence[PairRecord],
    train: Sequence[PairRecord],
    features: Callable[[Sequence[PairRecord]], np.ndarray] | None,
) -> dict[str, list[str]]:
    """Return the captions of every baseline for ``records``, by its name.

    Without training pairs there is only "always no change"; without ``features``, which gives (N, 2, C)
    pooled trunk features of N pairs, there is no nearest pair.
    """
    captions = {ALWAYS_NO_CHANGE: [NO_CHANGE_SENTENCES[0]] * len(records)}
    if train:
        captions[FREQUENT_CHANGE] = [most_frequent_change_caption(train)] * len(records)
        if features is not None:
            captions[NEAREST_PAIR] = nearest_captions(train, features(train), features(records))
    return captions

"""Which of a decoder's sentences to say: the one that most of what it might say agrees with.

The likeliest sentence of a captioner is often one that fits every picture a little, and may name a thing that
hardly any other of its sentences names. The choice of least risk (Kumar & Byrne 2004, minimum Bayes risk)
takes what the decoder might say, drawn evenly by probability, for what people may say. With draws d_1..d_K, a
candidate c and the words w of c that name objects::

    value(c) = mean_k similarity(c, d_k) - PENALTY * max_w (1 - share of the draws that name a class of w)

The similarity is that of CIDEr-D with all n-grams weighing the same, 0..10; the classes are those of
:mod:`rscc.object_classes`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from rscc.object_classes import NamedObjects, objects_among
from rscc.rewards import CiderD
from rscc.vocabulary import tokenize

PENALTY = 1.0

_SIMILARITY = CiderD(None)


def consensus_order(candidates: Sequence[str], draws: Sequence[str]) -> list[int]:
    """Return the places of the candidates, the one of the highest value first; of equals the earlier one.

    Args:
        candidates: sentences to choose among.
        draws: sentences that stand for all that may be said, at least one.
    """
    similarity = np.array(_SIMILARITY.score(candidates, draws))
    named = [_objects(one).classes for one in draws]
    unsupported = [
        max((1 - np.mean([not known.isdisjoint(classes) for known in named]) for classes in own), default=0.0)
        for own in ([classes for _, classes in _objects(one).words] for one in candidates)
    ]
    values = similarity - PENALTY * np.array(unsupported)
    return np.argsort(-values, kind="stable").tolist()


@lru_cache(maxsize=4096)
def _objects(caption: str) -> NamedObjects:
    # No parser: in captions of changes the words on the lists of objects are nouns nearly always.
    return objects_among([(word, True) for word in tokenize(caption)])

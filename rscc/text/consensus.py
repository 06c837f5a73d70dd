"""Which of a decoder's sentences to say: not one that names what hardly any other of them names.

The likeliest sentence of a captioner is often one that fits every picture a little, and may name a thing that
hardly any other of its sentences names. Instead, of the sentences c_1..c_N that a wide beam search finds,
with their mean log-probability per word l, that of the highest value is said, w being the words of c that
name objects::

    value(c) = l(c) - SUPPORT * max_w (1 - share of c_1..c_N that name a class of w)

A sentence that names no object at all says nothing, and counts as if nobody else named its object. The
classes of words are those of :mod:`rscc.text.object_classes`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from rscc.text.object_classes import NamedObjects, objects_among
from rscc.text.vocabulary import tokenize

SUPPORT = 0.5


def supported_order(sentences: Sequence[str], log_probabilities: Sequence[float]) -> list[int]:
    """Return the places of sentences, the one of the highest value first; of equals the earlier one.

    Args:
        sentences: all that the search found.
        log_probabilities: mean log-probability per word of each.
    """
    objects = [_objects(one) for one in sentences]

    def silent(classes: Sequence[str]) -> float:
        return 1 - float(np.mean([not one.classes.isdisjoint(classes) for one in objects]))

    unsupported = [max((silent(classes) for _, classes in one.words), default=1.0) for one in objects]
    values = np.array(log_probabilities) - SUPPORT * np.array(unsupported)
    return np.argsort(-values, kind="stable").tolist()


@lru_cache(maxsize=4096)
def _objects(caption: str) -> NamedObjects:
    # No parser: in captions of changes the words on the lists of objects are nouns nearly always.
    return objects_among([(word, True) for word in tokenize(caption)])

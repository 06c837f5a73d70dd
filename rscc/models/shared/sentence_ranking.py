"""Ranks the sentences of a beam search by likelihood and by agreement about the objects they name.

The likeliest sentence of a captioner is often generic, and may name an object that hardly any other sentence
of the search names. So of the sentences c_1..c_N of a wide beam search, with mean log-probability per word l,
the one with the highest value is chosen, w being the words of c that name objects::

    value(c) = l(c) - SUPPORT * max_w (1 - share of c_1..c_N that name a class of w)

A sentence without objects counts as if no other sentence named its object. The classes of words are those of
:mod:`rscc.text.object_classes`.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from rscc.text.object_classes import NamedObjects, objects_among
from rscc.text.vocabulary import tokenize

SUPPORT = 0.5


def supported_order(sentences: Sequence[str], log_probabilities: Sequence[float]) -> list[int]:
    """Return the indices of sentences by decreasing value; equal ones stay in order.

    Args:
        log_probabilities: mean log-probability per word of each.
    """
    objects = [_objects(one) for one in sentences]

    def disagreement(classes: Sequence[str]) -> float:
        return 1 - float(np.mean([not one.classes.isdisjoint(classes) for one in objects]))

    unsupported = [max((disagreement(classes) for _, classes in one.words), default=1.0) for one in objects]
    values = np.array(log_probabilities) - SUPPORT * np.array(unsupported)
    return np.argsort(-values, kind="stable").tolist()


@lru_cache(maxsize=4096)
def _objects(caption: str) -> NamedObjects:
    # Without a parser: in captions of changes, words of the object classes are almost always nouns.
    return objects_among([(word, True) for word in tokenize(caption)])

"""Which of a decoder's sentences to say: not one that names what hardly any other of them names.

The likeliest sentence of a captioner is often one that fits every picture a little, and may name a thing that
hardly any other of its sentences names. Two ways to do better; in both, the classes of words are those of
:mod:`rscc.text.object_classes`.

Support: of the sentences c_1..c_N that a wide beam search finds, with their mean log-probability per word l,
that of the highest value is said, w being the words of c that name objects::

    value(c) = l(c) - SUPPORT * max_w (1 - share of c_1..c_N that name a class of w)

A sentence that names no object at all says nothing, and counts as if nobody else named its object.

Agreement: the choice of least risk (Kumar & Byrne 2004, minimum Bayes risk) takes what the decoder might say,
drawn evenly by probability, for what people may say. With draws d_1..d_K, a candidate c and the words w of c
that name objects::

    value(c) = mean_k similarity(c, d_k) - PENALTY * max_w (1 - share of the draws that name a class of w)

The similarity is that of CIDEr-D with all n-grams weighing the same, 0..10.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from rscc.text.object_classes import NamedObjects, objects_among
from rscc.text.rewards import CiderD
from rscc.text.vocabulary import tokenize

PENALTY = 1.0
SUPPORT = 0.5

_SIMILARITY = CiderD(None)


def consensus_order(candidates: Sequence[str], draws: Sequence[str]) -> list[int]:
    """Return the places of the candidates, the one of the highest value first; of equals the earlier one.

    Args:
        candidates: sentences to choose among.
        draws: sentences that stand for all that may be said, at least one.
    """
    similarity = np.array(_SIMILARITY.score(candidates, draws))
    return _descending(similarity - PENALTY * _unsupported(candidates, draws, without=0.0))


def supported_order(sentences: Sequence[str], log_probabilities: Sequence[float]) -> list[int]:
    """Return the places of sentences, the one of the highest value first; of equals the earlier one.

    Args:
        sentences: all that the search found.
        log_probabilities: mean log-probability per word of each.
    """
    return _descending(
        np.array(log_probabilities) - SUPPORT * _unsupported(sentences, sentences, without=1.0)
    )


def _unsupported(sentences: Sequence[str], others: Sequence[str], *, without: float) -> np.ndarray:
    """Return per sentence the largest share of the others that do not name one of its objects.

    ``without`` is the value of a sentence that names no object.
    """
    named = [_objects(one).classes for one in others]

    def silent(classes: Sequence[str]) -> float:
        return 1 - float(np.mean([not other.isdisjoint(classes) for other in named]))

    words = (_objects(one).words for one in sentences)
    return np.array([max((silent(classes) for _, classes in objects), default=without) for objects in words])


def _descending(values: np.ndarray) -> list[int]:
    return np.argsort(-values, kind="stable").tolist()


@lru_cache(maxsize=4096)
def _objects(caption: str) -> NamedObjects:
    # No parser: in captions of changes the words on the lists of objects are nouns nearly always.
    return objects_among([(word, True) for word in tokenize(caption)])

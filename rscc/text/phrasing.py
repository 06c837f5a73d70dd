"""Which true sentence people would choose: the words that they chose for changes that measured alike.

A sentence s is the vector g(s) of its n-grams weighed by rarity, as in CIDEr (Vedantam et al. 2015, Sec. 3).
For the references r of a change with measurements x, the mean over its n-gram lengths of

    E[ cos(g(s), g(r)) | x ] = g(s) / |g(s)| . E[ g(r) / |g(r)| | x ]

is what s may expect to score. The second factor is linear in x here, fitted by ridge regression on training
references; only n-grams and weights are stored, no sentence.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

LONGEST = 4
RIDGE, STAYS = 30.0, 100.0
"""Penalties of weights: that are fitted anew, and that are moved from where they are."""
FEWEST = 3
"""References that hold an n-gram, at least, for it to be learnt."""

NGram = str


def ngrams(sentence: str) -> list[Counter[NGram]]:
    """Return the runs of words of a sentence, counted, for each length from 1 to 4."""
    words = sentence.split()
    return [
        Counter(" ".join(words[i : i + n]) for i in range(len(words) - n + 1)) for n in range(1, LONGEST + 1)
    ]


@dataclass(frozen=True)
class Phrasing:
    """The expected n-grams of references, linear in the measurements of a change.

    Attributes:
        rarity: of each n-gram, natural logarithm of changes by changes whose references hold it.
        unseen: rarity of all other n-grams.
        weights: (F + 1, V), the last row for the constant; V n-grams in the order of ``rarity``.
        mean, scale: (F,), what measurements are brought to a common scale by.
    """

    rarity: dict[NGram, float]
    unseen: float
    weights: np.ndarray
    mean: np.ndarray
    scale: np.ndarray
    _columns: dict[NGram, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_columns", {gram: i for i, gram in enumerate(self.rarity)})

    def expected(self, measurements: np.ndarray) -> np.ndarray:
        """Return the expected weight of each n-gram, (V,), for measurements (F,)."""
        return self._scaled(measurements[None])[0] @ self.weights

    def scores(self, sentences: Sequence[str], expected: np.ndarray) -> list[float]:
        """Return what each sentence may expect to score, given :meth:`expected`."""
        return [float(sum(expected[i] * value for i, value in self._vector(one))) for one in sentences]

    def _vector(self, sentence: str) -> Iterable[tuple[int, float]]:
        for counts in ngrams(sentence):
            weighed = {gram: number * self.rarity.get(gram, self.unseen) for gram, number in counts.items()}
            norm = math.sqrt(sum(value * value for value in weighed.values())) or 1.0
            for gram, value in weighed.items():
                if gram in self._columns:
                    yield self._columns[gram], value / norm

    def _scaled(self, measurements: np.ndarray) -> np.ndarray:
        scaled = (measurements - self.mean) / self.scale
        return np.concatenate([scaled, np.ones((len(scaled), 1))], 1)


def fit_phrasing(
    measurements: np.ndarray, references: Sequence[Sequence[str]], words: Collection[str] | None = None
) -> Phrasing:
    """Learn what people say of changes that measure alike, as exactly as a model folder keeps it.

    Args:
        measurements: (N, F) of training changes.
        references: the sentences of each.
        words: only n-grams of these words are learnt, such as those of a grammar; None takes all words.
    """
    counts = Counter(
        gram for several in references for gram in {g for one in several for k in ngrams(one) for g in k}
    )
    rarity = {
        gram: round(math.log(len(references) / number), 4)
        for gram, number in sorted(counts.items())
        if number >= FEWEST and (words is None or all(word in words for word in gram.split()))
    }
    unseen = math.log(max(2, len(references)))
    mean, scale = (x.astype(np.float32) for x in (measurements.mean(0), measurements.std(0) + 1e-6))
    blank = Phrasing(rarity, unseen, np.zeros((measurements.shape[1] + 1, len(rarity))), mean, scale)
    penalty = np.full(len(blank.weights), RIDGE)
    penalty[-1] = 0.0
    return _moved(blank, measurements, references, penalty)


def adapt_phrasing(
    start: Phrasing, measurements: np.ndarray, references: Sequence[Sequence[str]]
) -> Phrasing:
    """Learn on what people say, from fewer changes than it was fitted on: weights stay near those it has.

    Arguments as :func:`fit_phrasing`; the n-grams stay those of the start.
    """
    return _moved(start, measurements, references, np.full(len(start.weights), STAYS))


def _moved(
    start: Phrasing, measurements: np.ndarray, references: Sequence[Sequence[str]], penalty: np.ndarray
) -> Phrasing:
    """Fit the weights by ridge regression towards those of the start, with a penalty (F + 1,)."""
    targets = np.zeros((len(references), len(start.rarity)))
    for row, several in zip(targets, references, strict=True):
        for reference in several:
            for column, value in start._vector(reference):
                row[column] += value / len(several)
    x = start._scaled(measurements)
    left = targets - x @ start.weights
    weights = start.weights + np.linalg.solve(x.T @ x + np.diag(penalty), x.T @ left)
    return replace(start, weights=weights.astype(np.float16).astype(np.float32))

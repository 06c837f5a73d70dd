"""Predicts which of several true sentences people would write, from captions of similar changes.

A sentence s is the vector g(s) of its n-grams weighted by rarity, as in CIDEr (Vedantam et al. 2015, Sec. 3).
For the references r of a change with measurements x, the mean over the n-gram lengths of

    E[ cos(g(s), g(r)) | x ] = g(s) / |g(s)| . E[ g(r) / |g(r)| | x ]

is the expected score of s. The second factor is modelled as linear in x, fitted by ridge regression on
training references; only n-grams and weights are stored, no sentences.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

LONGEST = 4
RIDGE, STAYS = 30.0, 100.0
"""Penalties of weights that are fitted from zero, and of weights that are adapted."""
FEWEST = 3
"""Minimum number of changes whose references contain an n-gram."""

NGram = str


def ngrams(sentence: str) -> list[Counter[NGram]]:
    """Return the counted n-grams of a sentence for each length from 1 to 4."""
    words = sentence.split()
    return [
        Counter(" ".join(words[i : i + n]) for i in range(len(words) - n + 1)) for n in range(1, LONGEST + 1)
    ]


@dataclass(frozen=True)
class Phrasing:
    """The expected n-grams of references, linear in the measurements of a change.

    Attributes:
        rarity: of each n-gram, natural logarithm of the number of changes by the number of those whose
            references contain it.
        unseen: rarity of all other n-grams.
        weights: (F + 1, V), the last row for the constant; V n-grams in the order of ``rarity``.
        mean, scale: (F,), mean and standard deviation of the measurements.
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
        """Return the expected score of each sentence, given :meth:`expected`."""
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
    """Fit a phrasing, with the precision of a model folder.

    Args:
        measurements: (N, F) of training changes.
        references: the sentences of each.
        words: only n-grams of these words are fitted, such as those of a grammar; None for all words.
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
    """Adapt a phrasing to few changes: weights stay close to the present ones.

    Arguments as in :func:`fit_phrasing`; the n-grams stay the same.
    """
    return _moved(start, measurements, references, np.full(len(start.weights), STAYS))


def _moved(
    start: Phrasing, measurements: np.ndarray, references: Sequence[Sequence[str]], penalty: np.ndarray
) -> Phrasing:
    """Fit the weights by ridge regression towards the present ones, with a penalty (F + 1,)."""
    targets = np.zeros((len(references), len(start.rarity)))
    for row, several in zip(targets, references, strict=True):
        for reference in several:
            for column, value in start._vector(reference):
                row[column] += value / len(several)
    x = start._scaled(measurements)
    left = targets - x @ start.weights
    weights = start.weights + np.linalg.solve(x.T @ x + np.diag(penalty), x.T @ left)
    return replace(start, weights=weights.astype(np.float16).astype(np.float32))

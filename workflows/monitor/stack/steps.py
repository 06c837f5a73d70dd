"""Where the ground changed to stay: the probability of a step after each date, from several pairs together.

For pairs of dates with change probabilities P, the step after date s has the probability::

    F(s) = max over b < s < a < a' of min(P(b, a), P(b, a'), P(s, a), P(s, a'))

Two dates before, the last of which is s, must differ from two dates after. So nothing that one date shows
alone (haze, a shadow, a lorry) makes a step, and one veiled date among the others hides none. The dates after
need not look alike, since building takes time, but b and s must. F is 0 if a date between s and a' looks as
one before and unlike a', or a date between b and s as one after and unlike b: then the step is at another
date, or two dates are veiled alike. The least of four probabilities is lower than one of them, so F decides
from less than P, see :data:`workflows.monitor.stacks.LEAST`. Dates without data drop out; where one side has
one usable date, as at the end of a series, that date must do, and reach the threshold of a pair.
"""

from collections.abc import Callable, Iterator
from functools import reduce
from itertools import combinations

import numpy as np

from workflows.monitor.events import Pair
from workflows.monitor.stack.pairs import REACH

Read = Callable[[Pair], np.ndarray | None]
"""Returns the change probability of a pair, NaN without data; None without any."""


def step_probability(read: Read, step: int, count: int, alike: float) -> np.ndarray | None:
    """Return F of the step after date ``step``, in the shape of the maps; None where nothing shows it.

    Args:
        read: gives the maps of pairs at most :data:`REACH` apart.
        step: number of the last date before it, 0..count - 2.
        alike: change probability below which two dates look alike.
    """
    found: np.ndarray | None = None
    for number, sets in enumerate(_witnesses(step, count)):
        values = [value for dates in sets if (value := _agreement(read, step, alike, *dates)) is not None]
        if values:
            best = reduce(np.fmax, values)
            if number > 0:
                best = np.where(best < alike, 0, best)
            found = best if found is None else np.where(np.isnan(found), best, found)
    return found


def crossing(step: int, count: int) -> Iterator[Pair]:
    """Yield the pairs with one date up to ``step`` and one after it."""
    for first in range(max(0, step - REACH + 1), step + 1):
        yield from ((first, second) for second in range(step + 1, min(count - 1, first + REACH) + 1))


def _witnesses(step: int, count: int) -> Iterator[list[tuple[list[int], list[int]]]]:
    """Yield the sets of dates before and after that can show a step, those with most dates first."""
    pairs = set(crossing(step, count))
    before = [[step, first] for first in range(step - 1, max(-1, step - REACH), -1)]
    after = list(range(step + 1, min(count - 1, step + REACH) + 1))
    twice = [list(both) for both in combinations(after, 2)]
    once = [[date] for date in after]
    for combined in (
        [(first, second) for first in before for second in twice],
        [(first, second) for first in before for second in once] + [([step], second) for second in twice],
        [([step], second) for second in once],
    ):
        yield [
            (first, second)
            for first, second in combined
            if all((one, other) in pairs for one in first for other in second)
        ]


def _agreement(read: Read, step: int, alike: float, before: list[int], after: list[int]) -> np.ndarray | None:
    """Return how surely all dates before differ from all after; 0 where another date contradicts them."""
    values = [read((first, second)) for first in before for second in after]
    present = [value for value in values if value is not None]
    if len(present) < len(values):
        return None
    result = reduce(np.minimum, present)
    unlike = read((before[1], step)) if len(before) > 1 else None
    contradicted = np.zeros(np.shape(result), bool) if unlike is None else unlike >= alike
    earliest, latest = before[-1], after[-1]
    others = [((one, t), (t, latest)) for t in range(step + 1, latest) if t not in after for one in before]
    others += [((t, one), (earliest, t)) for t in range(earliest + 1, step) for one in after]
    for apart, other in others:
        differs, same = read(apart), read(other)
        if differs is not None and same is not None:
            is_known = ~(np.isnan(differs) & np.isnan(same))
            contradicted = contradicted | (is_known & ~(differs >= alike) & ~(same < alike))
    return np.where(contradicted & ~np.isnan(result), 0, result)

"""Where the ground changed to stay: the probability of a step after each date, from several pairs together.

For pairs of dates with change probabilities P, the step after date s has the probability::

    F(s) = max over b < s < a < a' of min(P(b, a), P(b, a'), P(s, a), P(s, a'), 1 - P(b, s), C)
    C    = min over s < t < a' and x in {b, s} of max(P(x, t), 1 - P(t, a')), and
           min over b < t < s and y in {a, a'} of max(P(t, y), 1 - P(b, t))

Two dates before that look alike, the last of which is s, must differ from two dates after. These need not
look alike, since building takes time. So nothing that one date shows
alone (haze, a shadow, a lorry) makes a step, and one veiled date among the others hides none. C is small if
a date after s looks as one before, or a date before s as one after: then the step is at another date, or two
dates are veiled alike. Dates without data drop out; where one side has one usable date, as at the end of a
series, that date must do.
"""

from collections.abc import Callable, Iterator
from functools import reduce
from itertools import combinations

import numpy as np

from workflows.monitor.events import Pair
from workflows.monitor.stack.pairs import REACH

Read = Callable[[Pair], np.ndarray | None]
"""Returns the change probability of a pair, NaN without data; None without any."""


def step_probability(read: Read, step: int, count: int, reach: int = REACH) -> np.ndarray | None:
    """Return F of the step after date ``step``, in the shape of the maps; None where nothing shows it.

    Args:
        read: gives the maps of pairs at most ``reach`` apart.
        step: number of the last date before it, 0..count - 2.
    """
    found: np.ndarray | None = None
    for sets in _witnesses(step, count, reach):
        values = [value for dates in sets if (value := _agreement(read, step, *dates)) is not None]
        if values:
            best = reduce(np.fmax, values)
            found = best if found is None else np.where(np.isnan(found), best, found)
    return found


def crossing(step: int, count: int, reach: int = REACH) -> Iterator[Pair]:
    """Yield the pairs with one date up to ``step`` and one after it."""
    for first in range(max(0, step - reach + 1), step + 1):
        yield from ((first, second) for second in range(step + 1, min(count - 1, first + reach) + 1))


def _witnesses(step: int, count: int, reach: int) -> Iterator[list[tuple[list[int], list[int]]]]:
    """Yield the sets of dates before and after that can show a step, those with most dates first."""
    pairs = set(crossing(step, count, reach))
    before = [[step, first] for first in range(step - 1, max(-1, step - reach), -1)]
    after = list(range(step + 1, min(count - 1, step + reach) + 1))
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


def _agreement(read: Read, step: int, before: list[int], after: list[int]) -> np.ndarray | None:
    """Return how surely all dates before differ from all after, and no other date contradicts them."""
    values = [read((first, second)) for first in before for second in after]
    present = [value for value in values if value is not None]
    if len(present) < len(values):
        return None
    if len(before) > 1 and (unlike := read((before[1], step))) is not None:
        present.append(1 - unlike)
    result = reduce(np.minimum, present)
    earliest, latest = before[-1], after[-1]
    others = [((one, t), (t, latest)) for t in range(step + 1, latest) if t not in after for one in before]
    others += [((t, one), (earliest, t)) for t in range(earliest + 1, step) for one in after]
    for apart, alike in others:
        differs, same = read(apart), read(alike)
        if differs is not None and same is not None:
            against = np.fmax(differs, 1 - same)  # NaN where neither is known
            result = np.where(np.isnan(result), result, np.fmin(result, against))
    return result

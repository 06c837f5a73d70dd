"""Words that only captions of unchanged pairs have, counted in the training pairs."""

from collections import Counter
from collections.abc import Sequence
from itertools import chain

from rscc.data.pairs import PairRecord
from rscc.text.vocabulary import tokenize


def no_change_prefixes(records: Sequence[PairRecord]) -> list[list[str]]:
    """Find the shortest prefixes of captions of unchanged pairs that captions of changed pairs lack.

    A prefix counts as lacking if fewer than one in a thousand captions of changed pairs has it, because a few
    captions are wrong.
    """
    changed = [tuple(tokenize(c)) for r in records if r.changed for c in r.captions]
    unchanged = {tuple(tokenize(c)) for r in records if r.changed is False for c in r.captions}
    counts = Counter(words[:length] for words in changed for length in range(1, len(words) + 1))
    prefixes = set()
    for words in unchanged:
        for length in range(1, len(words) + 1):
            if counts[words[:length]] * 1000 < len(changed):
                prefixes.add(words[:length])
                break
    return [list(words) for words in sorted(prefixes)]


def no_change_runs(records: Sequence[PairRecord], known: Sequence[Sequence[str]] = ()) -> list[list[str]]:
    """Find the shortest runs of up to three words that mean "no change" anywhere in a caption, as "same".

    At least one in ten captions of unchanged pairs has them, and fewer than one in a thousand captions of
    changed pairs, in either order of the dates. They are forbidden in use, not in training: a decoder whose
    prefixes are forbidden could still say "the road is the same as before".

    Below a thousand captions of changed pairs nothing is counted; then the runs ``known`` of the start model
    are kept, except those that one of these captions has.
    """
    changed = [_runs(tokenize(c)) for r in records if r.changed for c in (*r.captions, *r.reversed_captions)]
    if len(changed) < 1000:
        return [list(run) for run in known if not any(tuple(run) in runs for runs in changed)]
    unchanged = [_runs(tokenize(c)) for r in records if r.changed is False for c in r.captions]
    frequent, rare = (Counter(chain.from_iterable(captions)) for captions in (unchanged, changed))
    shortest: list[tuple[str, ...]] = []
    for run in sorted(frequent, key=lambda run: (len(run), run)):
        means_no_change = frequent[run] * 10 >= len(unchanged) and rare[run] * 1000 < len(changed)
        if means_no_change and _runs(run).isdisjoint(shortest):
            shortest.append(run)
    return [list(run) for run in shortest]


def _runs(words: Sequence[str]) -> set[tuple[str, ...]]:
    """Return all runs of one to three words."""
    return {tuple(words[i : i + n]) for n in (1, 2, 3) for i in range(len(words) - n + 1)}

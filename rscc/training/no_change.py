"""What training learns of unchanged pairs: the flag, and words that only their captions have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain

from rscc.config import Config
from rscc.data.pairs import PairRecord
from rscc.text.rewards import NGram, count_ngrams
from rscc.text.vocabulary import tokenize


def learns_the_flag(config: Config, train: Sequence[PairRecord]) -> bool:
    """Return whether P(anything changed) is learnt: its loss has a weight and there are pairs of both kinds.

    Where it is not, as on data sets in which every pair changed, it must not silence captions.
    """
    return config.loss.get("changed", 0) > 0 and {True, False} <= {record.changed for record in train}


def no_change_prefixes(records: Sequence[PairRecord]) -> list[list[str]]:
    """Find the shortest beginnings that captions of unchanged pairs have and captions of changed ones lack.

    A beginning counts as lacking when fewer than one in a thousand captions of changed pairs has it: the
    captions are by hand, and a few are wrong.
    """
    changed = [tuple(tokenize(c)) for r in records if r.changed for c in r.captions]
    unchanged = {tuple(tokenize(c)) for r in records if r.changed is False for c in r.captions}
    beginnings = Counter(words[:length] for words in changed for length in range(1, len(words) + 1))
    prefixes = set()
    for words in unchanged:
        for length in range(1, len(words) + 1):
            if beginnings[words[:length]] * 1000 < len(changed):
                prefixes.add(words[:length])
                break
    return [list(words) for words in sorted(prefixes)]


def no_change_runs(records: Sequence[PairRecord], known: Sequence[Sequence[str]] = ()) -> list[list[str]]:
    """Find the shortest runs of words, up to three, that speak of no change wherever they stand: "same".

    At least one in ten captions of unchanged pairs has them, and fewer than one in a thousand captions of
    changed ones, said of either order of the dates. A decoder that must not begin like a "no change" caption
    may still get there by a detour ("the road is the same as before"). While it is trained it may say so, and
    is scored for it.

    Fewer than a thousand captions of changed pairs do not tell what such captions lack: then it is those of
    the runs ``known`` before, by the model that a training started from, that none of them has.
    """
    changed = [_runs(c) for r in records if r.changed for c in (*r.captions, *r.reversed_captions)]
    if len(changed) < 1000:
        return [list(run) for run in known if not any(tuple(run) in runs for runs in changed)]
    unchanged = [_runs(c) for r in records if r.changed is False for c in r.captions]
    often, seldom = (Counter(chain.from_iterable(captions)) for captions in (unchanged, changed))
    shortest: list[NGram] = []
    for run in sorted(often, key=lambda run: (len(run), run)):
        speaks = often[run] * 10 >= len(unchanged) and seldom[run] * 1000 < len(changed)
        if speaks and count_ngrams(run).keys().isdisjoint(shortest):
            shortest.append(run)
    return [list(run) for run in shortest]


def _runs(caption: str) -> set[NGram]:
    return {run for run in count_ngrams(tokenize(caption)) if len(run) <= 3}

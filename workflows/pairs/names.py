"""Names of pairs: of letters that are safe in every file system, the same for the same pair each time."""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence

from workflows.addresses import unsigned
from workflows.pairs.rows import Draft

LONGEST = 100
ALLOWED = f"1 to {LONGEST} of A-Z a-z 0-9 . _ -, with no dot in front"
_RIGHT = re.compile(rf"[A-Za-z0-9_-][A-Za-z0-9._-]{{0,{LONGEST - 1}}}")
_OTHER = re.compile(r"[^A-Za-z0-9._-]+")


def is_pair_id(text: str) -> bool:
    """Return whether ``text`` may name a pair, and its folder."""
    return _RIGHT.fullmatch(text) is not None


def pair_id(*parts: str) -> str:
    """Join ``parts`` to a name: other letters become plain ones or ``-``, what is too long is cut."""
    text = "_".join(_plain(part) for part in parts)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 9]}-{_hash(*parts)}"


def made_ids(pairs: Sequence[Draft], taken: Iterable[str] = ()) -> list[str]:
    """Return one name for each of ``pairs``, different from each other and from ``taken`` in any case.

    A pair is named by its site and dates; where these are the same for several or not known, by its site and
    file names. Its name does not depend on the order of the pairs. Two pairs that have everything in common
    get the same name.
    """
    taken = {name.lower() for name in taken}
    names = [""] * len(pairs)
    waiting = list(range(len(pairs)))
    for name_of in (_by_dates, _by_files, _by_hash, _by_places):
        proposed = {number: name_of(pairs[number]) for number in waiting}
        uses = Counter(name.lower() for name in proposed.values())
        for number, name in proposed.items():
            names[number] = name
        waiting = [n for n, name in proposed.items() if uses[name.lower()] > 1 or name.lower() in taken]
        taken |= {name.lower() for name in names if name}
    return names


def _by_dates(pair: Draft) -> str:
    row = pair.row
    if not (row.date_before and row.date_after) or row.site is None:
        return _by_files(pair)
    return pair_id(row.site, row.date_before, row.date_after)


def _by_files(pair: Draft) -> str:
    site = [] if pair.row.site is None else [pair.row.site]
    return pair_id(*site, *dict.fromkeys([_stem(pair.before), _stem(pair.after)]))


def _by_hash(pair: Draft) -> str:
    dates = str(pair.row.date_before), str(pair.row.date_after)
    return pair_id(_by_files(pair)[: LONGEST - 9], _hash(pair.before, pair.after, *dates))


def _by_places(pair: Draft) -> str:
    # Addresses that differ in their query only.
    places = map(unsigned, pair.places or (pair.row.before, pair.row.after))
    return pair_id(_by_files(pair)[: LONGEST - 9], _hash(_by_hash(pair), *places))


def _stem(path: str) -> str:
    return os.path.splitext(os.path.basename(path.rstrip("/")))[0] or "scene"


def _plain(part: str) -> str:
    folded = unicodedata.normalize("NFKD", part).encode("ascii", "ignore").decode()
    # Of a name in another script nothing is left that tells it from the next.
    return _OTHER.sub("-", folded).strip("-.") or _hash(part)


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:8]

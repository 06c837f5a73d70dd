"""Names of pairs: of letters that are safe in every file system, the same for the same pair each time."""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

LONGEST = 100
ALLOWED = f"1 to {LONGEST} of A-Z a-z 0-9 . _ -, with no dot in front"
_RIGHT = re.compile(rf"[A-Za-z0-9_-][A-Za-z0-9._-]{{0,{LONGEST - 1}}}")
_OTHER = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Unnamed:
    """What a pair is named after.

    Attributes:
        before, after: the scenes as they are written, without secrets.
        date_before, date_after, site: as those of a row.
        places: the scenes without what changes when they are signed anew; only a hash of it is ever shown.
    """

    before: str
    after: str
    date_before: str | None
    date_after: str | None
    site: str | None
    places: tuple[str, str] = ("", "")


def is_pair_id(text: str) -> bool:
    """Tell whether ``text`` may name a pair, and its folder."""
    return _RIGHT.fullmatch(text) is not None


def pair_id(*parts: str) -> str:
    """Join ``parts`` to a name: other letters become plain ones or ``-``, what is too long is cut."""
    text = "_".join(_plain(part) for part in parts)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 9]}-{_hash(*parts)}"


def made_ids(pairs: Sequence[Unnamed], taken: Iterable[str] = ()) -> list[str]:
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


def _by_dates(pair: Unnamed) -> str:
    if not (pair.date_before and pair.date_after):
        return _by_files(pair)
    if pair.site is None:
        return _by_files(pair)
    return pair_id(pair.site, pair.date_before, pair.date_after)


def _by_files(pair: Unnamed) -> str:
    stems = [_stem(pair.before), _stem(pair.after)]
    site = [] if pair.site is None else [pair.site]
    return pair_id(*site, *dict.fromkeys(stems))


def _by_hash(pair: Unnamed) -> str:
    return pair_id(
        _by_files(pair)[: LONGEST - 9],
        _hash(pair.before, pair.after, str(pair.date_before), str(pair.date_after)),
    )


def _by_places(pair: Unnamed) -> str:
    # Addresses that differ in their query only.
    return pair_id(_by_files(pair)[: LONGEST - 9], _hash(_by_hash(pair), *pair.places))


def _stem(path: str) -> str:
    return os.path.splitext(os.path.basename(path.rstrip("/")))[0] or "scene"


def _plain(part: str) -> str:
    folded = unicodedata.normalize("NFKD", part).encode("ascii", "ignore").decode()
    # Of a name in another script nothing is left that tells it from the next.
    return _OTHER.sub("-", folded).strip("-.") or _hash(part)


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:8]

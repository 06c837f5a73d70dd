"""Names of pairs: safe in every file system, and the same for the same pair each time."""

import hashlib
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence

from workflows.addresses import unsigned
from workflows.pairs.rows import UnnamedPair

MAX_LENGTH = 100
ALLOWED = f"1 to {MAX_LENGTH} of A-Z a-z 0-9 . _ -, no dot at either end, not a Windows device such as con"
# Windows opens a device where a file has such a name, with any ending.
_DEVICE = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
_ALLOWED = re.compile(rf"[A-Za-z0-9_-][A-Za-z0-9._-]{{0,{MAX_LENGTH - 1}}}")
_FORBIDDEN = re.compile(r"[^A-Za-z0-9._-]+")


def is_pair_id(text: str) -> bool:
    """Return whether ``text`` can name a pair, and its folder."""
    is_device = _DEVICE.fullmatch(text) is not None
    return _ALLOWED.fullmatch(text) is not None and not text.endswith(".") and not is_device


def pair_id(*parts: str) -> str:
    """Join ``parts`` to a name: other letters become ASCII or ``-``, and long names are cut."""
    text = "_".join(_to_ascii(part) for part in parts)
    text = f"_{text}" if _DEVICE.fullmatch(text) else text
    return text if len(text) <= MAX_LENGTH else f"{text[: MAX_LENGTH - 9]}-{_hash(*parts)}"


def made_ids(pairs: Sequence[UnnamedPair], taken: Iterable[str] = ()) -> list[str]:
    """Return a name for each of ``pairs``, different from each other and from ``taken`` in any case.

    A pair is named after its site and dates; if these are unknown or not unique, after its site and file
    names. Names do not depend on the order of the pairs. Two pairs that differ in nothing get the same name.
    """
    taken = {name.lower() for name in taken}
    names = [""] * len(pairs)
    waiting = list(range(len(pairs)))
    for name_of in (_by_dates, _by_files, _by_hash, _by_addresses):
        proposed = {number: name_of(pairs[number]) for number in waiting}
        uses = Counter(name.lower() for name in proposed.values())
        for number, name in proposed.items():
            names[number] = name
        waiting = [n for n, name in proposed.items() if uses[name.lower()] > 1 or name.lower() in taken]
        taken |= {name.lower() for name in names if name}
    return names


def _by_dates(pair: UnnamedPair) -> str:
    row = pair.row
    if not (row.date_before and row.date_after) or row.site is None:
        return _by_files(pair)
    return pair_id(row.site, row.date_before, row.date_after)


def _by_files(pair: UnnamedPair) -> str:
    site = [] if pair.row.site is None else [pair.row.site]
    return pair_id(*site, *dict.fromkeys([_stem(pair.before), _stem(pair.after)]))


def _by_hash(pair: UnnamedPair) -> str:
    dates = str(pair.row.date_before), str(pair.row.date_after)
    return pair_id(_by_files(pair)[: MAX_LENGTH - 9], _hash(pair.before, pair.after, *dates))


def _by_addresses(pair: UnnamedPair) -> str:
    """Name pairs apart whose addresses differ only in their query."""
    addresses = map(unsigned, pair.addresses or (pair.row.before, pair.row.after))
    return pair_id(_by_files(pair)[: MAX_LENGTH - 9], _hash(_by_hash(pair), *addresses))


def _stem(path: str) -> str:
    return os.path.splitext(os.path.basename(path.rstrip("/")))[0] or "scene"


def _to_ascii(part: str) -> str:
    folded = unicodedata.normalize("NFKD", part).encode("ascii", "ignore").decode()
    # Nothing is left of a name in a non-Latin script: its hash keeps it unique.
    return _FORBIDDEN.sub("-", folded).strip("-.") or _hash(part)


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:8]

"""Why pairs failed, in a few lines: failures that say the same but for names and numbers are one reason."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePath

from workflows.store.ledger_rows import LedgerRow

# Ids that a reason names.
SHOWN = 5
FILE = "FILE"
_PLACE = re.compile(r"(?:\b[A-Za-z][A-Za-z0-9+.-]+:/)?(?<![\w.])/[^\s:;,'\"()]*[^\s:;,'\"().]")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


@dataclass(frozen=True)
class Reason:
    """One reason and the pairs that failed for it.

    Attributes:
        kind: ``refused``, ``failed`` or ``crashed``.
        error: the class of the errors.
        line: what the first of them said, with FILE in place of names of files.
        count: how many pairs failed so.
        pairs: ids of the first of them.
    """

    kind: str
    error: str
    line: str
    count: int
    pairs: tuple[str, ...]


def grouped(rows: Iterable[LedgerRow]) -> list[Reason]:
    """Return the reasons that failed pairs give, the most frequent first; other rows are passed over."""
    reasons: dict[tuple[str, str, str], Reason] = {}
    for row in rows:
        if row.state != "failed":
            continue
        kind, error, line = row.kind or "failed", row.error or "", without_names(row)
        key = (kind, error, _NUMBER.sub("0", line))
        earlier = reasons.get(key) or Reason(kind, error, line, 0, ())
        pairs = (*earlier.pairs, row.pair)[:SHOWN]
        reasons[key] = Reason(kind, error, earlier.line, earlier.count + 1, pairs)
    return sorted(reasons.values(), key=lambda reason: -reason.count)


def without_names(row: LedgerRow) -> str:
    """Return the line of a failure with FILE in place of the names of its scenes and other paths."""
    line = row.line or ""
    for scene in (row.before, row.after):
        name = PurePath(scene).name
        for text in (scene, name) if name else (scene,):
            line = line.replace(text, FILE)
    return _PLACE.sub(FILE, line)

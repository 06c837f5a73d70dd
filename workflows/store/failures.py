"""Why pairs failed, and what they warn of, in a few lines: what is alike but for names and numbers is one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePath

from workflows.store.ledger_rows import DONE, FAILED, LedgerRow

# Ids that a reason names.
SHOWN = 5
FILE = "FILE"
_PLACE = re.compile(r"(?:\b[A-Za-z][A-Za-z0-9+.-]+:/)?(?<![\w.])/[^\s:;,'\"()]*[^\s:;,'\"().]")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


@dataclass(frozen=True)
class Reason:
    """One reason and the pairs that give it.

    Attributes:
        kind: ``refused``, ``failed`` or ``crashed``, or ``warned`` of a pair that is done.
        error: the class of the errors; empty of a warning.
        line: what the first of them said, with FILE in place of names of files.
        count: how many pairs say so.
        pairs: ids of the first of them.
    """

    kind: str
    error: str
    line: str
    count: int
    pairs: tuple[str, ...]


def grouped(rows: Iterable[LedgerRow]) -> list[Reason]:
    """Return the reasons that failed pairs give, the most frequent first; other rows are passed over."""
    return _grouped(
        (row, row.kind or "failed", row.error or "", row.line or "") for row in rows if row.state == FAILED
    )


def grouped_warnings(rows: Iterable[LedgerRow]) -> list[Reason]:
    """Return what pairs that are done warn of, the most frequent first; other rows are passed over.

    What a pair says of both its scenes counts once.
    """
    done = (row for row in rows if row.state == DONE)
    told = (
        (row, {_NUMBER.sub("0", without_names(row, line)): line for line in row.warnings}) for row in done
    )
    return _grouped((row, "warned", "", line) for row, lines in told for line in lines.values())


def _grouped(told: Iterable[tuple[LedgerRow, str, str, str]]) -> list[Reason]:
    """Group what pairs say, each with its kind, its error and its line."""
    reasons: dict[tuple[str, str, str], Reason] = {}
    for row, kind, error, said in told:
        line = without_names(row, said)
        key = (kind, error, _NUMBER.sub("0", line))
        earlier = reasons.get(key) or Reason(kind, error, line, 0, ())
        pairs = (*earlier.pairs, row.pair)[:SHOWN]
        reasons[key] = Reason(kind, error, earlier.line, earlier.count + 1, pairs)
    return sorted(reasons.values(), key=lambda reason: -reason.count)


def without_names(row: LedgerRow, line: str) -> str:
    """Return what a pair says with FILE in place of the names of its scenes and other paths."""
    for scene in (row.before, row.after):
        name = PurePath(scene).name
        for text in (scene, name) if name else (scene,):
            line = line.replace(text, FILE)
    return _PLACE.sub(FILE, line)

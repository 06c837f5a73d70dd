"""Why pairs failed and what they warn of, grouped: messages that differ only in names and numbers are one."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePath

from workflows.archive.index import DONE, FAILED, PairState

# Ids that a reason names.
SHOWN = 5
FILE = "FILE"
_PATH = re.compile(r"(?:\b[A-Za-z][A-Za-z0-9+.-]+:/)?(?<![\w.])/[^\s:;,'\"()]*[^\s:;,'\"().]")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


@dataclass(frozen=True)
class Reason:
    """One reason and the pairs that have it.

    Attributes:
        kind: ``refused``, ``failed`` or ``crashed``; ``warned`` for a warning of a pair that is done.
        line: message of the first pair, with FILE in place of names of files.
        pairs: ids of the first of them.
    """

    kind: str
    error: str
    line: str
    count: int
    pairs: tuple[str, ...]


def failure_reasons(rows: Iterable[PairState]) -> list[Reason]:
    """Return the reasons of failed pairs, the most frequent first; other rows are ignored."""
    return _grouped(
        (row, row.kind or "failed", row.error or "", row.line or "") for row in rows if row.state == FAILED
    )


def warning_reasons(rows: Iterable[PairState]) -> list[Reason]:
    """Return the warnings of pairs that are done, the most frequent first; other rows are ignored.

    A warning about both scenes of a pair counts once.
    """
    return _grouped(
        (row, "warned", "", line)
        for row in rows
        if row.state == DONE
        for line in {_NUMBER.sub("0", without_names(row, line)): line for line in row.warnings}.values()
    )


def without_names(row: PairState, line: str) -> str:
    """Return a message of a pair with FILE in place of its scenes and other paths."""
    for scene in (row.before, row.after):
        for text in (scene, PurePath(scene).name):
            line = line.replace(text, FILE) if text else line
    return _PATH.sub(FILE, line)


def _grouped(messages: Iterable[tuple[PairState, str, str, str]]) -> list[Reason]:
    """Group messages, each with its pair, kind and error."""
    reasons: dict[tuple[str, str, str], Reason] = {}
    for row, kind, error, message in messages:
        line = without_names(row, message)
        key = (kind, error, _NUMBER.sub("0", line))
        earlier = reasons.get(key) or Reason(kind, error, line, 0, ())
        pairs = (*earlier.pairs, row.pair)[:SHOWN]
        reasons[key] = Reason(kind, error, earlier.line, earlier.count + 1, pairs)
    return sorted(reasons.values(), key=lambda reason: -reason.count)

"""Values that a ledger gives: SQLite keeps any value in any column, so each is checked when it is read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rscc.files import parsed_json
from workflows.store.ledger_file import damaged

# Seconds since 1970, square metres, bytes: none is larger.
_LARGEST = 2.0**63
Kind = type | tuple[type, ...]
_NONE = type(None)
# What stands for annotations of the rows.
KINDS: dict[str, Kind] = {
    "str": str,
    "str | None": (str, _NONE),
    "bytes | None": (bytes, _NONE),
    "int": int,
    "int | None": (int, _NONE),
    "float": (float, int),
    "float | None": (float, int, _NONE),
    "tuple[str, ...]": str,
}


def checked(path: Path, kinds: Sequence[Kind], rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Yield the rows whose values are of the given kinds, one for each column; numbers are finite.

    Raises:
        LedgerForeign: a value is of another kind: the ledger at ``path`` is damaged.
    """
    for row in rows:
        for value, kind in zip(row, kinds, strict=True):
            if not isinstance(value, kind) or (isinstance(value, float) and not -_LARGEST < value < _LARGEST):
                raise damaged(path, f"it has {str(value)[:40]!r} where that cannot be")
        yield row


def texts(path: Path, value: str) -> tuple[str, ...]:
    """Return the texts of a list that was kept as JSON.

    Raises:
        LedgerForeign: it is none.
    """
    if value == "[]":
        return ()
    try:
        parsed = parsed_json(value)
    except ValueError:
        parsed = None
    if not isinstance(parsed, list) or not all(isinstance(one, str) for one in parsed):
        raise damaged(path, f"it has {value[:40]!r} where a list of texts should be")
    return tuple(parsed)


def as_json(value: Iterable[str]) -> str:
    """Return what :func:`texts` was given."""
    return json.dumps(list(value), ensure_ascii=False)

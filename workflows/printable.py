"""Escapes control characters of texts from files: they must not steer a terminal or forge a line."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def printable(text: str | Path) -> str:
    """Return a text with control and invisible characters escaped."""
    text = str(text)
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text
    )


def printable_lines(lines: Iterable[str]) -> str:
    """Return lines as one text; none of them can break into two."""
    return "\n".join(map(printable, lines))


def printable_json(value: Any) -> str:
    """Return JSON on one line, in letters of every script, with control characters escaped."""
    text = json.dumps(value, ensure_ascii=False)
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in text)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 pair``, ``2,000 pairs``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"

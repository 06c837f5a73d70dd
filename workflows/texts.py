"""Texts of other people on their way to a terminal: nothing in them may steer it, or forge a line."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def shown(text: str | Path) -> str:
    """Return a text in which characters that a terminal obeys, or does not show, are written out."""
    text = str(text)
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text
    )


def counted(number: int, noun: str) -> str:
    """Return a number and what it counts: ``1 pair``, ``2,000 pairs``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def shown_lines(lines: Iterable[str]) -> str:
    """Return lines as one text; none of them can break into two, or steer the terminal."""
    return "\n".join(map(shown, lines))


def shown_json(value: Any) -> str:
    """Return JSON on one line, with letters of every script but nothing that steers a terminal."""
    text = json.dumps(value, ensure_ascii=False)
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in text)

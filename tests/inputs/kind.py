"""Rows of the table of input kinds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ground import Ground
from scenes import Date

# Frozen, so it may be the default of many rows.
PLAIN = Date()
EUROPE = Ground(15.4, 50.5)
ANY = "any file"
# Rows and columns of a date that covers all that the other one shows.
LARGE = (230, 280)


def both(**fields: Any) -> dict[str, Date]:
    """The same options for both dates."""
    return {"before": Date(**fields), "after": Date(**fields)}


@dataclass(frozen=True)
class Kind:
    """Two dates of one ground, and what the command makes of them.

    Attributes:
        name: of the row, unique.
        before, after: how they are written.
        ground: where.
        options: further words of the command line.
        warns: the file that each warning names, in order.
        refused: how the file is called that the error names, ANY where it names none; "": no error.
        code: exit code of a refusal.
        opened: how the files are named on the command line, see :func:`opening.named`.
        spoilt: what is done to the file of the scene after before the command runs.
        misplaced: metres east and north by which the file of the scene after is wrong about its place.
    """

    name: str
    before: Date = PLAIN
    after: Date = PLAIN
    ground: Ground = EUROPE
    options: tuple[str, ...] = ()
    warns: tuple[str, ...] = ()
    refused: str = ""
    code: int = 2
    opened: tuple[str, str] = ("path", "path")
    spoilt: Callable[[Path], Path] | None = None
    misplaced: tuple[float, float] = (0.0, 0.0)

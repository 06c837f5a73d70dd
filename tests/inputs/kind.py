"""What a row of the table of input kinds is."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ground import Ground
from scenes import Date

# Frozen, so it may be the default of many rows.
PLAIN = Date()
EUROPE = Ground(15.4, 50.5)
ANY = "…"
# Rows and columns of a date that covers all that the other one shows.
LARGE = (230, 280)


def both(**fields: Any) -> dict[str, Date]:
    """Both dates alike."""
    return {"before": Date(**fields), "after": Date(**fields)}


@dataclass(frozen=True)
class Kind:
    """Two dates of one ground, and what the command makes of them.

    Attributes:
        name: of the row, unique.
        built: what the two files are, in words.
        before, after: how they are written.
        ground: where.
        options: further words of the command line.
        warns: each warning that is shown, in order; "…" stands for any text.
        refused: the line after ``rscc: error: `` when the pair is refused, else "".
        code: exit code of a refusal.
        opened: how the files are named on the command line, see :func:`opening.named`.
        spoilt: what is done to the file of the scene after before the command runs.
        misplaced: metres east and north by which the file of the scene after is wrong about its place.
    """

    name: str
    built: str
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

    @property
    def result(self) -> str:
        """What the test of the row asserts, in words."""
        if self.refused:
            return f"refused with exit code {self.code}: `{self.refused}`"
        warnings = " ".join(f"Warns: `{text}`." for text in self.warns)
        return f"the change comes back. {warnings or 'No warning.'}"


def fits(pattern: str, line: str) -> bool:
    """Tell whether a line is the pattern, in which "…" stands for any text."""
    return re.fullmatch(".*".join(re.escape(part) for part in pattern.split(ANY)), line) is not None

"""Pairs of which a table says what they show, without a sentence; their images lie in ``A/`` and ``B/``.

Its columns are ``file``; ``left``, ``top`` and ``side``, a square of the stored images in pixels, or nothing
for all of them; and ``came``, ``gone`` and ``named``: what is new, what was taken away, and what is to be
named at all. These are classes of :data:`~rscc.text.object_classes.OBJECT_CLASSES` with semicolons between,
and none where nothing changed. A pair that several people looked at has a row of each.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rscc.data.pairs import PairRecord, file_name
from rscc.data.single_dates import read_rows
from rscc.errors import DatasetLayoutInvalid
from rscc.text.object_classes import OBJECT_CLASSES

LABELS = "labels.csv"
"""The table, where it lies beside its images."""


@dataclass(frozen=True)
class Reading:
    """The object classes that came, are gone, and are named at all, the first two among them."""

    came: frozenset[str]
    gone: frozenset[str]
    named: frozenset[str]


@dataclass(frozen=True)
class LabelledPair:
    """A pair and what each of those who looked at it says; it changed where one of them says so."""

    record: PairRecord
    readings: tuple[Reading, ...]


def read_labelled(folder: Path, table: Path | None = None) -> list[LabelledPair]:
    """Read a table of labels; no image is read yet.

    Args:
        folder: holds the images, in ``A/`` and ``B/``.
        table: None: :data:`LABELS` in the folder.

    Raises:
        DatasetLayoutInvalid: there is no table, it lacks a column, a square is none, or a class is unknown.
    """
    table = folder / LABELS if table is None else table
    if not table.is_file():
        raise DatasetLayoutInvalid(
            f"{table}: is not there; give the folder that holds it, or name it by --labels"
        )
    readings: dict[tuple[str, tuple[int, int, int] | None], list[Reading]] = {}
    for line, row in enumerate(read_rows(table), 2):
        try:
            name, window = file_name(row["file"]), _window(row)
            came, gone, named = (_classes(row[column]) for column in ("came", "gone", "named"))
        except KeyError as error:
            raise DatasetLayoutInvalid(f"{table}: has no column {error}") from error
        except ValueError as error:
            raise DatasetLayoutInvalid(f"{table}, line {line}: {error}") from error
        readings.setdefault((name, window), []).append(Reading(came, gone, named | came | gone))
    return [
        LabelledPair(
            PairRecord(
                id=name,
                before=folder / "A" / name,
                after=folder / "B" / name,
                changed=any(one.named for one in several),
                window=window,
            ),
            tuple(several),
        )
        for (name, window), several in readings.items()
    ]


def _window(row: dict[str, str]) -> tuple[int, int, int] | None:
    if not any(row[column] for column in ("left", "top", "side")):
        return None
    left, top, side = (int(row[column]) for column in ("left", "top", "side"))
    if min(left, top) < 0 or side < 1:
        raise ValueError(f"left {left}, top {top} and side {side} are no square")
    return left, top, side


def _classes(text: str) -> frozenset[str]:
    names = frozenset(name.strip() for name in text.split(";")) - {""}
    if unknown := sorted(names - OBJECT_CLASSES.keys()):
        raise ValueError(f"{unknown[0]!r} is no object class; they are {', '.join(OBJECT_CLASSES)}")
    return names

"""Pairs whose changes a table lists, without a sentence; their images lie in ``A/`` and ``B/``.

The columns are ``file``; ``left``, ``top`` and ``side``, a square of the stored images in pixels, or nothing
for all of them; and ``came``, ``gone`` and ``named``: what is new, what was removed, and everything worth
naming. These are classes of :data:`~rscc.text.object_classes.OBJECT_CLASSES` separated by semicolons, none if
nothing changed. A pair that several people read has one row per reader.
"""

from dataclasses import dataclass
from pathlib import Path

from rscc.data.pairs import PairRecord, file_name
from rscc.data.single_dates import converted_rows
from rscc.errors import DatasetLayoutInvalid
from rscc.text.object_classes import OBJECT_CLASSES

LABELS = "labels.csv"
"""Name of a table that lies beside its images."""

Window = tuple[int, int, int]


@dataclass(frozen=True)
class Reading:
    """The object classes that came, are gone, and are named at all, which includes the first two."""

    came: frozenset[str]
    gone: frozenset[str]
    named: frozenset[str]


@dataclass(frozen=True)
class LabelledPair:
    """A pair and the reading of each of its readers; it changed if one of them names anything."""

    record: PairRecord
    readings: tuple[Reading, ...]


def read_labelled(folder: Path, table: Path | None = None) -> list[LabelledPair]:
    """Read a table of labels, by default :data:`LABELS` in the folder; images are read later.

    Raises:
        DatasetLayoutInvalid: no table, a missing column, an invalid square, or an unknown class.
    """
    table = folder / LABELS if table is None else table
    if not table.is_file():
        raise DatasetLayoutInvalid(f"{table}: no such file; give its folder, or name the table with --labels")
    readings: dict[tuple[str, Window | None], list[Reading]] = {}
    for place, reading in converted_rows(table, _reading):
        readings.setdefault(place, []).append(reading)
    pairs = []
    for (name, window), several in readings.items():
        changed = any(reading.named for reading in several)
        before, after = folder / "A" / name, folder / "B" / name
        record = PairRecord(id=name, before=before, after=after, changed=changed, window=window)
        pairs.append(LabelledPair(record, tuple(several)))
    return pairs


def _reading(row: dict[str, str]) -> tuple[tuple[str, Window | None], Reading]:
    """Return file and square of a pair, and what a reader says of it."""
    place = file_name(row["file"]), _window(row)
    came, gone, named = (_classes(row[column]) for column in ("came", "gone", "named"))
    return place, Reading(came, gone, named | came | gone)


def _window(row: dict[str, str]) -> Window | None:
    values = [row[column] for column in ("left", "top", "side")]
    if not any(values):
        return None
    left, top, side = map(int, values)
    if min(left, top) < 0 or side < 1:
        raise ValueError(f"left {left}, top {top} and side {side} are no square")
    return left, top, side


def _classes(text: str) -> frozenset[str]:
    names = frozenset(name.strip() for name in text.split(";")) - {""}
    if unknown := sorted(names - OBJECT_CLASSES.keys()):
        raise ValueError(f"{unknown[0]!r} is no object class; they are {', '.join(OBJECT_CLASSES)}")
    return names

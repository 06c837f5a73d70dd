"""Rows of a table of pairs, before and after they are checked."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from shapely.geometry import MultiPolygon, Polygon


@dataclass(frozen=True)
class PairRow:
    """One pair of scenes.

    Attributes:
        pair: name of the pair and of its folder in the archive: 1 to 100 of ``A-Z a-z 0-9 . _ -`` without a
            leading dot, unique in its table regardless of case.
        before, after: the scenes: absolute paths, or addresses that :func:`tiling.location.locate` accepts.
        date_before, date_after: ISO dates (year, month or day); None: from tags or file names.
        cloud_before, cloud_after: cloud cover in percent.
        changes: file with changes that are described instead of searched, an absolute path, perhaps with
            ``|layername=LAYER`` behind it.
        footprint: the common ground in degrees of WGS84, cut at 180 degrees.
    """

    pair: str
    before: str
    after: str
    date_before: str | None = None
    date_after: str | None = None
    site: str | None = None
    cloud_before: float | None = None
    cloud_after: float | None = None
    changes: str | None = None
    footprint: Polygon | MultiPolygon | None = None


COLUMNS = tuple(field.name for field in fields(PairRow))


def columns_of(rows: Iterable[PairRow]) -> list[str]:
    """Return the columns of a table; of those that few tables have the ones that hold a value."""
    needed = {name for row in rows for name in _SELDOM if getattr(row, name) is not None}
    return [name for name in COLUMNS if name not in _SELDOM or name in needed]


_SELDOM = ("changes", "footprint")


@dataclass(frozen=True)
class UnnamedPair:
    """A pair before it gets its name.

    Attributes:
        row: the pair, ``pair`` empty.
        before, after: names of its scenes, without secrets.
        addresses: the scenes as written in a table, if other than in ``row``; only their hash is shown.
    """

    row: PairRow
    before: str
    after: str
    addresses: tuple[str, str] | None = None


@dataclass(frozen=True)
class RawTable:
    """A table before its rows are checked.

    Attributes:
        columns: names of all columns of the file.
        rows: (place in the file, such as "line 7"; texts by known column, missing or empty without a value).
        footprints: geometry of each row, of any kind, or None.
    """

    columns: Sequence[str]
    rows: Sequence[tuple[str, Mapping[str, str]]]
    footprints: Sequence[Any]

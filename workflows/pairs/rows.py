"""The rows of a table of pairs, before and after they are checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shapely.geometry import MultiPolygon, Polygon


@dataclass(frozen=True)
class PairRow:
    """One pair of scenes.

    Attributes:
        pair: its name, which is that of its folder in the archive: 1 to 100 of ``A-Z a-z 0-9 . _ -`` with no
            dot in front, in one table unique without regard to case.
        before, after: the scenes: absolute paths, or addresses as :func:`tiling.location.locate` takes them.
        date_before, date_after: ISO dates (year, month or day); None leaves them to tags and file names.
        site: the place that the pair belongs to.
        cloud_before, cloud_after: cloud cover in percent.
        footprint: the common ground in degrees of WGS84, cut where it crosses 180 degrees.
    """

    pair: str
    before: str
    after: str
    date_before: str | None = None
    date_after: str | None = None
    site: str | None = None
    cloud_before: float | None = None
    cloud_after: float | None = None
    footprint: Polygon | MultiPolygon | None = None


COLUMNS = tuple(field.name for field in fields(PairRow))


@dataclass(frozen=True)
class Draft:
    """A pair without a name.

    Attributes:
        row: the pair.
        before, after: what its scenes are called, without secrets.
        places: the scenes as the pair is known by, when not as ``row`` has them; only a hash is ever shown.
    """

    row: PairRow
    before: str
    after: str
    places: tuple[str, str] | None = None


@dataclass(frozen=True)
class RawTable:
    """A table before its rows are checked.

    Attributes:
        columns: names of all columns of the file.
        rows: (where the row is, such as "line 7"; text by known column, absent or empty where there is none).
        footprints: of each row, geometries of any kind.
        outlines_unused: whether there is a column ``footprint`` that is not where they are from.
    """

    columns: Sequence[str]
    rows: Sequence[tuple[str, Mapping[str, str]]]
    footprints: Sequence[Any]
    outlines_unused: bool = False

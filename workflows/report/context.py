"""Layers of areas that people know, such as parcels or reserves: which of them an outline overlaps."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import shapely
from shapely.geometry import MultiPolygon, Polygon

from tiling import mended
from workflows.errors import ContextInvalid
from workflows.polygon_files import PolygonFiles
from workflows.printable import printable
from workflows.report.change import Change
from workflows.report.geojson import CRS

INSIDE = 0.9
"""Share of an outline in one named area from which it lies inside that area."""
LEAST = 0.001
"""Smaller shares of an outline are slivers along a border."""
_FILES = PolygonFiles(ContextInvalid, 1_000_000)


@dataclass(frozen=True)
class Overlap:
    """An area that an outline overlaps.

    Attributes:
        layer: name of the layer, its file without suffix.
        id: value of the chosen column, as text.
        name: value of a column ``name``; None without one.
        share: share of the outline that lies in it, 0..1.
    """

    layer: str
    id: str
    name: str | None
    share: float

    @property
    def words(self) -> str:
        """The overlap as one text, by which reports can be filtered: ``parcels P-12 (83 %)``."""
        return f"{self.layer} {self.id}{f' {self.name}' if self.name else ''} ({100 * self.share:.0f} %)"


class ContextLayers:
    """The areas of all layers of ``--context``, each given as ``FILE:COLUMN``; false without any.

    Raises:
        ContextInvalid: one is no such file, has no such column, or holds no areas.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        # The number of its layer, its layer, id and name, of each area.
        self._about: list[tuple[int, str, str, str | None]] = []
        shapes: list[Any] = []
        for number, text in enumerate(texts):
            path, _, column = text.rpartition(":")
            if not path or not column:
                raise ContextInvalid(
                    f"context is {printable(text)}; it must be FILE:COLUMN, such as parcels.gpkg:permit_id"
                )
            frame, _ = _FILES.read(path)
            columns = {str(name).lower(): name for name in frame.columns if name != frame.geometry.name}
            if column.lower() not in columns:
                there = printable(", ".join(columns))
                raise ContextInvalid(f"{printable(path)}: no column {printable(column)}; it has {there}")
            frame = frame[frame.geometry.notna()].to_crs(CRS)
            with _FILES.one_line(printable(path)):
                frame = frame.set_geometry([mended(area) for area in frame.geometry.values])
            frame = frame[shapely.get_dimensions(frame.geometry.values) == 2]
            if frame.empty:
                raise ContextInvalid(f"{printable(path)}: it holds no polygons; give a layer of areas")
            shapes += frame.geometry.tolist()
            ids = [_text(value) for value in frame[columns[column.lower()]]]
            names = [_text(value) or None for value in frame[columns["name"]]] if "name" in columns else []
            for one, name in zip_longest(ids, names):
                self._about.append((number, Path(path).stem, one, name))
        self._tree = shapely.STRtree(shapes)

    def __bool__(self) -> bool:
        return bool(self._about)

    def overlaps(self, outline: Polygon | MultiPolygon) -> tuple[Overlap, ...]:
        """Return the areas that an outline in degrees overlaps, by layer, the largest share first."""
        found = []
        for place in self._tree.query(outline, predicate="intersects").tolist():
            # Shares are those of degrees: over one outline the scale is the same.
            common = self._tree.geometries[place].intersection(outline).area
            share = common / outline.area if outline.area else 0.0
            if share >= LEAST:
                number, layer, one, name = self._about[place]
                found.append((number, Overlap(layer, one, name, round(share, 4))))
        found.sort(key=lambda one: (one[0], -one[1].share, one[1].id))
        return tuple(overlap for _, overlap in found)


def with_context(changes: Sequence[Change], layers: ContextLayers) -> list[Change]:
    """Return changes with the areas that they overlap; the sentence of one inside a named area says so."""
    named = []
    for change in changes:
        found = layers.overlaps(change.geometry)
        inside = inside_of(found)
        caption = f"{change.caption} inside {inside}" if inside else change.caption
        named.append(replace(change, caption=caption, context=tuple(one.words for one in found)))
    return named


def inside_of(overlaps: Sequence[Overlap]) -> str:
    """Return the name of the area that holds an outline; empty without one."""
    return next((one.name for one in overlaps if one.name and one.share >= INSIDE), "")


def _text(value: Any) -> str:
    if value is None or value != value:  # not a number stands for a missing value
        return ""
    return printable(str(int(value)) if isinstance(value, float) and value.is_integer() else str(value))

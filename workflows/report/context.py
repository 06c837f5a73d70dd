"""Layers of areas that people know, such as parcels or reserves: which of them an outline overlaps."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import shapely
from shapely.geometry import MultiPolygon, Polygon

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
        return f"{self.layer} {self.id}{f' {self.name}' if self.name else ''} ({self.share:.0%})".replace(
            "%", " %"
        )


class ContextLayer:
    """One layer, given as ``FILE:COLUMN``.

    Raises:
        ContextInvalid: it is no such file, has no such column, or holds no areas.
    """

    def __init__(self, text: str) -> None:
        path, _, column = text.rpartition(":")
        if not path or not column:
            raise ContextInvalid(
                f"context is {printable(text)}; it must be FILE:COLUMN, such as parcels.gpkg:permit_id"
            )
        self.path = Path(path)
        frame, _ = _FILES.read(path)
        columns = {str(name).lower(): name for name in frame.columns if name != frame.geometry.name}
        if column.lower() not in columns:
            there = printable(", ".join(columns))
            raise ContextInvalid(f"{printable(self.path)}: no column {printable(column)}; it has {there}")
        frame = frame[frame.geometry.notna()]
        self._shapes = shapely.make_valid(np.asarray(frame.geometry.to_crs(CRS).values, dtype=object))
        areal = shapely.get_dimensions(self._shapes) == 2
        if not areal.any():
            raise ContextInvalid(f"{printable(self.path)}: it holds no polygons; give a layer of areas")
        self._shapes, frame = self._shapes[areal], frame[areal]
        self._ids = [_text(value) for value in frame[columns[column.lower()]]]
        names = columns.get("name")
        self._names = (
            [None] * len(frame) if names is None else [_text(value) or None for value in frame[names]]
        )
        self._tree = shapely.STRtree(self._shapes)

    def overlaps(self, outline: Polygon | MultiPolygon) -> list[Overlap]:
        """Return the areas that an outline in degrees overlaps, the largest share first."""
        whole = outline.area
        found = []
        for number in self._tree.query(outline, predicate="intersects").tolist():
            # Shares are those of degrees: over one outline the scale is the same.
            share = self._shapes[number].intersection(outline).area / whole if whole else 0.0
            if share >= LEAST:
                found.append(Overlap(self.path.stem, self._ids[number], self._names[number], round(share, 4)))
        return sorted(found, key=lambda one: (-one.share, one.id))


def read_layers(texts: Sequence[str]) -> list[ContextLayer]:
    """Return the layers of ``--context``; raises ContextInvalid."""
    return [ContextLayer(text) for text in texts]


def overlaps_of(layers: Sequence[ContextLayer], outline: Polygon | MultiPolygon) -> tuple[Overlap, ...]:
    """Return the areas of all layers that an outline overlaps."""
    return tuple(overlap for layer in layers for overlap in layer.overlaps(outline))


def with_context(changes: Sequence[Change], layers: Sequence[ContextLayer]) -> list[Change]:
    """Return changes with the areas that they overlap; the sentence of one inside a named area says so."""
    named = []
    for change in changes:
        found = overlaps_of(layers, change.geometry)
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

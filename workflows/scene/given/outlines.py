"""Outlines that were given, before anything is known about them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shapely.geometry import MultiPolygon, Polygon

PlainValue = str | int | float | bool | None


@dataclass(frozen=True)
class GivenOutline:
    """One feature of a layer of changes.

    Attributes:
        geometry: its valid outline in WGS84 longitude and latitude, degrees, as the report has it.
        source_id: its id in its own layer; None without one.
        attributes: its other columns, by names that no attribute of a report has.
    """

    geometry: Polygon | MultiPolygon
    source_id: str | None = None
    attributes: Mapping[str, PlainValue] = field(default_factory=dict)


@dataclass(frozen=True)
class Given:
    """What a report says of a given outline besides what it says of any change.

    Attributes:
        source_id, attributes: see :class:`GivenOutline`.
        supported: share, 0..1, of its judged pixels that reach the report's threshold of change probability;
            None where it is not judged.
        not_judged: why there are no facts, see :mod:`workflows.scene.given.judge`; None where it is judged.
        cut: whether a part of it lies outside of the scenes, or has no data.
    """

    source_id: str | None
    attributes: Mapping[str, Any]
    supported: float | None = None
    not_judged: str | None = None
    cut: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return the attributes of a change that it gives."""
        names = ("source_id", "attributes", "supported", "not_judged")
        return {name: getattr(self, name) for name in names}

"""Data of a monitor: the series of a place, and the events that a finder finds in it.

A finder is a pure function of a whole series, so that the order in which scenes arrive cannot matter. Ids,
states, dates and words of events are derived from what it returns, see :mod:`workflows.monitor.history`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from workflows.dates import PartialDate

if TYPE_CHECKING:
    from shapely.geometry import MultiPolygon

    from tiling import SceneInfo

Direction = Literal["appeared", "disappeared", "changed"]
Visibility = Literal["seen", "absent", "hidden"]
Kind = Literal[
    "building", "road", "trees", "vegetation", "bare_ground", "built_up", "water", "other_object", "changed"
]
"""What appeared or disappeared; ``changed`` where the evidence does not tell."""
KINDS: tuple[str, ...] = get_args(Kind)
Pair = tuple[int, int]
"""Two scenes of a series by their numbers, the earlier first."""


@dataclass(frozen=True)
class SeriesScene:
    """One dated scene of a series.

    Attributes:
        name: name in messages and outputs, unique in its series.
        date: its date, as precise as is known.
        key: hexadecimal digest of the scene's content and reading options; names files kept for it.
    """

    name: str
    info: SceneInfo
    date: PartialDate
    key: str


@dataclass(frozen=True)
class Series:
    """The dated scenes of one place.

    Attributes:
        folder: where a finder may keep maps of single scenes, named by :attr:`SeriesScene.key`; it exists.
            They grow linearly with the scenes, and are made again when lost.
        scenes: in order of date, then of name.
        archived: folders with maps of pairs that an archive has, by :func:`map_key`. Two scenes of these
            pairs are compared only where the archive compared them.
    """

    place: str
    folder: Path
    scenes: tuple[SeriesScene, ...]
    archived: Mapping[str, Path] = field(default_factory=dict)

    @cached_property
    def archived_keys(self) -> frozenset[str]:
        """The keys of the scenes of the archive, cut as :func:`map_key` does."""
        return frozenset(key for name in self.archived for key in name.split("-"))

    def pair_name(self, pair: Pair) -> str:
        """Return the name of the maps of a pair: the keys of its scenes."""
        return "-".join(self.scenes[number].key for number in pair)


def map_key(before: str, after: str) -> str:
    """Return by what the maps of an archive are found: the keys of both scenes, cut as in the archive."""
    return f"{before[:16]}-{after[:16]}"


@dataclass(frozen=True)
class Sighting:
    """Whether one scene shows an event.

    Attributes:
        scene: name of the scene.
        state: ``seen``: the ground looks as after the event; ``absent``: as without it; ``hidden``: the scene
            does not show the ground, and counts for neither.
        probability: 0..1 that the ground looks as after the event; None if hidden or not known.
        area_m2: area that shows the event; None if not measured.
        count: number of objects; None if not counted.
    """

    scene: str
    state: Visibility
    probability: float | None = None
    area_m2: float | None = None
    count: int | None = None


@dataclass(frozen=True)
class FoundEvent:
    """A change at one place, with what each scene says about it.

    Attributes:
        geometry: outline in WGS84.
        kind: what appeared, disappeared or changed.
        direction: ``appeared``, ``disappeared``, or ``changed`` where neither holds.
        sightings: one for each scene of the series, in its order; of a long series those near in time.
        probability: 0..1 that the event is real.
        count: number of objects; None if not counted.
        area_m2: area of the outline on the ellipsoid.
        facts: further measured facts by name, as plain JSON values.
        growth: names of the scenes in which it grew, the first one excluded.
    """

    geometry: MultiPolygon
    kind: Kind
    direction: Direction
    sightings: tuple[Sighting, ...]
    probability: float
    count: int | None
    area_m2: float
    facts: Mapping[str, Any] = field(default_factory=dict)
    growth: tuple[str, ...] = ()

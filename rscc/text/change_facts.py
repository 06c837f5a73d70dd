"""The facts of one change: everything that its sentence may state."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

Direction = Literal["appeared", "disappeared", "replaced"]
DIRECTIONS: tuple[str, ...] = get_args(Direction)

SOMETHING = "Something changed"
"""The sentence about a change of which too little is known."""

BUILT = ("building", "road", "parking lot")
"""Object classes that are built; the others are plants, ground or water."""

LARGE_BUILDING, MOST_OF_IT = 450.0, 2 / 3
"""Area in square metres of a building too large for a house; share of a change at which one decides."""
HALL = 1500.0
"""Square metres from which a building is called large: 97 percent of all training footprints are smaller."""

BuildingSize = Literal["house", "building", "large building"]

PLANTS = ("vegetation", "dense vegetation", "green cover")
"""Classes of plants in measured land cover; where several changed, the first is stated."""


def is_large(area_m2: float, largest_m2: float | None, median_m2: float | None) -> bool:
    """Return whether a change is of large buildings: by the median one, or by one that is most of it.

    Args:
        area_m2, largest_m2, median_m2: the attributes of a change; None if its objects were not measured.
    """
    if median_m2 is None or largest_m2 is None:
        return False
    return median_m2 >= LARGE_BUILDING or largest_m2 >= max(LARGE_BUILDING, MOST_OF_IT * area_m2)


def building_size(
    area_m2: float, largest_m2: float | None, median_m2: float | None, sure: int | None = None
) -> BuildingSize:
    """Return the noun for the buildings of a change on a map, by their size.

    Where the objects may be fewer and larger than counted, they are no houses if the fewest would be too
    large for that. One of several may be two houses that touch.
    """
    if largest_m2 is None or median_m2 is None:
        return "house"
    if median_m2 >= HALL:
        return "large building"
    mean_of_sure = 0.0 if sure is None else area_m2 / max(1, sure)
    is_building = largest_m2 >= 2 * LARGE_BUILDING or mean_of_sure >= LARGE_BUILDING
    return "building" if is_building or is_large(area_m2, largest_m2, median_m2) else "house"


@dataclass(frozen=True)
class ChangeFacts:
    """Measured facts of a change; uncertain facts are absent.

    Attributes:
        came, gone: object class to the calibrated probability, 0..1, that it came or is gone.
        before: class that covered the ground before to its probability, on a map to its share of the ground.
        beside: class of objects beside the change to its probability.
        count: number of buildings that came or are gone; None if they were not counted.
        sure: number of those that are sure, 0..count; None if it is not known.
        place: location in the picture (``top``, ``left``, ``middle``, ...) or on the map (``north``, ...);
            empty if it is everywhere, or in no part of it.
        size: noun for its buildings, by their size.
        cleared: whether the ground is clear where buildings are gone; otherwise they may be destroyed.
        area_m2: measured square metres of a change of land cover, of the first of ``came`` or ``gone``; None
            for changes of objects.
        back_m2: the same in the other direction, if one class both came and is gone: ``came`` and ``gone``
            then name it with its share of the pixels; else None.
        at_least: whether clearly more than ``area_m2``, or ``back_m2``, may have changed.
        share: that area as a share of the searched ground, 0..1; None if it is not known.
    """

    came: Mapping[str, float] = field(default_factory=dict)
    gone: Mapping[str, float] = field(default_factory=dict)
    before: Mapping[str, float] = field(default_factory=dict)
    beside: Mapping[str, float] = field(default_factory=dict)
    count: int | None = None
    sure: int | None = None
    place: tuple[str, ...] = ()
    size: BuildingSize = "house"
    cleared: bool = True
    area_m2: float | None = None
    back_m2: float | None = None
    at_least: bool = False
    share: float | None = None

    @property
    def large(self) -> bool:
        """Whether its buildings are larger than houses."""
        return self.size != "house"

    @property
    def direction(self) -> Direction | None:
        """Whether something appeared, disappeared or was replaced; None if nothing is known.

        Built objects decide; other classes only where nothing built came or is gone.
        """
        came, gone = ([name for name in names if name in BUILT] for names in (self.came, self.gone))
        if not (came or gone):
            came, gone = list(self.came), list(self.gone)
        return "replaced" if came and gone else "appeared" if came else "disappeared" if gone else None

    @property
    def probability(self) -> float:
        """The probability that all of ``came`` and ``gone`` are true, as independent events.

        If one class both came and is gone, the share of the pixels that changed.
        """
        every = (*self.came.values(), *self.gone.values())
        if self.back_m2 is not None:
            return sum(every)
        return math.prod(every) if every else 0.0

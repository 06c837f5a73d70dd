"""What is known of one change: the facts that its sentence may state, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

Direction = Literal["appeared", "disappeared", "replaced"]
DIRECTIONS: tuple[str, ...] = get_args(Direction)

SOMETHING = "something changed"
"""What is said of a change of which too little is known."""

BUILT = ("building", "road", "parking lot")
"""Object classes that are built; the others grow, are cleared, or flow."""

LARGE_BUILDING, MOST_OF_IT = 450.0, 2 / 3
"""Square metres from which a building is no house; share of a change by which one such building decides."""

PLANTS = ("vegetation", "dense vegetation", "green cover")
"""What measured land cover says of plants; where several changed, the first is stated."""


def is_large(area_m2: float, largest_m2: float | None, median_m2: float | None) -> bool:
    """Return whether buildings of a change are no houses: the median one is large, or one is most of it.

    Args:
        area_m2, largest_m2, median_m2: the attributes of a change; objects of None were not measured.
    """
    if median_m2 is None or largest_m2 is None:
        return False
    return median_m2 >= LARGE_BUILDING or largest_m2 >= max(LARGE_BUILDING, MOST_OF_IT * area_m2)


@dataclass(frozen=True)
class ChangeFacts:
    """Facts of a change, each measured; what is not sure enough is absent.

    Attributes:
        came, gone: object class to the calibrated probability, 0..1, that the change brought or took it.
        before: what covered the ground before, class to probability, on a map to the share of the ground.
        beside: what stands there and says where the change is, class to probability.
        count: number of objects, which is said of buildings that came or are gone; None where they were not
            counted.
        sure: how many of these are sure, 0..count; None where it was not asked.
        place: where it is, words of the picture (``top``, ``left``, ``middle``, ...) or of the map
            (``north``, ``east``, ...); empty when it is all over, or in no part of it.
        large: whether the buildings are larger than houses are.
        area_m2: square metres of a change of land cover that are measured to have changed as the first of
            ``came`` or ``gone`` says; None for changes that are told by objects.
        back_m2: the same of what went the other way, where both ways are told: ``came`` and ``gone`` name one
            class then, each with its share of the pixels; else None.
        at_least: whether notably more than ``area_m2``, or ``back_m2``, may have changed so.
        share: that area as a share of the ground that was searched, 0..1; None where it is not known.
    """

    came: Mapping[str, float] = field(default_factory=dict)
    gone: Mapping[str, float] = field(default_factory=dict)
    before: Mapping[str, float] = field(default_factory=dict)
    beside: Mapping[str, float] = field(default_factory=dict)
    count: int | None = None
    sure: int | None = None
    place: tuple[str, ...] = ()
    large: bool = False
    area_m2: float | None = None
    back_m2: float | None = None
    at_least: bool = False
    share: float | None = None

    @property
    def direction(self) -> Direction | None:
        """Whether something appeared, disappeared or was replaced; None when neither is known.

        What is built decides, and what grows only where nothing built came or is gone.
        """
        came, gone = ([name for name in names if name in BUILT] for names in (self.came, self.gone))
        if not (came or gone):
            came, gone = list(self.came), list(self.gone)
        return "replaced" if came and gone else "appeared" if came else "disappeared" if gone else None

    @property
    def probability(self) -> float:
        """The probability that every fact of what came and what is gone holds, taken as independent.

        Of what went both ways the share of the pixels that went either.
        """
        every = (*self.came.values(), *self.gone.values())
        if self.back_m2 is not None:
            return sum(every)
        return math.prod(every) if every else 0.0

"""How far two sets of captioned polygons are the same: one to one, by intersection over union."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import shapely
from shapely.geometry import shape
from shapely.geometry.base import BaseGeometry

# From here on two outlines count as the same; the bound that is asked for.
SAME_IOU = 0.99


@dataclass(frozen=True)
class Captioned:
    """A polygon of a report, in degrees, and its sentence."""

    geometry: BaseGeometry
    caption: str


@dataclass(frozen=True)
class Match:
    """How two sets compare.

    Attributes:
        first, second: how many polygons each has.
        identical: pairs with the same coordinates.
        same: pairs with an IoU of at least ``SAME_IOU``, identical ones among them.
        least_iou: the lowest IoU of a pair; 1 without any.
        same_captions: of the pairs that are the same, how many have the same sentence.
        unmatched: polygons of either set that have no partner with an IoU above a half.
    """

    first: int
    second: int
    identical: int
    same: int
    least_iou: float
    same_captions: int
    unmatched: int

    @property
    def row(self) -> list[str]:
        """The table row: share of the polygons that are identical, the same, equally described."""
        pairs = max(self.first, self.second)
        return [
            str(self.first),
            str(self.second),
            share(self.identical, pairs),
            share(self.same, pairs),
            f"{self.least_iou:.3f}",
            str(self.unmatched),
            share(self.same_captions, self.same),
        ]


def share(part: int, whole: int) -> str:
    """Return a percentage with two decimals."""
    return f"{100 * part / whole:.2f} %" if whole else "none"


def features_of(collection: dict[str, Any]) -> list[Captioned]:
    """Return the polygons of a report."""
    return [
        Captioned(shape(feature["geometry"]), feature["properties"]["caption"])
        for feature in collection["features"]
    ]


def merged(parts: Iterable[Sequence[Captioned]]) -> list[Captioned]:
    """Return the polygons of several reports; what is the same polygon in two of them counts once."""
    kept: list[Captioned] = []
    for part in parts:
        pairs = matched(kept, part)
        twice = {second for _, second, iou in pairs if iou >= SAME_IOU}
        kept += [one for number, one in enumerate(part) if number not in twice]
    return kept


def matched(first: Sequence[Captioned], second: Sequence[Captioned]) -> list[tuple[int, int, float]]:
    """Return (number in first, number in second, IoU) of pairs with an IoU above a half.

    No polygon can have two partners with which it shares more than half.
    """
    if not first or not second:
        return []
    one, other = (np.array([c.geometry for c in side], dtype=object) for side in (first, second))
    left, right = shapely.STRtree(other).query(one, predicate="intersects")
    both = shapely.area(shapely.intersection(one[left], other[right]))
    iou = both / (shapely.area(one[left]) + shapely.area(other[right]) - both)
    return [(int(a), int(b), float(v)) for a, b, v in zip(left, right, iou, strict=True) if v > 0.5]


def compare(first: Sequence[Captioned], second: Sequence[Captioned]) -> Match:
    """Compare two sets of polygons."""
    pairs = matched(first, second)
    same = [(a, b) for a, b, iou in pairs if iou >= SAME_IOU]
    return Match(
        first=len(first),
        second=len(second),
        identical=sum(first[a].geometry.equals_exact(second[b].geometry, 0) for a, b in same),
        same=len(same),
        least_iou=min((iou for _, _, iou in pairs), default=1.0),
        same_captions=sum(first[a].caption == second[b].caption for a, b in same),
        unmatched=len(first) + len(second) - 2 * len(pairs),
    )

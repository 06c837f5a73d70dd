"""How far apart may outlines of one change be? The gaps between true outlines, and the distance, as Markdown.

    python benchmarks/event_distance.py --data LEVIR-CC

The crops of the training and validation pairs are put together to the scenes that they were cut from, and the
buildings of their labels are grouped as the changes of a report are. An estate is the buildings of a crop
that holds ten or more: a person calls them one change, whatever street runs between them. In a scattered
scene half of the buildings, or more, have no other within ten metres: lone houses among older ones.

The distance is the smallest, in whole metres, at which estates have 95 percent of their buildings in one
event. The test split is never read.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import shapely
from caption_focus import CROP, GSD, scenes
from scipy.sparse.csgraph import minimum_spanning_tree

from rscc.markdown import table
from tiling import Band, ChangeRegion, group_regions, polygonize
from workflows import SceneOptions

ESTATE = 10
"""Buildings of a crop from which it holds an estate."""
SCATTERED_M = 10.0
"""Metres; a scene is scattered when the median building is farther from the next."""
FEW = 3
"""Lone houses that happen to be neighbours; an event of more has joined what does not belong together."""
WHOLE = 0.95
"""Share of an estate's buildings that is to be one event, on average."""
DISTANCES = tuple(range(1, 61))
SHOWN = (5, 10, 15, 20, 22, 24, 26, 28, 30, 35, 40, 50, 60)
QUANTILES = (0.25, 0.5, 0.75, 0.9, 0.95, 0.99)


@dataclass(frozen=True)
class Place:
    """The buildings of one scene.

    Attributes:
        regions: the buildings, n.
        gaps: (n, n) metres between their outlines.
        crop: (n,) number of the crop that each lies in.
    """

    regions: list[ChangeRegion]
    gaps: np.ndarray
    crop: np.ndarray

    @property
    def estates(self) -> list[np.ndarray]:
        """The numbers of the buildings of each estate."""
        crops, counts = np.unique(self.crop, return_counts=True)
        return [np.flatnonzero(self.crop == crop) for crop in crops[counts >= ESTATE]]

    @property
    def nearest(self) -> np.ndarray:
        """(n,) metres from each building to the next; infinite where there is no other."""
        return np.min(self.gaps + np.diag(np.full(len(self.gaps), np.inf)), axis=1, initial=np.inf)

    def events(self, metres: float) -> np.ndarray:
        """Return (n,) the number of the event that each building is in at this distance."""
        event = np.empty(len(self.regions), int)
        for number, members in enumerate(group_regions(self.regions, metres / GSD)):
            event[members] = number
        return event


def place_of(label: np.ndarray) -> Place:
    """Return the buildings of a label (H, W) bool; those too small for a report are left out."""
    pixels = SceneOptions().least_outline_for(GSD) / GSD**2
    regions = polygonize([Band(0, label.astype(np.float32), np.ones_like(label))], 0.5, min_area_px=pixels)
    outlines = np.array([region.pixel_polygon for region in regions], dtype=object)
    middles = shapely.get_coordinates(shapely.centroid(outlines)).reshape(-1, 2)
    columns = -(-label.shape[1] // CROP)
    cell = (middles // CROP).astype(int)
    return Place(
        regions, shapely.distance(outlines[:, None], outlines) * GSD, cell[:, 1] * columns + cell[:, 0]
    )


def wholeness(places: Iterable[Place], metres: float) -> tuple[float, float]:
    """Return the mean share of an estate that is in its largest event, and the mean number of its events."""
    counts = [
        np.unique(place.events(metres)[estate], return_counts=True)[1]
        for place in places
        for estate in place.estates
    ]
    return float(np.mean([c.max() / c.sum() for c in counts])), float(np.mean([len(c) for c in counts]))


def scattered(places: Iterable[Place]) -> list[Place]:
    """Return the places of lone houses."""
    return [p for p in places if len(p.regions) > 1 and np.median(p.nearest) > SCATTERED_M]


def sizes(places: Iterable[Place], metres: float) -> np.ndarray:
    """Return for every building of some places how many the event has that it is in."""
    found = [place.events(metres) for place in places]
    return np.concatenate([np.bincount(event)[event] for event in found])


def chosen(places: Sequence[Place]) -> int:
    """Return the smallest distance, in metres, at which estates are whole."""
    return next(metres for metres in DISTANCES if wholeness(places, metres)[0] >= WHOLE)


def report(places: Sequence[Place]) -> str:
    """Return the gaps, what each distance does, and the distance that was chosen."""
    estates = [(place, estate) for place in places for estate in place.estates]
    lone = scattered(places)
    gaps = {
        "to the next building, in estates": [place.nearest[estate] for place, estate in estates],
        "that hold an estate together": [
            minimum_spanning_tree(place.gaps[np.ix_(estate, estate)]).data for place, estate in estates
        ],
        "to the next building, in scattered scenes": [place.nearest for place in lone],
    }
    first = [
        [name, *(f"{value:.1f}" for value in np.quantile(np.concatenate(values), QUANTILES))]
        for name, values in gaps.items()
    ]
    second = []
    for metres in SHOWN:
        share, events = wholeness(places, metres)
        size = sizes(lone, metres)
        many = f"{100 * np.mean(size > FEW):.0f} %"
        second.append([str(metres), f"{100 * share:.1f} %", f"{events:.2f}", many, str(size.max())])
    buildings = sum(len(place.regions) for place in lone)
    head = ["metres", "of an estate in one event", "events of an estate", f"in an event of more than {FEW}"]
    return "\n\n".join(
        [
            f"{len(estates)} estates; {len(lone)} scattered scenes with {buildings} buildings",
            table(["gaps in metres", *(f"{100 * q:.0f} %" for q in QUANTILES)], first),
            table([*head, "largest"], second),
            f"chosen: {chosen(places)} m",
        ]
    )


def main() -> None:
    """Read the options, print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="LEVIR-CC with labels")
    data = parser.parse_args().data
    print(report([place_of(label) for split in ("train", "val") for *_, label in scenes(data, split)]))


if __name__ == "__main__":
    main()

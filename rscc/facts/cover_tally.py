"""Facts of a change of land cover, from the decisions of spectral indices on its pixels."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from rscc.text.change_facts import PLANTS, ChangeFacts

# A change of cover is stated where at least OF_ALL of all pixels made it, and ONE_WAY of the pixels that made
# it or its reverse. Where neither direction reaches that, both are stated if together they reach OF_ALL and
# each reaches EITHER.
OF_ALL, ONE_WAY, EITHER = 0.25, 0.75, 0.1
# Minimum share of the pixels of a cover that is stated as what was there before.
MOST = 0.5
# Undecided pixels that may have changed in the same way make the area a minimum ("at least") from this share
# of the changed pixels.
NOTABLE = 0.1
# Decisions before and after, in the order of 3 * before + after.
WAYS = tuple(product((-1, 0, 1), repeat=2))
# An increase of these is mostly light and season.
_ONLY_LOSS = ("green cover",)
Decisions = Mapping[str, tuple[np.ndarray, np.ndarray]]


@dataclass
class CoverTally:
    """Counts the decisions on the pixels of one change.

    Attributes:
        counts: number of pixels by (question, decision before, decision after); decisions are 1, -1 and 0.
        plants: the first of :data:`PLANTS` that was decided; empty without any.
        flooded, overgrown: pixels that became water and had plants, or were water and have plants now.
        burnt: pixels that lost plants and look burnt.
    """

    pixels: int = 0
    counts: Counter[tuple[str, int, int]] = field(default_factory=Counter)
    plants: str = ""
    flooded: int = 0
    overgrown: int = 0
    burnt: int = 0

    def add(self, region: np.ndarray, valid: np.ndarray, decisions: Decisions, burnt: np.ndarray) -> None:
        """Count the pixels of a region (h, w) bool; all arrays have this shape."""
        self.pixels += int(region.sum())
        inside = region & valid
        seen = {question: np.stack(dates)[:, inside].astype(int) for question, dates in decisions.items()}
        for question, (before, after) in seen.items():
            numbers = np.bincount(3 * before + after + 4, minlength=9).tolist()
            for (old, new), number in zip(WAYS, numbers, strict=True):
                self.counts[question, old, new] += number
        self.plants = next((name for name in PLANTS if name in seen), "")
        if not self.plants:
            return
        before, after = seen[self.plants]
        self.burnt += int((burnt[inside] & (before == 1) & (after == -1)).sum())
        if "water" in seen:
            dry, wet = seen["water"]
            self.flooded += int(((dry == -1) & (wet == 1) & (before == 1)).sum())
            self.overgrown += int(((dry == 1) & (wet == -1) & (after == 1)).sum())

    def clear_share(self, question: str, before: int, after: int) -> float:
        """Return the share of the decided pixels that changed this way; 0 where that is not clear."""
        changed = self.counts[question, before, after]
        either = changed + self.counts[question, after, before]
        is_clear = changed and changed >= OF_ALL * self.pixels and changed >= ONE_WAY * either
        is_stated = question not in _ONLY_LOSS or after == -1
        return changed / self._decided(question) if is_clear and is_stated else 0.0

    def is_bidirectional(self, name: str) -> bool:
        """Return whether a class came on some pixels and is gone from others, many of each."""
        ways = self.counts[name, -1, 1], self.counts[name, 1, -1]
        many = sum(ways) >= OF_ALL * self.pixels and min(ways) >= max(1, EITHER * self.pixels)
        return bool(many) and name not in _ONLY_LOSS

    def _decided(self, question: str) -> int:
        return sum(self.counts[question, old, new] for old in (-1, 1) for new in (-1, 1))

    def facts(self, *, area_m2: float, ground_m2: float | None, place: tuple[str, ...]) -> ChangeFacts:
        """Return what is clear about the change; only the location where nothing is.

        Args:
            ground_m2: of the ground that was searched; None where it is not known.
        """
        for name in ("water", *PLANTS):
            for old, new in ((-1, 1), (1, -1)):
                if self.clear_share(name, old, new):
                    return self._one_way(name, old, new, area_m2, ground_m2, place)
            if self.is_bidirectional(name):
                return self._both_ways(name, area_m2, place)
        return ChangeFacts(place=place)

    def _one_way(
        self, name: str, old: int, new: int, area_m2: float, ground_m2: float | None, place: tuple[str, ...]
    ) -> ChangeFacts:
        changed = self.counts[name, old, new]
        one, other = {name: self.clear_share(name, old, new)}, {}
        if name == "water" and (plants := self.flooded if new == 1 else self.overgrown) >= MOST * changed:
            other = {self.plants: plants / changed}
        elif name == self.plants and new == -1 and self.burnt >= MOST * changed:
            other = {"burnt ground": self.burnt / changed}
        came, gone = (one, other) if new == 1 else (other, one)
        area = area_m2 * changed / self.pixels
        undecided = self.counts[name, old, 0] + self.counts[name, 0, new]
        return ChangeFacts(
            came,
            gone,
            self._before(),
            place=place,
            area_m2=area,
            at_least=undecided >= NOTABLE * changed,
            share=area / ground_m2 if ground_m2 else None,
        )

    def _both_ways(self, name: str, area_m2: float, place: tuple[str, ...]) -> ChangeFacts:
        forth, back = self.counts[name, -1, 1], self.counts[name, 1, -1]
        decided, pixel = self._decided(name), area_m2 / self.pixels
        undecided = sum(self.counts[name, *way] for way in ((-1, 0), (0, 1), (1, 0), (0, -1)))
        return ChangeFacts(
            {name: forth / decided},
            {name: back / decided},
            self._before(),
            place=place,
            area_m2=forth * pixel,
            back_m2=back * pixel,
            at_least=undecided >= NOTABLE * (forth + back),
        )

    def _before(self) -> dict[str, float]:
        shares = {
            name: sum(self.counts[name, 1, new] for new in (-1, 0, 1)) / self.pixels
            for name in ("water", *PLANTS)
        }
        if any(question == "water" for question, _, _ in self.counts):  # otherwise bare ground may be wet
            bare = sum(self.counts["vegetation", -1, new] for new in (-1, 0, 1)) / self.pixels
            shares["open ground"] = max(0.0, bare - shares["water"])
        name, share = max(shares.items(), key=lambda item: item[1])
        return {name: share} if share >= MOST else {}

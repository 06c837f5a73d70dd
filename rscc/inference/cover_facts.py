"""From what indices say of the pixels of a change to the facts that its sentence may state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from rscc.text.facts import PLANTS, ChangeFacts

# A change of cover is stated where at least this share of all pixels made it, and of those that made it or
# its reverse. Where neither way is, both are stated if together they are as many, and each this share.
OF_ALL, ONE_WAY, EITHER = 0.25, 0.75, 0.1
# What covered at least this share of the pixels before is named.
MOST = 0.5
# From so many undecided pixels that may have changed alike, of those that did, the area is a least one.
NOTABLE = 0.1
# Decisions before and after, in the order of three times the one and the other.
WAYS = tuple(product((-1, 0, 1), repeat=2))
# What colours alone call greener is mostly light and season, see docs/medium.md.
_ONE_WAY_ONLY = ("green cover",)
Decisions = Mapping[str, tuple[np.ndarray, np.ndarray]]


@dataclass
class CoverTally:
    """How the pixels of one change were decided.

    Attributes:
        pixels: in all, with or without data.
        counts: number by (question, decision before, decision after); decisions are 1, -1 and 0.
        plants: the first of :data:`PLANTS` that was asked for; empty without.
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
        """Count the pixels of a region (h, w) bool; all arrays are of this shape."""
        self.pixels += int(region.sum())
        seen = {
            question: np.stack(dates)[:, region & valid].astype(int) for question, dates in decisions.items()
        }
        for question, (before, after) in seen.items():
            numbers = np.bincount(3 * before + after + 4, minlength=9).tolist()
            self.counts.update(
                {(question, old, new): number for (old, new), number in zip(WAYS, numbers, strict=True)}
            )
        self.plants = next((name for name in PLANTS if name in seen), "")
        if self.plants:
            before, after = seen[self.plants]
            self.burnt += int((burnt[region & valid] & (before == 1) & (after == -1)).sum())
            if "water" in seen:
                dry, wet = seen["water"]
                self.flooded += int(((dry == -1) & (wet == 1) & (before == 1)).sum())
                self.overgrown += int(((dry == 1) & (wet == -1) & (after == 1)).sum())

    def clear(self, question: str, before: int, after: int) -> float:
        """Return the share of the decided pixels that changed this way; 0 where that is not clear."""
        changed = self.counts[question, before, after]
        either = changed + self.counts[question, after, before]
        is_clear = changed and changed >= OF_ALL * self.pixels and changed >= ONE_WAY * either
        is_told = question not in _ONE_WAY_ONLY or after == -1
        return changed / self._decided(question) if is_clear and is_told else 0.0

    def went_both_ways(self, name: str) -> bool:
        """Return whether a class came on some pixels and is gone from others, notably many of each."""
        ways = self.counts[name, -1, 1], self.counts[name, 1, -1]
        notable = sum(ways) >= OF_ALL * self.pixels and min(ways) >= max(1, EITHER * self.pixels)
        return bool(notable) and name not in _ONE_WAY_ONLY

    def _decided(self, question: str) -> int:
        return sum(self.counts[question, old, new] for old in (-1, 1) for new in (-1, 1))

    def facts(self, *, area_m2: float, ground_m2: float | None, place: tuple[str, ...]) -> ChangeFacts:
        """Return what is clear of the change; no more than the place where nothing is.

        Args:
            area_m2: of all its pixels.
            ground_m2: of the ground that was searched; None where it is not known.
            place: words of the map.
        """
        for name in ("water", *PLANTS):
            ways = [way for way in ((-1, 1), (1, -1)) if self.clear(name, *way)]
            if ways:
                break
            if self.went_both_ways(name):
                return self._both_ways(name, area_m2, place)
        else:
            return ChangeFacts(place=place)
        old, new = ways[0]
        share = self.clear(name, old, new)
        changed = self.counts[name, old, new]
        one, other = {name: share}, {}
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
        """Return that something came on some pixels and is gone from others; arguments as :meth:`facts`."""
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
        """Return what covered most of the change before."""
        shares = {
            name: sum(self.counts[name, 1, new] for new in (-1, 0, 1)) / self.pixels
            for name in ("water", *PLANTS)
        }
        if any(question == "water" for question, _, _ in self.counts):  # else bare may be wet
            bare = sum(self.counts["vegetation", -1, new] for new in (-1, 0, 1)) / self.pixels
            shares["open ground"] = max(0.0, bare - shares["water"])
        return dict([max(shares.items(), key=lambda one: one[1])]) if max(shares.values()) >= MOST else {}

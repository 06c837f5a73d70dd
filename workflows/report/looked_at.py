"""What a report says of the ground that was looked at: its area, and what was not judged."""

import math
from dataclasses import dataclass
from typing import Self

from shapely.geometry import MultiPolygon, Polygon

from rscc.text.wording import listed
from workflows.report.geojson import outlines_in
from workflows.report.record import Run, value_in

# Where ground is that was not judged, by the name of the reason in the record.
_REASONS = {
    "fill": "without data",
    "cloud": "under cloud",
    "shadow": "in the shadow of clouds",
    "haze": "under haze",
}
# A smaller share of the ground is not worth a clause: edges of warped scenes. Where less is left, that is
# told: a small site in a large canvas.
_WORTH_SAYING = 0.005
_UNITS = (("km2", 1e6, 1), ("ha", 1e4, 1), ("m2", 1.0, 0))


@dataclass(frozen=True)
class LookedAt:
    """The ground of a report.

    Attributes:
        total_m2: what was asked for, in square metres.
        unjudged_m2: what of it was not judged.
        reasons: why, in words, the most frequent first.
    """

    total_m2: float
    unjudged_m2: float
    reasons: tuple[str, ...]

    @classmethod
    def of(cls, run: Run) -> Self | None:
        """Return what a run record says; None where it does not, or is damaged."""
        gsd, width, height = (
            number_in(run, *names) for names in (("tiling", "gsd"), ("focus", "width"), ("focus", "height"))
        )
        total = gsd * gsd * width * height
        if not 0 < total < math.inf:
            return None
        areas = {words: number_in(run, "not_judged", "by", name) for name, words in _REASONS.items()}
        # By its share: areas on the ground and on the grid differ by more than a small site in a canvas.
        share = number_in(run, "not_judged", "share")
        unjudged = min(total, total * share or number_in(run, "not_judged", "area_m2"))
        if unjudged < _WORTH_SAYING * total:
            unjudged, areas = 0.0, {}
        reasons = sorted((words for words in areas if areas[words] >= 0.05 * unjudged), key=areas.__getitem__)
        return cls(total, unjudged, tuple(reversed(reasons)))

    @property
    def judged(self) -> str:
        """The ground that was judged, in words: ``31.8 of 32.2 ha``, or ``32.2 ha``."""
        total, judged = area_in_words(self.total_m2), self.total_m2 - self.unjudged_m2
        if not self.unjudged_m2:
            return total
        return f"{area_in_words(judged) if self._is_small_site else self._in_same_unit(judged)[0]} of {total}"

    @property
    def unjudged(self) -> str | None:
        """What was not judged and why, in words: ``0.4 ha were under cloud``; None without any."""
        if not self.unjudged_m2:
            return None
        why = listed(list(self.reasons)).replace(" and ", " or ") if self.reasons else "not judged"
        if self._is_small_site:
            return f"all but {area_in_words(self.total_m2 - self.unjudged_m2)} is {why}"
        return f"{' '.join(self._in_same_unit(self.unjudged_m2))} were {why}"

    @property
    def _is_small_site(self) -> bool:
        return self.total_m2 - self.unjudged_m2 < _WORTH_SAYING * self.total_m2

    def _in_same_unit(self, area: float) -> tuple[str, str]:
        """Return an area in the unit of all of the ground, and that unit."""
        unit, size, digits = _unit_of(self.total_m2)
        return f"{area / size:,.{digits}f}", unit


def _unit_of(area: float) -> tuple[str, float, int]:
    """Return the unit that suits an area, its square metres, and the decimals that are told."""
    return next((one for one in _UNITS if area >= one[1]), _UNITS[-1])


def area_in_words(area: float) -> str:
    """Return an area, given in square metres, in the unit that suits its size."""
    unit, size, digits = _unit_of(area)
    return f"{area / size:,.{digits}f} {unit}"


def number_in(run: Run, *names: str) -> float:
    """Return a number of the record that is 0 or more, else 0."""
    value = value_in(run, *names)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value < 1e15 else 0.0


def not_judged_outline(run: Run) -> Polygon | MultiPolygon | None:
    """Return the ground that was not judged, in WGS84; None without any. The record may come from anybody."""
    return outlines_in(value_in(run, "not_judged", "outline"))

"""How pixels become 8 bits, so that equal ground looks equal on both dates.

uint8 is left as it is. Scenes of one other type share one stretch per band, fitted on both dates: a stretch
per tile or per date would turn haze, season or a large change into a difference everywhere. Two scenes of
different types have no common unit, so one table cannot serve both; each type gets its own, fitted on the
same ground, so that its 2nd and 98th percentile land on the same brightness: those of the uint8 scene if
one is, 0 and 255 else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

PERCENTILES = (2.0, 98.0)
_Triple = tuple[float, ...]
# Pixel values that become black and white, or "reflectance".
Scale = tuple[float, float] | Literal["reflectance"]


@dataclass(frozen=True)
class Table:
    """A linear map per band: ``low`` becomes ``dark``, ``high`` becomes ``bright``; clipped to 0..255."""

    low: _Triple
    high: _Triple
    dark: _Triple = (0.0, 0.0, 0.0)
    bright: _Triple = (255.0, 255.0, 255.0)

    def apply(self, values: np.ndarray) -> np.ndarray:
        """Return (3, h, w) uint8 of (3, h, w) of any real type; what is not finite becomes 0."""
        low, high, dark, bright = (
            np.array(part, np.float64)[:, None, None]
            for part in (self.low, self.high, self.dark, self.bright)
        )
        gain = (bright - dark) / np.where(high > low, high - low, 1.0)
        stretched = (values.astype(np.float64) - low) * gain + dark
        return np.rint(np.nan_to_num(stretched, nan=0.0, posinf=0.0, neginf=0.0).clip(0, 255)).astype(
            np.uint8
        )

    def as_dict(self) -> dict[str, list[float]]:
        """Return the four rows of the table."""
        return {name: list(getattr(self, name)) for name in ("low", "high", "dark", "bright")}


@dataclass(frozen=True)
class Stretch:
    """The radiometry of a pair.

    Attributes:
        kind: "none" (uint8 as it is), "shared" (one table for both dates) or "per type" (one for each type).
        before, after: the table of each date; None leaves its uint8 pixels as they are.
    """

    kind: str
    before: Table | None = None
    after: Table | None = None

    @classmethod
    def fit(cls, before: np.ndarray, after: np.ndarray, scale: Scale | None = None) -> Stretch:
        """Fit on samples (3, n) of the pixels that are valid on both dates, in the types of the files."""
        if isinstance(scale, tuple):
            table = Table((scale[0],) * 3, (scale[1],) * 3)
            return cls("given", table, table)
        if before.dtype == after.dtype:
            if before.dtype == np.uint8:
                return cls("none")
            table = Table(*_percentiles(np.concatenate([before, after], axis=1)))
            return cls("shared", table, table)
        limits = [_percentiles(sample) for sample in (before, after)]
        target = next(
            (own for own, sample in zip(limits, (before, after), strict=True) if sample.dtype == np.uint8), ()
        )
        tables = [
            None if sample.dtype == np.uint8 else Table(*own, *target)
            for own, sample in zip(limits, (before, after), strict=True)
        ]
        return cls("per type", *tables)

    def apply(self, before: np.ndarray, after: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return samples (3, n) of both dates as uint8."""
        tables = (self.before, self.after)
        first, second = (
            values if table is None else table.apply(values[:, None])[:, 0]
            for values, table in zip((before, after), tables, strict=True)
        )
        return first, second

    def as_dict(self) -> dict[str, Any]:
        """Return what is needed to repeat the stretch, as plain values."""
        if self.kind == "none":
            return {"kind": self.kind}
        dates = (("before", self.before), ("after", self.after))
        return {
            "kind": self.kind,
            "percentiles": list(PERCENTILES),
            **{name: table.as_dict() if table else None for name, table in dates},
        }


def _percentiles(sample: np.ndarray) -> tuple[_Triple, _Triple]:
    low, high = np.percentile(sample.astype(np.float64), PERCENTILES, axis=1)
    return tuple(low.tolist()), tuple(high.tolist())

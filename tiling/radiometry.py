"""Stretch pixels to 8 bits so that equal ground looks equal on both dates.

uint8 is unchanged. Scenes of one other type share a stretch per band, fitted on both dates without what is
far brighter on one of them, such as clouds: a stretch per tile or date would turn haze, season or a large
change into a difference everywhere. Two types have no common unit, so each gets a table, fitted on the same
ground: its 2nd and 98th percentile become those of the uint8 scene, or 0 and 255.

A requested scale replaces this: two pixel values that become black and white on both dates, or "reflectance":
reflectances of 0 to 0.3 become black to white.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from tiling.errors import ScaleInvalid
from tiling.scene import SceneInfo

PERCENTILES = (2.0, 98.0)
# A value is fill if more than this share of the pixels has it in all bands and it is far from all others; 0,
# which may be near others, from the second share on.
FILL, FILL_OF_ZEROS = 0.01, 0.05
# A date has a bright tail if more than this share of its pixels is so many times brighter than the other.
TAIL_SHARE, TAIL = 0.03, 1.25
_Triple = tuple[float, ...]
# Pixel values that become black and white, or "reflectance".
Scale = tuple[float, float] | Literal["reflectance"]
# Reflectance that becomes white; only clouds, snow and some roofs are brighter.
WHITE = 0.3
# Default scale and offset of 16-bit surface reflectance...
TEN_THOUSANDTHS = (1e-4, 0.0)
# ...and of Landsat Collection 2, whose bands are SR_B1 to SR_B7.
LANDSAT_BAND, LANDSAT = re.compile(r"sr_b\d\b", re.IGNORECASE), (2.75e-5, -0.2)


@dataclass(frozen=True)
class Table:
    """A linear map per band: ``low`` becomes ``dark``, ``high`` becomes ``bright``; clipped to 0..255."""

    low: _Triple
    high: _Triple
    dark: _Triple = (0.0, 0.0, 0.0)
    bright: _Triple = (255.0, 255.0, 255.0)

    def apply(self, values: np.ndarray) -> np.ndarray:
        """Return (3, ...) uint8 of (3, ...) of any real type; NaN and infinity become 0."""
        if values.dtype.kind in "iu" and values.dtype.itemsize <= 2:
            bands = zip(_lookup(self, values.dtype), values.view(f"u{values.dtype.itemsize}"), strict=True)
            return np.stack([becomes.take(band) for becomes, band in bands])
        return np.rint(self.grey(values)).astype(np.uint8)

    def grey(self, values: np.ndarray) -> np.ndarray:
        """Return (3, ...) float64 in 0..255 of (3, ...) of any real type; NaN and infinity become 0."""
        low, high, dark, bright = (
            np.array(part, np.float64).reshape(3, *[1] * (values.ndim - 1))
            for part in (self.low, self.high, self.dark, self.bright)
        )
        gain = (bright - dark) / np.where(high > low, high - low, 1.0)
        stretched = (values.astype(np.float64) - low) * gain + dark
        return np.nan_to_num(stretched, nan=0.0, posinf=0.0, neginf=0.0).clip(0, 255)

    def as_dict(self) -> dict[str, list[float]]:
        """Return the four rows of the table by name."""
        return {name: list(getattr(self, name)) for name in ("low", "high", "dark", "bright")}


@lru_cache(maxsize=8)
def _lookup(table: Table, dtype: np.dtype) -> np.ndarray:
    """Return the results (3, N) uint8 for all values of an integer type, in the order of their bits."""
    every = np.arange(2 ** (8 * dtype.itemsize), dtype=f"u{dtype.itemsize}").view(dtype)
    return np.rint(table.grey(np.tile(every, (3, 1)))).astype(np.uint8)


@dataclass(frozen=True)
class Stretch:
    """The radiometry of a pair.

    Attributes:
        kind: "none" (uint8 unchanged), "shared" (one table for both dates), "per type" (one for each type),
            "given" (requested limits) or "reflectance".
        before, after: the table of each date; None leaves uint8 pixels unchanged.
    """

    kind: str
    before: Table | None = None
    after: Table | None = None

    @classmethod
    def fit(cls, before: np.ndarray, after: np.ndarray) -> Stretch:
        """Fit on samples (3, n) of the pixels that are valid on both dates, in the types of the files."""
        if before.dtype == after.dtype:
            if before.dtype == np.uint8:
                return cls("none")
            ground = _without_bright_tail(before, after), _without_bright_tail(after, before)
            table = Table(*_percentiles(np.concatenate(ground, axis=1)))
            return cls("shared", table, table)
        first, second = _percentiles(before), _percentiles(after)
        if before.dtype == np.uint8:
            return cls("per type", None, Table(*second, *first))
        if after.dtype == np.uint8:
            return cls("per type", Table(*first, *second), None)
        return cls("per type", Table(*first), Table(*second))

    @classmethod
    def given(cls, low: float, high: float) -> Stretch:
        """Return the stretch that makes ``low`` black and ``high`` white in every band of both dates."""
        table = Table((float(low),) * 3, (float(high),) * 3)
        return cls("given", table, table)

    @classmethod
    def reflectance(cls, infos: Sequence[SceneInfo], bands: Sequence[Sequence[int]]) -> Stretch:
        """Return the stretch of the reflectances of two scenes, each by its own scale.

        Scale and offset of a band are those of the file; else those of Collection 2 for bands named as
        Landsat's, ten-thousandths for other 16-bit pixels, 1 for floating point.

        Raises:
            ScaleInvalid: the pixels of a scene are no reflectances.
        """
        before, after = (_reflectances(info, numbers) for info, numbers in zip(infos, bands, strict=True))
        return cls("reflectance", before, after)

    def as_dict(self) -> dict[str, Any]:
        """Return the stretch as plain values, complete enough to repeat it."""
        if self.kind == "none":
            return {"kind": self.kind}
        dates = (("before", self.before), ("after", self.after))
        return {
            "kind": self.kind,
            **({"percentiles": list(PERCENTILES)} if self.kind in ("shared", "per type") else {}),
            **{name: table.as_dict() if table else None for name, table in dates},
        }


def _percentiles(sample: np.ndarray) -> tuple[_Triple, _Triple]:
    low, high = np.percentile(sample.astype(np.float64), PERCENTILES, axis=1)
    return tuple(low.tolist()), tuple(high.tolist())


def _without_bright_tail(own: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the pixels (3, n) of a date without those that are far brighter than any of the other date.

    Clouds would otherwise take the upper part of a stretch for both dates. A date that is brighter as a whole
    keeps its pixels: brightness is compared at the lower quartiles, which few clouds reach.
    """
    bright, others = (date.mean(axis=0, dtype=np.float64) for date in (own, other))
    quarter, others_quarter = (float(np.percentile(date, 25)) for date in (bright, others))
    factor = max(1.0, quarter / others_quarter) if others_quarter > 0 else 1.0
    limit = TAIL * factor * float(np.percentile(others, PERCENTILES[1]))
    tail = bright > limit
    return own[:, ~tail] if limit > 0 and TAIL_SHARE < tail.mean() < 1 else own


def fill_values(pixels: np.ndarray) -> dict[float, float]:
    """Return values of pixels (3, n) that look like undeclared nodata, with their shares.

    Such a value is in all bands, is the lowest or highest (of 8 bits: 0 or 255), and is farther from the
    others than their percentiles are from each other.
    """
    ends = {end: (pixels == end).all(axis=0) for end in (pixels.min(), pixels.max())}
    shares = {end: float(filled.mean()) for end, filled in ends.items() if filled.mean() > FILL}
    rest = pixels[:, ~np.any([ends[end] for end in shares], axis=0)] if shares else pixels[:, :0]
    if not rest.size:
        return {}
    low, high = np.percentile(rest.astype(np.float64), PERCENTILES).tolist()

    def is_fill(value: float, share: float) -> bool:
        if pixels.dtype == np.uint8 and value not in (0, 255):
            return False
        far = max(low - value, value - high) > high - low > 0
        return far or (value == 0 and share > FILL_OF_ZEROS)

    return {float(end): share for end, share in shares.items() if is_fill(float(end), share)}


def _reflectances(info: SceneInfo, bands: Sequence[int]) -> Table:
    units = [unit_of(info, band) for band in bands]
    low, high = (tuple((limit - offset) / scale for scale, offset in units) for limit in (0.0, WHITE))
    return Table(low, high)


def unit_of(info: SceneInfo, band: int) -> tuple[float, float]:
    """Return scale and offset from pixels of a band to reflectances."""
    stated = info.scales[band - 1], info.offsets[band - 1]
    if stated != (1.0, 0.0) and stated[0] > 0 and all(map(math.isfinite, stated)):
        return stated
    dtype = info.dtypes[band - 1]
    if info.palette is None and dtype in ("uint16", "int16"):
        named = LANDSAT_BAND.match(info.descriptions[band - 1] or "")
        return LANDSAT if named and dtype == "uint16" else TEN_THOUSANDTHS
    if dtype.startswith("float"):
        return 1.0, 0.0
    raise ScaleInvalid(
        f"{info.path}: the scale from {dtype} pixels to reflectances is unknown; give two values as --scale"
    )

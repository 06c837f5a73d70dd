"""What must hold before anything is said of a pair: each precondition is measured and has a bound.

| precondition | bound | beyond it |
|---|---|---|
| pixel size | 5 mm to 10 km: no camera over land is finer, no building is seen from coarser | error |
| overlap | 8 pixels a side: less than the smallest change | error; below 32 pixels or 10 percent a warning |
| data on both dates | a hundredth of the common ground | warning; without any an error |
| grey levels | 40 of 8 bits below 64, 16 of other types; one real scene in 200 has fewer than 43 | warning |
| contrast | 10 of 255 grey values from the 2nd to the 98th percentile; real scenes have 24 up | warning |
| units | a quarter to four times as bright, dark ends within 650 of each other | warning |
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tiling.errors import OverlapTooSmall, PixelsWithoutSize, ScaleInvalid
from tiling.fill import Fill
from tiling.radiometry import Stretch, Table, fill_values, unit_of
from tiling.scene import SceneInfo
from tiling.working_grid import Grid

FINEST, COARSEST = 0.005, 10_000.0
"""Metres per pixel."""
LEAST_SIDE, SMALL_SIDE, SMALL_SHARE = 8, 32, 0.1
LEAST_VALID = 0.01
FEW_LEVELS, FEW_LEVELS_OF_OTHERS = 40, 16
# 16 bits that were brought to 8 by their range lie below this; fog has few levels, too, but brighter ones.
SQUEEZED = 64
LOW_CONTRAST = 10.0
# Real pairs differ up to 2.5 times. Clouds brighten one end only, so both quartiles must differ.
OTHER_UNIT, QUARTILES = 4.0, (25.0, 75.0)
# Sentinel-2 pixels hold 1,000 more since processing baseline 04.00, reflectances in floating point 0.1. Haze
# lifts bands unequally, and by less.
OFFSET, OFFSET_TOLERANCE = 1000.0, 350.0
TEN_THOUSANDTH = 1e-4
_DARK = 2.0

Infos = Sequence[SceneInfo]
Samples = Sequence[np.ndarray]
"""Of each date the pixels (3, n) that are valid on both, in the types of the files."""


@dataclass(frozen=True)
class Precondition:
    """One precondition of a pair.

    Attributes:
        found: what was measured, in words.
        warnings: what may mislead, one line each.
    """

    name: str
    found: str
    warnings: tuple[str, ...] = ()


def check_pixel_size(info: SceneInfo) -> None:
    """Refuse a scene whose pixels have an impossible size.

    Raises:
        PixelsWithoutSize: they are finer than 5 mm or coarser than 10 km.
    """
    if FINEST <= info.gsd <= COARSEST:
        return
    west, south, east, north = info.bounds
    degrees = max(abs(west), abs(east)) <= 180 and max(abs(south), abs(north)) <= 90
    remedy = "correct its georeferencing with gdal_edit.py -a_ullr"
    if info.crs.is_projected and degrees:
        remedy = "if its coordinates are degrees, set that with gdal_edit.py -a_srs EPSG:4326"
    elif info.crs.is_geographic:
        remedy = "if its coordinates are metres, set their CRS with gdal_edit.py -a_srs EPSG:..."
    raise PixelsWithoutSize(
        f"{info.path}: its pixels would be of {info.gsd:.3g} m, which no image of the ground has; {remedy}"
    )


def pixel_size(infos: Infos) -> Precondition:
    """Return the pixel sizes; :func:`check_pixel_size` has refused impossible ones."""
    return Precondition("pixel size", " and ".join(f"{info.gsd:.3g} m" for info in infos))


def overlap(infos: Infos, grid: Grid) -> Precondition:
    """Return how much ground both scenes show.

    Raises:
        OverlapTooSmall: it is narrower than the smallest change, and the scenes are not.
    """
    area = grid.width * grid.height * grid.gsd**2
    shares = [min(1.0, area / (info.width * info.height * info.gsd**2)) for info in infos]
    digits = 0 if min(grid.width, grid.height) > LEAST_SIDE else 1
    wide, high = (f"{side * grid.gsd:,.{digits}f}" for side in (grid.width, grid.height))
    size = f"{grid.width:,} x {grid.height:,} pixels ({wide} x {high} m)"
    before, after = infos
    named = f"{after.path}: it has only {size} in common with {before.path}"
    side = min(grid.width, grid.height)
    if side < LEAST_SIDE and max(shares) < 0.5:
        raise OverlapTooSmall(f"{named}, too little to judge; give two scenes of one place")
    is_small = side < SMALL_SIDE or max(shares) < SMALL_SHARE
    warning = f"{named}; changes beyond are not seen, and few things are seen whole"
    found = f"{size}, {_percent(shares[0])} of before, {_percent(shares[1])} of after"
    return Precondition("overlap", found, (warning,) if is_small else ())


def valid_ground(infos: Infos, share: float) -> Precondition:
    """Return how much of the common ground has data on both dates; ``share`` is that, 0..1."""
    before, after = infos
    warning = (
        f"{before.path} and {after.path}: only {_percent(share)} of their common ground has data on both "
        "dates; what lies outside is not judged"
    )
    return Precondition("data", f"{_percent(share)} of it on both dates", (warning,) * (share < LEAST_VALID))


def grey_levels(infos: Infos, sample: Samples, *, fitted: bool) -> Precondition:
    """Return how many values the dates hold; ``fitted``: a stretch or a requested scale spreads them."""
    counts, warnings = [], []
    for info, pixels in zip(infos, sample, strict=True):
        low, high = np.percentile(pixels, (1, 99), axis=1)
        levels = max(
            len(np.unique(band[(band >= least) & (band <= most)]))
            for band, least, most in zip(pixels, low, high, strict=True)
        )
        counts.append(f"{levels:,}")
        is_byte = pixels.dtype == np.uint8
        if levels == 1 or levels >= (FEW_LEVELS if is_byte else FEW_LEVELS_OF_OTHERS):
            continue
        if is_byte and high.max() > SQUEEZED:
            continue
        ends = f"{float(low.min()):g},{float(high.max()):g}"
        said = f"{info.path}: its {'8 bits' if is_byte else 'pixels'} hold about {levels} grey levels only"
        if not is_byte:
            warnings.append(f"{said}; convert it again without rounding")
        elif not fitted:
            warnings.append(
                f"{said} ({ends}), too few to show a change; --scale {ends} spreads them, better convert its "
                "original again with gdal_translate -scale"
            )
    return Precondition("grey levels", f"{counts[0]} before, {counts[1]} after", tuple(warnings))


def contrast(infos: Infos, sample: Samples, stretch: Stretch) -> Precondition:
    """Return the contrast that the dates are shown with, of 255 grey values."""
    spans, warnings = [], []
    for info, pixels, table in zip(infos, sample, (stretch.before, stretch.after), strict=True):
        grey = (pixels if table is None else table.grey(pixels)).mean(axis=0)
        low, high = np.percentile(grey, (2, 98))
        spans.append(high - low)
        # All of one value, or of few; a mostly plain ground may have its objects outside the percentiles.
        if 0 < high - low < LOW_CONTRAST or np.ptp(grey) == 0:
            warnings.append(
                f"{info.path}: it is shown with {high - low:.0f} of 255 grey values, so hardly anything is "
                "seen; give a clearer scene, or other limits as --scale"
            )
    found = f"{spans[0]:.0f} of 255 grey values before, {spans[1]:.0f} after"
    return Precondition("contrast", found, tuple(warnings))


def units(infos: Infos, bands: Sequence[Sequence[int]], sample: Samples) -> Precondition:
    """Return the middle values of the dates, with warnings where their units or offsets seem to differ."""
    middle = [float(np.median(pixels)) for pixels in sample]
    warnings = [*_one_sided_scales(infos, bands), *_other_units(infos, sample)]
    if not warnings:
        warnings += _sentinel_offset(infos, sample)
    return Precondition("units", f"median {middle[0]:,.4g} before, {middle[1]:,.4g} after", tuple(warnings))


def _one_sided_scales(infos: Infos, bands: Sequence[Sequence[int]]) -> Iterator[str]:
    """Warn if the scales or offsets that the files state differ, or one file states them."""
    before, after = infos
    stated = [
        [(info.scales[number - 1], info.offsets[number - 1]) for number in numbers]
        for info, numbers in zip(infos, bands, strict=True)
    ]
    if stated[0] == stated[1]:
        return
    is_stated = [any(pair != (1.0, 0.0) for pair in one) for one in stated]
    if all(is_stated):
        yield (
            f"{after.path}: it states another scale or offset than {before.path}; both are used unscaled, "
            "--scale reflectance applies them"
        )
        return
    try:
        meant = [[unit_of(info, band) for band in one] for info, one in zip(infos, bands, strict=True)]
    except ScaleInvalid:
        return  # the types differ, so each date has a stretch of its own
    if not np.allclose(meant[0], meant[1]):
        one, other = (before, after) if is_stated[0] else (after, before)
        yield (
            f"{one.path}: it states a scale or offset, {other.path} none; both are used unscaled, --scale "
            "reflectance applies it"
        )


def _other_units(infos: Infos, sample: Samples) -> Iterator[str]:
    """Warn if samples of one type differ too much in brightness; two types are stretched separately."""
    if sample[0].dtype != sample[1].dtype:
        return
    first, second = (np.percentile(date, QUARTILES) for date in sample)
    if min(*first, *second) <= 0:
        return
    factors = second / first
    if (factors > OTHER_UNIT).all() or (factors < 1 / OTHER_UNIT).all():
        before, after = infos
        yield (
            f"{after.path}: half of its pixels are about {second[0]:,.4g} to {second[1]:,.4g}, of "
            f"{before.path} about {first[0]:,.4g} to {first[1]:,.4g}; if the units differ, convert one"
        )


def _sentinel_offset(infos: Infos, sample: Samples) -> Iterator[str]:
    """Warn if the dark pixels of one date, not of 8 bits, are about 1,000 brighter in all bands."""
    if sample[0].dtype != sample[1].dtype or sample[0].dtype.itemsize == 1:
        return
    first, second = (np.percentile(date, _DARK, axis=1) for date in sample)
    # Floating point holds ten-thousandths, too, where it was converted without its scale.
    is_reflectance = sample[0].dtype.kind == "f" and max(map(np.median, sample)) < 2
    unit = TEN_THOUSANDTH if is_reflectance else 1.0
    more = (second - first) / unit
    if (np.abs(np.abs(more) - OFFSET) > OFFSET_TOLERANCE).any() or abs(np.sign(more).sum()) < len(more):
        return
    before, after = infos
    one, other = (after, before) if more[0] > 0 else (before, after)
    difference = abs(more).mean() * unit
    yield (
        f"{one.path}: its darkest pixels are about {difference:,.4g} above those of {other.path}; "
        f"if it is of Sentinel-2 since baseline 04.00, state its offset with gdal_edit.py -scale "
        f"{1 if is_reflectance else TEN_THOUSANDTH} -offset -0.1, and add --scale reflectance"
    )


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.01 or share == 0 else f"{100 * share:.1g}%"


# More of the sample than this at the ends of a requested scale.
CLIPPED = 0.2
# Up to this shift in pixels buildings are found as well without alignment. F1 on training scenes of 0.5 m
# without and with it: 0.82 and 0.81 at 3 and at 8 pixels (eight scenes), 0.79 and 0.79 at 14, 0.73 and 0.78
# at 20 (six). On coarser pixels a house has only a few.
HARMLESS, FINE_GSD = 10, 2.0


def unused_masks(infos: Sequence[SceneInfo]) -> Iterator[str]:
    """Warn of mask files that GDAL does not use."""
    for info in infos:
        if info.unused_mask is not None:
            yield (
                f"{info.path}: {info.unused_mask} masks nothing, since it does not name the bands it is for; "
                "write it with gdal_translate -mo INTERNAL_MASK_FLAGS_1=2, and _2, _3 ... for the others"
            )


def filled(infos: Sequence[SceneInfo], fills: Sequence[Sequence[Fill]]) -> Iterator[str]:
    """Say which ground counts as nodata though it is not declared."""
    for info, found in zip(infos, fills, strict=True):
        for fill in found:
            bands = sorted(set(fill.value.bands))
            shown = f"{bands[0]:g} in all bands" if len(bands) == 1 else f"{fill.value.bands}"
            remedy = f"; declare it with gdal_edit.py -a_nodata {bands[0]:.17g}" if len(bands) == 1 else ""
            yield (
                f"{info.path}: {fill.share:.1%} of the common ground is filled with {shown}, which counts as "
                f"nodata and is not judged{remedy}"
            )


def undeclared_nodata(
    infos: Sequence[SceneInfo], dates: Sequence[np.ndarray]
) -> tuple[list[str], list[np.ndarray]]:
    """Warn of pixels that look like undeclared nodata; return the samples (3, n) without these as well."""
    notes, ground = [], np.ones(dates[0].shape[1], bool)
    for info, pixels in zip(infos, dates, strict=True):
        for value, share in fill_values(pixels).items():
            ground &= ~(pixels == value).all(axis=0)
            notes.append(
                f"{info.path}: about {share:.0%} of its pixels are {value:g} in all bands and count as data; "
                f"if they are nodata, declare it with gdal_edit.py -a_nodata {value:.17g}"
            )
    return notes, [pixels[:, ground] for pixels in dates] if ground.any() else list(dates)


def clipped(info: SceneInfo, table: Table, pixels: np.ndarray) -> Iterator[str]:
    """Warn if a requested scale makes much of a date black or white."""
    shown = table.apply(pixels[:, None])
    share = max(float((shown == end).mean()) for end in (0, 255))
    if share > CLIPPED:
        yield f"{info.path}: {share:.0%} of its pixels are black or white on this scale; change --scale"


def shift(
    infos: Sequence[SceneInfo], remaining: float | None, least: float, gsd: float, align: bool
) -> str | None:
    """Warn of a shift of more than ``least`` pixels that remains, or that could not be measured."""
    before, after = infos
    if remaining is None:
        if not align:
            return None
        return (
            f"{after.path}: its offset from {before.path} could not be measured (the images are too "
            "dissimilar); it was not moved"
        )
    if remaining <= least:
        return None
    remedy = "it could not be corrected"
    if not align:
        helps = remaining > HARMLESS or gsd > FINE_GSD
        remedy = "--align may correct it" if helps else f"up to {HARMLESS} pixels changes are found as well"
    metres = f"{remaining * gsd:.2g} m"
    return f"{after.path}: it is offset by {remaining:.1f} pixels ({metres}) from {before.path}; {remedy}"

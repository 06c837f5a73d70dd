"""One-line warnings about a pair that can be read but may mislead."""

from collections.abc import Iterator, Sequence

import numpy as np

from tiling.fill import Fill
from tiling.radiometry import Table, fill_values
from tiling.scene import SceneInfo

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

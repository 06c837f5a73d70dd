"""Masks of changes at medium resolution by kind, from spectral indices and city masks.

The kinds are the keys of :data:`rscc.data.synthesis.medium.PHRASES`.
"""

from dataclasses import dataclass

import numpy as np
from scipy import ndimage

from rscc.facts.land_cover import NDMI, excess_green, indices_for

# Smaller patches, in pixels of the source, count as noise.
SMALLEST = 8


@dataclass(frozen=True)
class SeriesLayout:
    """The bands of a series.

    Attributes:
        green, red, nir: bands from 0.
        swir: short-wave infrared, from 0; None without it: then only water and land are classified.
        shown: bands used as red, green and blue.
    """

    name: str
    gsd: float
    green: int
    red: int
    nir: int
    swir: int | None
    shown: tuple[int, int, int] = (0, 1, 2)


# Landsat as short-wave infrared, near infrared and red: plants are green and bare ground is brown.
SERIES = (
    SeriesLayout("pucallpa_landsat", gsd=90, green=3, red=2, nir=1, swir=0),
    SeriesLayout("naip_4709963", gsd=5, green=1, red=0, nir=3, swir=None),
)


def series_classes(image: np.ndarray, layout: SeriesLayout) -> np.ndarray:
    """Return pixel classes of (bands, H, W): 1 water, 2 vegetation, 3 bare ground, 4 land, 0 undecided.

    Water by the normalised difference of green and short-wave infrared (Xu 2006; without it of green and near
    infrared, McFeeters 1996), vegetation by that of near and short-wave infrared. Values between the classes
    are undecided, so that noise is no change. Without short-wave infrared all ground is "land", because
    fields change their colour with every season.
    """
    numbers = {"green": layout.green, "nir": layout.nir, "swir16": layout.swir}
    bands = {name: image[number] for name, number in numbers.items() if number is not None}
    classes = np.zeros(image.shape[1:], np.uint8)
    indices = indices_for(bands)
    water = indices["water"].decide(indices["water"].of(bands))
    dry = water == -1
    if "dense vegetation" in indices:
        plants = NDMI.decide(NDMI.of(bands))
        classes[dry & (plants == 1)] = 2
        classes[dry & (plants == -1)] = 3
    else:
        classes[dry] = 4
    classes[water == 1] = 1
    return classes


_TRANSITIONS = {
    (2, 3): "cleared", (3, 2): "overgrown", (2, 1): "flooded", (3, 1): "flooded", (4, 1): "flooded",
    (1, 2): "dried", (1, 3): "dried", (1, 4): "dried",
}  # fmt: skip


def series_facts(before: np.ndarray, after: np.ndarray, layout: SeriesLayout) -> dict[str, np.ndarray]:
    """Return where two dates (bands, H, W) of a series have different classes, by kind of change."""
    first, second = series_classes(before, layout), series_classes(after, layout)
    facts: dict[str, np.ndarray] = {}
    for (old, new), kind in _TRANSITIONS.items():
        changed = (first == old) & (second == new)
        facts[kind] = facts[kind] | changed if kind in facts else changed
    return without_specks({kind: _without_lines(part) for kind, part in facts.items()})


def _without_lines(mask: np.ndarray) -> np.ndarray:
    """Remove lines one pixel wide: a shift by one pixel makes them along every shore and field."""
    return ndimage.binary_opening(np.pad(mask, 1, mode="edge"), np.ones((2, 2)))[1:-1, 1:-1]


def city_facts(before: np.ndarray, after: np.ndarray, mask: np.ndarray) -> dict[str, np.ndarray]:
    """Return masks by kind of change from a city's mask (H, W) and its dates (3, H, W), RGB.

    The dates are first matched in brightness by their unchanged pixels. A patch that was green and is no
    longer is "built over" (the mask is of construction), the reverse "greened"; otherwise it is "brightened"
    or "darkened" if its brightness changed by half of the city's deviation, and "rebuilt" if not.
    """
    first = before.astype(np.float32)
    second = _match_brightness(after.astype(np.float32), first, ~mask)
    dark = np.percentile(first[:, ~mask], 1, axis=1)[:, None, None]
    green = [excess_green(image - dark) for image in (first, second)]
    spread = float(first.mean(0)[~mask].std())
    labels, count = ndimage.label(mask, np.ones((3, 3)))
    every = np.arange(1, count + 1)
    old, new = (ndimage.mean(values, labels, every) for values in green)
    grey = [ndimage.mean(image.mean(0), labels, every) for image in (first, second)]
    kinds = _patch_kinds(old, new, (grey[1] - grey[0]) / spread)
    return without_specks({kind: np.isin(labels, every[chosen]) for kind, chosen in kinds.items()})


def _patch_kinds(old: np.ndarray, new: np.ndarray, brighter: np.ndarray) -> dict[str, np.ndarray]:
    built, greened = (old > 0.1) & (old - new > 0.08), (new > 0.1) & (new - old > 0.08)
    rest = ~(built | greened)
    return {
        "built over": built,
        "greened": greened,
        "brightened": rest & (brighter > 0.5),
        "darkened": rest & (brighter < -0.5),
        "rebuilt": rest & (np.abs(brighter) <= 0.5),
    }


def _match_brightness(image: np.ndarray, other: np.ndarray, where: np.ndarray) -> np.ndarray:
    """Give every band of ``image`` the median and quartile range of ``other`` at ``where``."""
    low, middle, high = np.percentile(image[:, where], (25, 50, 75), axis=1)[:, :, None, None]
    low2, middle2, high2 = np.percentile(other[:, where], (25, 50, 75), axis=1)[:, :, None, None]
    return (image - middle) * (high2 - low2) / np.maximum(high - low, 1) + middle2


def without_specks(facts: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Remove patches below :data:`SMALLEST` pixels, and kinds without any patch left."""
    cleaned = {}
    for kind, mask in facts.items():
        labels, _ = ndimage.label(mask, np.ones((3, 3)))
        large = np.bincount(labels.ravel()) >= SMALLEST
        large[0] = False
        if large.any():
            cleaned[kind] = large[labels]
    return cleaned

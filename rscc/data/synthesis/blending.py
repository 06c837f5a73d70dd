"""Puts buildings into an image and takes them out again, without a seam.

A piece is the building with some ground around it, laid over the image with an opacity that falls to nothing
over a few pixels. The colours of the piece are moved so that its border agrees with the ground it comes to
lie on, and of several places the one whose ground agrees best is taken. Pixels where the opacity is 0 are
untouched.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import scipy
from scipy import ndimage

Choice = TypeVar("Choice")

SOLID, SOFT = 2, 6
"""Pixels around a building that are taken along whole, and over which the piece then fades."""
SMOOTH = 13.0
"""Ground is where values within 11 x 11 pixels spread less than this: no roof edge, no car, no crown."""
PLACES = 24
"""Places that are compared."""
MISMATCH_IN, MISMATCH_OUT = 32.0, 14.0
"""Most difference (0..255) in colour and texture along the border of a piece and what it covers.

A building brings its shadow and its drive along, which may differ from a meadow; bare ground brings nothing.
"""


@dataclass(frozen=True)
class Blend:
    """An image after one building was put in or taken out.

    Attributes:
        image: (3, H, W) uint8.
        mask: (H, W) bool, the building.
        alpha: (H, W) float32 in 0..1; where it is 0 the image is as it was.
    """

    image: np.ndarray
    mask: np.ndarray
    alpha: np.ndarray


def match_colours(image: np.ndarray, model: np.ndarray) -> np.ndarray:
    """Give each channel of an image (3, H, W) uint8 the mean and spread it has in another one."""
    x, y = image.astype(np.float32), model.astype(np.float32)
    mean, spread = x.mean((1, 2), keepdims=True), x.std((1, 2), keepdims=True)
    aim, aim_spread = y.mean((1, 2), keepdims=True), y.std((1, 2), keepdims=True)
    # A flat image has no contrast to be stretched: noise and compression would come out.
    gain = np.clip(aim_spread / np.maximum(spread, 1), 0.5, 2)
    return np.clip(np.rint((x - mean) * gain + aim), 0, 255).astype(np.uint8)


def feather(mask: np.ndarray) -> np.ndarray:
    """Return the opacity of a piece of a mask (H, W) bool, (H, W) float32 in 0..1.

    It is 1 on the mask and ``SOLID`` pixels around, and 0 after ``SOFT`` more.
    """
    if not mask.any():
        return np.zeros(mask.shape, np.float32)
    away = ndimage.distance_transform_edt(~mask)
    return np.clip((SOLID + SOFT - away) / SOFT, 0, 1).astype(np.float32)


def find_ground(image: np.ndarray, built: np.ndarray) -> np.ndarray:
    """Return where an image (3, H, W) uint8 shows open ground: even, dry, neither paved nor built.

    What is known to be ``built``, (H, W) bool, is none.
    """
    x = image.astype(np.float32)
    grey = x.mean(0)
    # In the channel that shows most: a red roof may be as bright as the meadow around it.
    variance = [ndimage.uniform_filter(c**2, 11) - ndimage.uniform_filter(c, 11) ** 2 for c in x]
    spread = np.sqrt(np.maximum(np.max(variance, axis=0), 0))
    smooth = np.stack([ndimage.uniform_filter(channel, 5) for channel in x])
    # Roofs, roads and car parks are as even as a meadow, but brighter and greyer than most of the place.
    colour = np.ptp(smooth, axis=0)
    paved = (colour < 0.6 * np.median(colour)) & (grey > np.median(grey))
    # Water and shadow are darker.
    dark = grey < 0.75 * np.median(grey)
    return (spread < SMOOTH) & ~paved & ~dark & ~ndimage.binary_dilation(built, iterations=SOLID)


def insert_building(
    image: np.ndarray, ground: np.ndarray, donor: np.ndarray, building: np.ndarray, rng: np.random.Generator
) -> Blend | None:
    """Put a building of one image onto the open ground of another.

    Args:
        image: (3, H, W) uint8, the place.
        ground: (H, W) bool, where something may be put.
        donor: (3, H', W') uint8 the building stands in.
        building: (H', W') bool, the building alone.

    Returns:
        The new image, or None when the building fits nowhere.
    """
    window, alpha = _piece(building)
    patch = donor[(slice(None), *window)].astype(np.float32)
    around = max(1.0, float(patch[:, _border(alpha)].mean()))
    scored = []
    for place in _places(ground, alpha, rng):
        # The light of the new place falls on roof and ground alike; a roof keeps its contrast.
        exposure = float(np.clip(_under(image, place, alpha)[:, _border(alpha)].mean() / around, 0.6, 1.6))
        scored.append(((place, patch * exposure), _mismatch(image, place, patch * exposure, alpha)))
    best = _best(scored, MISMATCH_IN)
    return None if best is None else _lay(image, *best, alpha, building[window])


def remove_building(
    image: np.ndarray,
    ground: np.ndarray,
    building: np.ndarray,
    rng: np.random.Generator,
    *,
    earlier: np.ndarray | None = None,
) -> Blend | None:
    """Cover a building with open ground: of the same image, or of an earlier date of the place.

    Args:
        image: (3, H, W) uint8.
        ground: (H, W) bool, what may be copied.
        building: (H, W) bool, the building alone.
        earlier: (3, H, W) uint8 of the same place before the building stood there.

    Returns:
        The new image, or None when no piece of ground is like the one around the building.
    """
    window, alpha = _piece(building)
    height, width = alpha.shape
    target = (window[0].start, window[1].start)
    patches = [image[:, y : y + height, x : x + width] for y, x in _places(ground, alpha, rng)]
    if earlier is not None:
        patches.append(match_colours(earlier, image)[(slice(None), *window)])
    floats = [patch.astype(np.float32) for patch in patches]
    best = _best([(patch, _mismatch(image, target, patch, alpha)) for patch in floats], MISMATCH_OUT)
    return None if best is None else _lay(image, target, best, alpha, building[window])


def _piece(building: np.ndarray) -> tuple[tuple[slice, slice], np.ndarray]:
    """Return the window around a building and its fading ground, and the opacity in it."""
    alpha = feather(building)
    rows, columns = ndimage.find_objects((alpha > 0).astype(np.uint8))[0]
    return (rows, columns), alpha[rows, columns]


def _places(ground: np.ndarray, alpha: np.ndarray, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Draw (top, left) of windows in which all that is not transparent lies on ground."""
    if any(small < large for small, large in zip(ground.shape, alpha.shape, strict=True)):
        return []
    footprint = (alpha > 0).astype(np.float32)
    covered = scipy.signal.fftconvolve((~ground).astype(np.float32), footprint[::-1, ::-1], mode="valid")
    free = np.argwhere(covered < 0.5)
    chosen = rng.permutation(len(free))[:PLACES]
    return [(int(top), int(left)) for top, left in free[chosen]]


def _border(alpha: np.ndarray) -> np.ndarray:
    return (alpha > 0) & (alpha < 1)


def _mismatch(image: np.ndarray, place: tuple[int, int], patch: np.ndarray, alpha: np.ndarray) -> float:
    """Return how far a piece differs from what it is to cover, along its border: colour and texture."""
    border = _border(alpha)
    under, over = _under(image, place, alpha)[:, border], patch[:, border]
    return float(
        np.abs(under.mean(1) - over.mean(1)).mean() * 0.5 + np.abs(under.std(1) - over.std(1)).mean()
    )


def _best(scored: list[tuple[Choice, float]], most: float) -> Choice | None:
    """Return the place or piece with the least mismatch, if that is at most ``most``."""
    choice, least = min(scored, key=lambda one: one[1], default=(None, np.inf))
    return choice if least <= most else None


def _under(image: np.ndarray, place: tuple[int, int], alpha: np.ndarray) -> np.ndarray:
    top, left = place
    return image[:, top : top + alpha.shape[0], left : left + alpha.shape[1]].astype(np.float32)


def _lay(
    image: np.ndarray, place: tuple[int, int], patch: np.ndarray, alpha: np.ndarray, building: np.ndarray
) -> Blend:
    """Lay a piece over an image; its colours are moved towards those of the ground around it."""
    under = _under(image, place, alpha)
    border = _border(alpha)
    move = (under[:, border].mean(1) - patch[:, border].mean(1))[:, None, None]
    # All of the move on the ground that is taken along, less of it on the roof, whose colour is its own.
    roof = ndimage.gaussian_filter(building.astype(np.float32), 1.5)
    result = under * (1 - alpha) + (patch + move * (1 - 0.7 * roof)) * alpha
    top, left = place
    window = (slice(top, top + alpha.shape[0]), slice(left, left + alpha.shape[1]))
    changed = image.copy()
    changed[(slice(None), *window)] = np.clip(np.rint(result), 0, 255).astype(np.uint8)
    mask, full = np.zeros(image.shape[1:], bool), np.zeros(image.shape[1:], np.float32)
    mask[window], full[window] = building, alpha
    return Blend(changed, mask, full)

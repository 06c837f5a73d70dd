"""Inserts buildings into an image and removes them, without visible seams.

A patch is a building with some ground around it, blended into the image with an opacity that falls to 0 over
a few pixels. Its colours are shifted to match the ground along its border, and of several positions the one
with the best matching ground is used. Pixels with opacity 0 stay unchanged.
"""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import scipy
from scipy import ndimage

Choice = TypeVar("Choice")

SOLID, SOFT = 2, 6
"""Pixels around a building that are copied fully, and over which the patch then fades."""
SMOOTH = 13.0
"""Largest standard deviation within 11 x 11 pixels of open ground: no roof edge, no car, no tree crown."""
PLACES = 24
"""Number of positions that are compared."""
MISMATCH_IN, MISMATCH_OUT = 32.0, 14.0
"""Largest difference (0..255) in colour and texture between the border of a patch and the image below it.

A building brings its shadow and its drive along, which may differ from a meadow; bare ground does not.
"""


@dataclass(frozen=True)
class Blend:
    """An image after one building was inserted or removed.

    Attributes:
        image: (3, H, W) uint8.
        mask: (H, W) bool, the building.
        alpha: (H, W) float32 opacity in 0..1; where it is 0 the image is unchanged.
    """

    image: np.ndarray
    mask: np.ndarray
    alpha: np.ndarray


def match_colours(image: np.ndarray, model: np.ndarray) -> np.ndarray:
    """Give each channel of an image (3, H, W) uint8 the mean and deviation of another image."""
    x, y = image.astype(np.float32), model.astype(np.float32)
    mean, spread = x.mean((1, 2), keepdims=True), x.std((1, 2), keepdims=True)
    aim, aim_spread = y.mean((1, 2), keepdims=True), y.std((1, 2), keepdims=True)
    # Without limits the noise of a flat image would be amplified.
    gain = np.clip(aim_spread / np.maximum(spread, 1), 0.5, 2)
    return np.clip(np.rint((x - mean) * gain + aim), 0, 255).astype(np.uint8)


def find_ground(image: np.ndarray, built: np.ndarray) -> np.ndarray:
    """Return where an image (3, H, W) uint8 shows open ground: even, dry, not paved, not ``built`` (H, W)."""
    x = image.astype(np.float32)
    grey = x.mean(0)
    # The channel with the largest variance decides: a red roof may be as bright as the meadow around it.
    variance = [ndimage.uniform_filter(c**2, 11) - ndimage.uniform_filter(c, 11) ** 2 for c in x]
    spread = np.sqrt(np.maximum(np.max(variance, axis=0), 0))
    smooth = np.stack([ndimage.uniform_filter(channel, 5) for channel in x])
    # Roofs, roads and car parks are as even as a meadow, but brighter and greyer than most of the image.
    colour = np.ptp(smooth, axis=0)
    paved = (colour < 0.6 * np.median(colour)) & (grey > np.median(grey))
    # Water and shadow are darker.
    dark = grey < 0.75 * np.median(grey)
    return (spread < SMOOTH) & ~paved & ~dark & ~ndimage.binary_dilation(built, iterations=SOLID)


def insert_building(
    image: np.ndarray, ground: np.ndarray, donor: np.ndarray, building: np.ndarray, rng: np.random.Generator
) -> Blend | None:
    """Copy a building (H', W') bool of a donor (3, H', W') uint8 onto the open ground of an image.

    The image is (3, H, W) uint8, its ground (H, W) bool. Returns None if the building fits nowhere.
    """
    window, alpha = _patch_window(building)
    patch = donor[(slice(None), *window)].astype(np.float32)
    around = max(1.0, float(patch[:, _border(alpha)].mean()))
    scored = []
    for place in _places(ground, alpha, rng):
        # The light of the new place changes roof and ground equally, so the contrast of the roof stays.
        exposure = float(np.clip(_below(image, place, alpha)[:, _border(alpha)].mean() / around, 0.6, 1.6))
        scored.append(((place, patch * exposure), _mismatch(image, place, patch * exposure, alpha)))
    best = _best(scored, MISMATCH_IN)
    return None if best is None else _blend(image, *best, alpha, building[window])


def remove_building(
    image: np.ndarray,
    ground: np.ndarray,
    building: np.ndarray,
    rng: np.random.Generator,
    *,
    earlier: np.ndarray | None = None,
) -> Blend | None:
    """Cover a building (H, W) bool of an image (3, H, W) uint8 with its open ground, or with an earlier date.

    ``ground`` (H, W) bool may be copied, and so may ``earlier``, (3, H, W) uint8 of the same place before the
    building stood there. Returns None if no patch matches the ground around the building.
    """
    window, alpha = _patch_window(building)
    height, width = alpha.shape
    target = (window[0].start, window[1].start)
    patches = [image[:, y : y + height, x : x + width] for y, x in _places(ground, alpha, rng)]
    if earlier is not None:
        patches.append(match_colours(earlier, image)[(slice(None), *window)])
    floats = [patch.astype(np.float32) for patch in patches]
    best = _best([(patch, _mismatch(image, target, patch, alpha)) for patch in floats], MISMATCH_OUT)
    return None if best is None else _blend(image, target, best, alpha, building[window])


def _patch_window(building: np.ndarray) -> tuple[tuple[slice, slice], np.ndarray]:
    """Return the window of a building with its fading ground, and the opacity in it."""
    distance = ndimage.distance_transform_edt(~building)
    alpha = np.clip((SOLID + SOFT - distance) / SOFT, 0, 1).astype(np.float32)
    rows, columns = ndimage.find_objects((alpha > 0).astype(np.uint8))[0]
    return (rows, columns), alpha[rows, columns]


def _places(ground: np.ndarray, alpha: np.ndarray, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Draw (top, left) of windows in which everything with an opacity above 0 lies on ground."""
    if any(small < large for small, large in zip(ground.shape, alpha.shape, strict=True)):
        return []
    footprint = (alpha > 0).astype(np.float32)
    covered = scipy.signal.fftconvolve((~ground).astype(np.float32), footprint[::-1, ::-1], mode="valid")
    free = np.argwhere(covered < 0.5)
    return [(int(top), int(left)) for top, left in free[rng.permutation(len(free))[:PLACES]]]


def _border(alpha: np.ndarray) -> np.ndarray:
    return (alpha > 0) & (alpha < 1)


def _mismatch(image: np.ndarray, place: tuple[int, int], patch: np.ndarray, alpha: np.ndarray) -> float:
    """Return the difference in colour and texture between a patch and what it covers, along its border."""
    border = _border(alpha)
    below, above = _below(image, place, alpha)[:, border], patch[:, border]
    colour, texture = np.abs(below.mean(1) - above.mean(1)), np.abs(below.std(1) - above.std(1))
    return float(colour.mean() * 0.5 + texture.mean())


def _best(scored: list[tuple[Choice, float]], most: float) -> Choice | None:
    choice, least = min(scored, key=lambda pair: pair[1], default=(None, np.inf))
    return choice if least <= most else None


def _below(image: np.ndarray, place: tuple[int, int], alpha: np.ndarray) -> np.ndarray:
    top, left = place
    return image[:, top : top + alpha.shape[0], left : left + alpha.shape[1]].astype(np.float32)


def _blend(
    image: np.ndarray, place: tuple[int, int], patch: np.ndarray, alpha: np.ndarray, building: np.ndarray
) -> Blend:
    """Blend a patch into an image; its colours are shifted to those of the ground around it."""
    below, border = _below(image, place, alpha), _border(alpha)
    shift = (below[:, border].mean(1) - patch[:, border].mean(1))[:, None, None]
    # The full shift on the copied ground, less of it on the roof, whose colour is its own.
    roof = ndimage.gaussian_filter(building.astype(np.float32), 1.5)
    result = below * (1 - alpha) + (patch + shift * (1 - 0.7 * roof)) * alpha
    top, left = place
    window = (slice(top, top + alpha.shape[0]), slice(left, left + alpha.shape[1]))
    changed = image.copy()
    changed[(slice(None), *window)] = np.clip(np.rint(result), 0, 255).astype(np.uint8)
    mask, opacity = np.zeros(image.shape[1:], bool), np.zeros(image.shape[1:], np.float32)
    mask[window], opacity[window] = building, alpha
    return Blend(changed, mask, opacity)

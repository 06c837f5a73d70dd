"""Random changes of the appearance of a date: light, weather, sensor, registration, shadows and cars."""

from collections.abc import Sequence

import numpy as np
from scipy import ndimage

from rscc.data.augmentation import DISTURBANCES, disturb, jitter_colour, shift_image

_CAR_COLOURS: Sequence[np.ndarray] = [
    np.array(colour, np.float32)
    for colour in ((235, 235, 232), (40, 40, 45), (150, 152, 155), (140, 40, 38), (50, 66, 110))
]


def relight(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Change light and sharpness of a date (3, H, W) uint8 at random."""
    image = jitter_colour(image, rng, float(rng.uniform(0.05, 0.25)))
    return disturb(image, rng, float(rng.uniform(0.1, 0.5)))


def disturb_scene(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Disturb a date (3, H, W) uint8: light, weather, sensor, registration, shadows and cars."""
    if rng.random() < 0.4:
        image = add_cars(image, rng)
    if rng.random() < 0.3:
        image = add_shadow(image, rng)
    image = jitter_colour(image, rng, float(rng.uniform(0.05, 0.35)))
    chosen = rng.random(len(DISTURBANCES)) < 0.35
    for applies, change in zip(chosen, DISTURBANCES.values(), strict=True):
        if applies:
            image = change(image, rng, float(rng.uniform(0.2, 0.9)))
    return shift_image(image, rng, 1) if rng.random() < 0.5 else image


def add_shadow(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Darken one soft-edged ellipse of an image (3, H, W) uint8, like the shadow of a cloud or tree."""
    height, width = image.shape[1:]
    y, x = np.mgrid[:height, :width] / max(height, width)
    top, left = rng.uniform(0, 1, 2)
    angle, long, short = rng.uniform(0, np.pi), rng.uniform(0.06, 0.3), rng.uniform(0.04, 0.12)
    along = (x - left) * np.cos(angle) + (y - top) * np.sin(angle)
    across = (y - top) * np.cos(angle) - (x - left) * np.sin(angle)
    inside = (along / long) ** 2 + (across / short) ** 2 < 1
    soft = ndimage.gaussian_filter(inside.astype(np.float32), float(rng.uniform(1, 6)))
    dark = np.array([0.95, 1.0, 1.1])[:, None, None] * float(rng.uniform(0.4, 0.75))
    return np.clip(np.rint(image * (1 - soft * (1 - dark))), 0, 255).astype(np.uint8)


def add_cars(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw up to six car-sized blobs (about 2 x 4.5 m) on grey, even ground such as roads."""
    grey = image.astype(np.float32)
    even = ndimage.generic_gradient_magnitude(grey.mean(0), ndimage.sobel) < 60
    paved = (np.ptp(grey, axis=0) < 30) & (np.abs(grey.mean(0) - 130) < 60) & even
    places = np.argwhere(ndimage.binary_erosion(paved, np.ones((5, 5))))
    if not len(places):
        return image
    result = grey.copy()
    y, x = np.mgrid[: image.shape[1], : image.shape[2]]
    for row, column in places[rng.integers(len(places), size=int(rng.integers(1, 7)))]:
        angle = rng.uniform(0, np.pi)
        along = (x - column) * np.cos(angle) + (y - row) * np.sin(angle)
        across = (y - row) * np.cos(angle) - (x - column) * np.sin(angle)
        body = (np.abs(along) < 4.5) & (np.abs(across) < 2.1)
        soft = ndimage.gaussian_filter(body.astype(np.float32), 0.7)
        colour = _CAR_COLOURS[int(rng.integers(len(_CAR_COLOURS)))][:, None, None]
        result = result * (1 - soft) + colour * soft
    return np.clip(np.rint(result), 0, 255).astype(np.uint8)

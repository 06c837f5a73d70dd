"""Augmentations: light, haze, season, sharpness, registration and cars of images of an unchanged place.

Every disturbance is a pure function of (image, generator, strength): image and result are (3, H, W) uint8,
strength is above 0 and at most 1. None of them changes the ground, so captions and masks stay true.
"""

import io
from dataclasses import replace

import numpy as np
from PIL import Image, ImageFilter
from scipy import ndimage

from rscc.data.pairs import PairSample, flip_sample, map_arrays, resize_sample
from rscc.images import resize

_CAR_COLOURS = [
    np.array(colour, np.float32)
    for colour in ((235, 235, 232), (40, 40, 45), (150, 152, 155), (140, 40, 38), (50, 66, 110))
]


def random_crop(sample: PairSample, side: int, size: int, rng: np.random.Generator) -> PairSample:
    """Cut out a random square of ``side`` pixels (all of a smaller image) and resize it to ``size``."""
    height, width = sample.before.shape[1:]
    cut_h, cut_w = min(side, height), min(side, width)
    top, left = int(rng.integers(height - cut_h + 1)), int(rng.integers(width - cut_w + 1))
    cut = map_arrays(sample, lambda array: array[..., top : top + cut_h, left : left + cut_w])
    return resize_sample(cut, size)


def jitter_colour(image: np.ndarray, rng: np.random.Generator, strength: float) -> np.ndarray:
    """Change brightness, contrast, colour balance and gamma of one date at random."""
    curve = (np.arange(256) / 255) ** np.exp(rng.normal(0, 0.6 * strength))  # of all 256 values
    gain = np.exp(rng.normal(0, 0.5 * strength, (3, 1)) * 0.5 + rng.normal(0, 0.5 * strength))
    shares = np.stack([np.bincount(band.ravel(), minlength=256) for band in image]) / image[0].size
    mean = shares @ curve[:, None]  # (3, 1)
    table = (curve - mean) * np.exp(rng.normal(0, 0.6 * strength)) + mean * gain
    table = np.clip(table * 255, 0, 255).astype(np.uint8)
    return np.stack([values[band] for values, band in zip(table, image, strict=True)])


def shift_image(image: np.ndarray, rng: np.random.Generator, most: int) -> np.ndarray:
    """Move one date by up to ``most`` whole pixels, edges repeated: imperfect co-registration."""
    dy, dx = (int(v) for v in rng.integers(-most, most + 1, 2))
    padded = np.pad(image, ((0, 0), (most, most), (most, most)), mode="edge")
    height, width = image.shape[1:]
    return np.ascontiguousarray(padded[:, most + dy : most + dy + height, most + dx : most + dx + width])


def shift_subpixel(image: np.ndarray, rng: np.random.Generator, strength: float) -> np.ndarray:
    """Move one date by up to 1.5 times ``strength`` pixels along each axis, bilinear, edges repeated."""
    moved = rng.uniform(-1.5, 1.5, 2) * strength
    top, left = np.floor(moved).astype(int) + 2
    down, right = (moved - np.floor(moved)).astype(np.float32)
    height, width = image.shape[1:]
    x = np.pad(image.astype(np.float32), ((0, 0), (2, 3), (2, 3)), mode="edge")
    x = x[:, top : top + height + 1, left : left + width + 1]
    x = x[:, :-1] * (1 - down) + x[:, 1:] * down
    return _as_bytes(x[..., :-1] * (1 - right) + x[..., 1:] * right)


def haze(image: np.ndarray, rng: np.random.Generator, strength: float) -> np.ndarray:
    """Add a bright, slightly blue veil of uneven opacity, up to 0.7 times ``strength``."""
    light = rng.uniform(200, 245) + np.array([-6, 0, 8], np.float32)[:, None, None]
    coarse = rng.uniform(0.5, 1.0, (3, 3)).astype(np.float32)
    height, width = image.shape[1:]
    veil = ndimage.zoom(coarse, (height / 3, width / 3), order=1)
    veil *= 0.7 * strength * float(rng.uniform(0.3, 1))
    return _as_bytes(image * (1 - veil) + light * veil)


def tint(image: np.ndarray, rng: np.random.Generator, strength: float) -> np.ndarray:
    """Shift greens to brown, or browns to green, as seasons do; other colours follow a little."""
    x = image.astype(np.float32)
    turn = strength * float(rng.uniform(0.3, 1)) * (1 if rng.random() < 0.5 else -1)  # above 0: browner
    plants = np.clip((2 * x[1] - x[0] - x[2]) / 40 + 0.5, 0, 1)  # (H, W)
    amount = turn * (0.3 + 0.7 * plants)
    factors = np.array([0.35, -0.15, -0.2], np.float32)[:, None, None]
    return _as_bytes(x * np.exp(factors * amount))


def blur(image: np.ndarray, rng: np.random.Generator, strength: float) -> np.ndarray:
    """Blur with a Gaussian of up to 1.5 times ``strength`` pixels."""
    filtered = _to_pillow(image).filter(ImageFilter.GaussianBlur(float(rng.uniform(0.4, 1.5)) * strength))
    return _from_pillow(filtered)


def coarsen(image: np.ndarray, rng: np.random.Generator, strength: float) -> np.ndarray:
    """Shrink to at least 1 / (1 + ``strength``) of the side and enlarge again: a coarser sensor."""
    height, width = image.shape[1:]
    factor = 1 + strength * float(rng.uniform(0.3, 1))
    small = (max(1, round(height / factor)), max(1, round(width / factor)))
    return resize(resize(image, small), (height, width))


def jpeg(image: np.ndarray, rng: np.random.Generator, strength: float) -> np.ndarray:
    """Compress as JPEG with a quality of at least 95 - 70 ``strength``."""
    quality = round(95 - 70 * strength * float(rng.uniform(0.3, 1)))
    file = io.BytesIO()
    _to_pillow(image).save(file, "JPEG", quality=quality)
    with Image.open(file) as opened:
        return _from_pillow(opened.convert("RGB"))


DISTURBANCES = {
    "tint": tint,
    "haze": haze,
    "blur": blur,
    "coarsen": coarsen,
    "shift": shift_subpixel,
    "jpeg": jpeg,
}
"""All disturbances by name, in the order of their causes: nature, optics, storage."""


def disturb(image: np.ndarray, rng: np.random.Generator, strength: float) -> np.ndarray:
    """Apply every disturbance with a probability of 0.3; a ``strength`` of 0 draws nothing."""
    if strength > 0:
        for change in DISTURBANCES.values():
            if rng.random() < 0.3:
                image = change(image, rng, strength)
    return image


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
    return _as_bytes(image * (1 - soft * (1 - dark)))


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
    return _as_bytes(result)


def augment_for_masks(sample: PairSample, rng: np.random.Generator, disturbance: float = 0.0) -> PairSample:
    """Augment a sample without captions: rotation, swapped dates, flip, colours, shift, disturbances."""
    turns = int(rng.integers(4))
    sample = map_arrays(sample, lambda array: np.rot90(array, turns, (-2, -1)))
    if rng.random() < 0.5:
        sample = replace(sample, before=sample.after, after=sample.before)
    sample = flip_sample(sample, "horizontal" if rng.random() < 0.5 else "none")
    dates = (sample.before, sample.after)
    before, after = (jitter_colour(date, rng, 0.3) if rng.random() < 0.7 else date for date in dates)
    if rng.random() < 0.3:
        after = shift_image(after, rng, 2)
    before, after = (disturb(date, rng, disturbance) for date in (before, after))
    return replace(sample, before=before, after=after)


def _as_bytes(x: np.ndarray) -> np.ndarray:
    return np.clip(np.rint(x), 0, 255).astype(np.uint8)


def _to_pillow(image: np.ndarray) -> Image.Image:
    return Image.fromarray(np.ascontiguousarray(image.transpose(1, 2, 0)))


def _from_pillow(image: Image.Image) -> np.ndarray:
    return np.ascontiguousarray(np.asarray(image).transpose(2, 0, 1))

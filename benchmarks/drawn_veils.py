"""Draw what hides the ground on one date: veils of haze, clouds with their shadows; and what looks like them.

A veil of opacity a and light A turns the ground J into::

    I(x) = (1 - a(x)) J(x) + a(x) A

(Koschmieder's law, as in He et al., "Single image haze removal using dark channel prior", 2009); a shadow
that takes the share s of the light into ``(1 - s(x)) J(x)``. A cloud is a veil that is opaque inside.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw
from scipy import ndimage

TINTED, BROWN = 0.5, 0.7
"""Shares of haze that is coloured, and of this that is brown or yellow; the rest is blue."""
SOIL = 0.3
"""Share of look-alikes that are as brown as bare soil."""


@dataclass(frozen=True)
class Veiled:
    """A date as a camera would see it.

    Attributes:
        image: (3, h, w) uint8.
        opacity: (h, w) float32 in 0..1, of haze and cloud together.
        shade: (h, w) float32 in 0..1, share of the light that a cloud takes.
    """

    image: np.ndarray
    opacity: np.ndarray
    shade: np.ndarray


def with_haze(image: np.ndarray, opacity: np.ndarray | float, light: np.ndarray | float = 235.0) -> Veiled:
    """Lay a veil over (3, h, w) uint8; ``opacity`` is one number or (h, w), ``light`` one or (3,)."""
    none = np.zeros(image.shape[1:], np.float32)
    return _seen(image, none + opacity, none, np.asarray(light, np.float32))


def with_clouds(
    image: np.ndarray, rng: np.random.Generator, *, thinnest: float = 0.95, small: bool = False
) -> Veiled:
    """Draw clouds of one kind and their shadows over (3, h, w) uint8; the thinner, the less even.

    Args:
        thinnest: least opacity of the densest part.
        small: whether most round ones have radii of 4 to 50 pixels.
    """
    density, noise = rng.uniform(thinnest, 1.0), _noise(image.shape[1:], rng, rng.uniform(15, 120))
    thinned = (1 - density) * np.clip(0.5 + 0.5 * noise, 0, 1)
    opacity = _cloud(image.shape[1:], rng, small) * density * (1 - thinned)
    way, reach = rng.uniform(0, 2 * np.pi), rng.uniform(0.05, 0.5) * max(opacity.shape)
    shade = ndimage.shift(opacity, (reach * np.sin(way), reach * np.cos(way)), order=0)
    shade = _blurred(shade, rng.uniform(0, 12)) * rng.uniform(0.3, 0.7)
    light = rng.uniform(220, 255) + rng.normal(0, 2, 3)
    texture = rng.uniform(0, 15) * _noise(opacity.shape, rng, rng.uniform(20, 120))
    return _seen(image, opacity, shade.astype(np.float32), light + texture[..., None])


def with_weather(image: np.ndarray, rng: np.random.Generator) -> Veiled:
    """Draw haze, clouds or both over (3, h, w) uint8, for training."""
    shape, kind = image.shape[1:], rng.choice(3, p=(0.4, 0.45, 0.15))
    drawn = with_haze(image, 0.0)
    if kind != 0:
        drawn = with_clouds(image, rng, thinnest=0.95 if rng.random() < 0.6 else 0.4)
    if kind != 1:
        light = _haze_light(rng)
        veil = with_haze(drawn.image, rng.uniform(0.05, 0.95) * _spread(shape, rng), light)
        opacity = 1 - (1 - drawn.opacity) * (1 - veil.opacity)
        drawn = Veiled(veil.image, opacity, drawn.shade)
    return drawn


def with_look_alikes(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw white roofs and dark, flat ground with sharp edges into (3, h, w) uint8: no weather."""
    height, width = image.shape[1:]
    mask = Image.new("L", (width, height))
    draw = ImageDraw.Draw(mask)
    for _ in range(rng.integers(1, 6)):
        sides, turn = rng.uniform(8, 140, 2) / 2, rng.uniform(0, np.pi)
        corners = np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)]) * sides
        spin = np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])
        centre = rng.uniform(0, (width, height))
        draw.polygon([tuple(corner) for corner in (corners @ spin + centre).tolist()], fill=255)
    drawn = _blurred(np.asarray(mask, np.float32) / 255, 0.6)
    colour = rng.uniform(190, 255) if rng.random() < 0.85 else rng.uniform(20, 80)
    colour += rng.normal(0, 6, 3) - (rng.random() < SOIL) * rng.uniform(20, 90) * np.array((0, 0.5, 1))
    flat = colour[:, None, None] + rng.normal(0, rng.uniform(0, 5), image.shape)
    return _rounded(image * (1 - drawn) + flat * drawn)


def with_other_light(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return (3, h, w) uint8 as under another sun and camera: gamma, gain and tint."""
    gain = rng.uniform(0.8, 1.2) * (1 + rng.normal(0, 0.03, (3, 1, 1)))
    return _rounded(255 * (image / 255.0) ** rng.uniform(0.8, 1.25) * gain)


def _haze_light(rng: np.random.Generator) -> np.ndarray:
    """Return the light of haze, (3,): grey, brown or yellow as of smoke and dust, or blue."""
    grey = rng.uniform(200, 250) + rng.normal(0, 4, 3)
    if rng.random() >= TINTED:
        return np.asarray(grey)
    tint = rng.uniform(20, 120) * np.array((0, rng.uniform(0.2, 0.8), 1))
    darker = rng.uniform(0, 40)
    return np.asarray(grey - darker - (tint if rng.random() < BROWN else tint[::-1]))


def _seen(image: np.ndarray, opacity: np.ndarray, shade: np.ndarray, light: np.ndarray) -> Veiled:
    """Apply shade and veil; ``light`` is () or (3,), or (h, w, 3)."""
    pixels = image.transpose(1, 2, 0) * (1 - shade[..., None])
    pixels += opacity[..., None] * (light - pixels)
    return Veiled(_rounded(pixels.transpose(2, 0, 1)), opacity, shade)


def _cloud(shape: tuple[int, ...], rng: np.random.Generator, small: bool = False) -> np.ndarray:
    """Return the opacity of clouds, (h, w) float32: 1 inside, with edges from sharp to very soft."""
    noise = _noise(shape, rng, rng.uniform(30, 250))
    if rng.random() < 0.5:
        level = noise - np.quantile(noise, rng.uniform(0.4, 0.95))
    else:
        level = _bumps(shape, rng, small and rng.random() < 0.7) + rng.uniform(0, 0.4) * noise
    softness = np.exp(rng.uniform(np.log(0.03), np.log(1.0)))
    edge = np.clip(level / softness, 0, 1)
    return np.asarray(edge * edge * (3 - 2 * edge), np.float32)


def _bumps(shape: tuple[int, ...], rng: np.random.Generator, small: bool) -> np.ndarray:
    """Return (h, w) float32, above 0 in a few ellipses."""
    rows, cols = np.ogrid[: shape[0], : shape[1]]
    level = np.full(shape, -np.inf, np.float32)
    for _ in range(rng.integers(1, 6)):
        row, col = rng.uniform(0, shape)
        radius = np.exp(rng.uniform(*np.log((7, 50)))) if small else rng.uniform(12, 0.45 * max(shape))
        radii = radius * rng.uniform(0.5, 1.0, 2)
        far = np.hypot((rows - row) / radii[0], (cols - col) / radii[1])
        level = np.maximum(level, 1 - far)
    return level


def _spread(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Return where a veil lies, (h, w) float32 in 0..1: everywhere, behind a front, or in banks."""
    kind = rng.choice(3, p=(0.4, 0.3, 0.3))
    if kind == 0:
        return np.ones(shape, np.float32)
    if kind == 1:
        way = rng.uniform(0, 2 * np.pi)
        rows, cols = np.ogrid[: shape[0], : shape[1]]
        along = (rows - rng.uniform(0, shape[0])) * np.sin(way) + (cols - rng.uniform(0, shape[1])) * np.cos(
            way
        )
        return np.asarray(1 / (1 + np.exp(-along / rng.uniform(1, 80))), np.float32)
    noise = _noise(shape, rng, rng.uniform(150, 400))
    return np.asarray(np.clip(0.5 + rng.uniform(0.3, 1.0) * noise, 0, 1), np.float32)


def _noise(shape: tuple[int, ...], rng: np.random.Generator, coarsest: float) -> np.ndarray:
    """Return fractal noise (h, w) float32 of mean 0 and deviation 1; its largest structures in pixels."""
    total, size, weight = np.zeros(shape, np.float32), coarsest, 1.0
    while size > 4:
        cells = tuple(int(side / size) + 2 for side in shape)
        grid = Image.fromarray(rng.normal(0, 1, cells).astype(np.float32))
        total += weight * np.asarray(grid.resize((shape[1], shape[0]), Image.Resampling.BICUBIC))
        size, weight = size / 2, weight * 0.5
    return np.asarray((total - total.mean()) / max(float(total.std()), 1e-6), np.float32)


def _blurred(values: np.ndarray, deviation: float) -> np.ndarray:
    return np.asarray(ndimage.gaussian_filter(values, deviation) if deviation > 0.3 else values)


def _rounded(values: np.ndarray) -> np.ndarray:
    return np.rint(np.clip(values, 0, 255)).astype(np.uint8)

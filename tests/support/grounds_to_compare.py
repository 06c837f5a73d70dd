"""Drawn pictures that look like ground from above: fields, roads, houses; each seed another place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageOps
from scipy.ndimage import gaussian_filter


def drawn_ground(seed: int, size: int = 256) -> Image.Image:
    """Return an RGB picture of fields of noise with roads and houses."""
    rng = np.random.default_rng(seed)
    noise = sum(gaussian_filter(rng.normal(size=(size, size)), sigma) * sigma for sigma in (1, 3, 9, 20))
    image = Image.fromarray(np.clip(110 + 45 * noise, 0, 255).astype(np.uint8)).convert("RGB")
    pen = ImageDraw.Draw(image)
    for _ in range(4):
        (x, y), (u, v) = rng.uniform(0, size, (2, 2))
        pen.line([(x, 0), (u, y), (v, size)], fill=(160, 155, 150), width=7)
    for _ in range(25):
        x, y = rng.integers(0, size - 20, 2).tolist()
        width, height = rng.integers(8, 20, 2).tolist()
        pen.rectangle([x, y, x + width, y + height], fill=tuple(rng.integers(40, 240, 3).tolist()))
    return image


def planted(image: Image.Image, *, side: int, zoom: float, turns: int, mirrored: bool) -> Image.Image:
    """Return a piece of a picture, ``side`` pixels from (30, 20), zoomed, turned, mirrored and recoloured."""
    piece = image.crop((30, 20, 30 + side, 20 + side))
    piece = piece.resize((round(side * zoom),) * 2, Image.Resampling.BICUBIC).rotate(90 * turns)
    piece = ImageOps.mirror(piece) if mirrored else piece
    colours = np.asarray(piece, float) * (1.2, 0.8, 0.7) + (-20, 10, 30)
    return Image.fromarray((255 * (np.clip(colours, 0, 255) / 255) ** 0.8).astype(np.uint8))


def write_grounds(folder: Path, seeds: range, suffix: str = ".png") -> list[Path]:
    """Write one picture a seed."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{seed:04d}{suffix}" for seed in seeds]
    for path, seed in zip(paths, seeds, strict=True):
        drawn_ground(seed).save(path)
    return paths

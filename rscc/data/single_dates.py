"""Images of one date with masks of what stands there: their index, and crops with roads."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from rscc.data.pairs import read_mask, read_rgb
from rscc.errors import DatasetLayoutInvalid
from rscc.images import resize


def read_single_date(root: Path) -> list[tuple[Path, str, float]]:
    """Return (image, class, metres per pixel) of every row of a folder of single dates.

    It has ``index.csv`` with columns file, class and gsd_m, ``image/`` and, by the same names, ``mask/``.

    Raises:
        DatasetLayoutInvalid: it has another layout.
    """
    try:
        return [
            (root / "image" / row["file"], row["class"], metres(row["gsd_m"])) for row in read_index(root)
        ]
    except (KeyError, ValueError, TypeError) as error:
        raise DatasetLayoutInvalid(
            f"{root / 'index.csv'}: a row lacks a column or a number ({error})"
        ) from error


def read_index(root: Path) -> list[dict[str, str]]:
    """Return the rows of ``index.csv`` of a folder by their columns.

    Raises:
        DatasetLayoutInvalid: there is none, or it is no table.
    """
    index = root / "index.csv"
    if not index.is_file():
        raise DatasetLayoutInvalid(f"{root}: no index.csv there; give the folder that holds it")
    return read_rows(index)


def read_rows(table: Path) -> list[dict[str, str]]:
    """Return the rows of a table in CSV by their columns.

    Raises:
        DatasetLayoutInvalid: it is no table.
    """
    try:
        with table.open(newline="", encoding="utf-8-sig") as file:
            return [{key: value or "" for key, value in row.items() if key} for row in csv.DictReader(file)]
    except (OSError, ValueError, csv.Error) as error:
        raise DatasetLayoutInvalid(f"{table}: cannot be read as a table in UTF-8 ({error})") from error


def metres(text: str) -> float:
    """Return metres per pixel.

    Raises:
        ValueError: it is no number above 0.
    """
    if not 0 < (value := float(text)) < math.inf:
        raise ValueError(f"{value} is no number of metres")
    return value


def mask_of(image: Path) -> Path:
    """Return the file of the mask of an image."""
    return image.parent.parent / "mask" / image.name


def read_roads(root: Path) -> list[tuple[Path, float]]:
    """Return (image, metres per pixel) of the images of class road; at least one.

    Raises:
        DatasetLayoutInvalid: the folder has another layout, or no roads.
    """
    rows = [(path, own) for path, kind, own in read_single_date(root) if kind == "road"]
    if not rows:
        raise DatasetLayoutInvalid(f"{root / 'index.csv'}: no image of class road to learn from")
    return rows


def road_crops(root: Path, size: int, gsd: float) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield name, image (3, size, size) uint8 and road (size, size) bool of crops at ``gsd`` metres a pixel.

    An image that is smaller than a crop is enlarged to one.

    Raises:
        DatasetLayoutInvalid: the folder has another layout, no roads, or an image cannot be read.
    """
    for path, own in read_roads(root):
        image, mask = read_rgb(path), read_mask(mask_of(path))
        factor = max(own / gsd, size / min(mask.shape))
        shape = (max(size, round(mask.shape[0] * factor)), max(size, round(mask.shape[1] * factor)))
        image, mask = resize(image, shape), resize(mask, shape)
        for top in _starts(shape[0], size):
            for left in _starts(shape[1], size):
                rows_cols = slice(top, top + size), slice(left, left + size)
                yield path.name, image[:, *rows_cols], mask[rows_cols]


def _starts(length: int, size: int) -> list[int]:
    count = max(1, round(length / size))
    return [round(start) for start in np.linspace(0, length - size, count)]

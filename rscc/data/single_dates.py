"""Tables of images: folders of single dates with masks, their index, and crops with roads."""

import csv
import io
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import numpy as np

from rscc.data.pairs import read_mask, read_rgb
from rscc.errors import DatasetLayoutInvalid
from rscc.files import read_file
from rscc.images import resize

Row = TypeVar("Row")


def index_of(root: Path) -> Path:
    """Return ``index.csv`` of a folder."""
    index = root / "index.csv"
    if not index.is_file():
        raise DatasetLayoutInvalid(f"{root}: no index.csv there; give the folder that holds it")
    return index


def read_rows(table: Path) -> list[dict[str, str]]:
    """Return the rows of a table in CSV, by column."""
    try:
        lines = io.StringIO(read_file(table).decode("utf-8-sig"), newline="")
        return [{key: value or "" for key, value in row.items() if key} for row in csv.DictReader(lines)]
    except (OSError, ValueError, csv.Error) as error:
        raise DatasetLayoutInvalid(f"{table}: cannot be read as a table in UTF-8 ({error})") from error


def converted_rows(table: Path, convert: Callable[[dict[str, str]], Row]) -> list[Row]:
    """Return what ``convert`` makes of each row of a table; it raises ValueError for a bad value.

    Raises:
        DatasetLayoutInvalid: it is no table, lacks a column, or has a bad value; the message names the line.
    """
    rows = []
    for line, row in enumerate(read_rows(table), 2):
        try:
            rows.append(convert(row))
        except KeyError as error:
            raise DatasetLayoutInvalid(f"{table}: has no column {error}") from error
        except ValueError as error:
            raise DatasetLayoutInvalid(f"{table}, line {line}: {error}") from error
    return rows


def metres(text: str) -> float:
    """Return metres per pixel."""
    if not 0 < (value := float(text)) < math.inf:
        raise ValueError(f"{value} is no number of metres")
    return value


def read_single_date(root: Path) -> list[tuple[Path, str, float]]:
    """Return (image, class, metres per pixel) of every row of a folder of single dates.

    It has ``index.csv`` with columns file, class and gsd_m, ``image/`` and, by the same names, ``mask/``.
    """
    return converted_rows(
        index_of(root), lambda row: (root / "image" / row["file"], row["class"], metres(row["gsd_m"]))
    )


def mask_of(image: Path) -> Path:
    """Return the mask file of an image."""
    return image.parent.parent / "mask" / image.name


def read_roads(root: Path) -> list[tuple[Path, float]]:
    """Return (image, metres per pixel) of the images of class road; at least one."""
    rows = [(path, gsd) for path, kind, gsd in read_single_date(root) if kind == "road"]
    if not rows:
        raise DatasetLayoutInvalid(f"{root / 'index.csv'}: no image of class road to learn from")
    return rows


def road_crops(root: Path, size: int, gsd: float) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield name, image (3, size, size) uint8 and road (size, size) bool of crops at ``gsd`` metres a pixel.

    An image smaller than a crop is enlarged.
    """
    for path, own in read_roads(root):
        image, mask = read_rgb(path), read_mask(mask_of(path))
        factor = max(own / gsd, size / min(mask.shape))
        height, width = (max(size, round(side * factor)) for side in mask.shape)
        image, mask = resize(image, (height, width)), resize(mask, (height, width))
        for top in _starts(height, size):
            for left in _starts(width, size):
                window = slice(top, top + size), slice(left, left + size)
                yield path.name, image[:, *window], mask[window]


def _starts(length: int, size: int) -> list[int]:
    count = max(1, round(length / size))
    return [round(start) for start in np.linspace(0, length - size, count)]

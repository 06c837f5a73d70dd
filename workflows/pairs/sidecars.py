"""What text files beside a scene say of its date and clouds: of Landsat, Sentinel-2, Planet, STAC items."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from tiling import plain_only

# Names under which providers give the time of acquisition and the share of clouds in percent.
_DATES = (
    "DATE_ACQUIRED",
    "ACQUISITION_DATE",
    "SENSING_TIME",
    "DATATAKE_SENSING_START",
    "PRODUCT_START_TIME",
    "datetime",
    "acquired",
)
_CLOUDS = (
    "CLOUD_COVER",
    "eo:cloud_cover",
    "CLOUDY_PIXEL_PERCENTAGE",
    "Cloud_Coverage_Assessment",
    "cloud_percent",
)
_SUFFIXES = (".txt", ".json", ".xml")
_ENDING = re.compile(r"[_.-](mtl|metadata|meta|stac|item|tiff?|jp2)$", re.IGNORECASE)
# One such file speaks for every scene in its folder.
_OF_FOLDER = re.compile(r"mtd(_\w+)?|mtl|metadata", re.IGNORECASE)
_JOINT = re.compile(r"[_.-]")
_MOST_BYTES = 2**20


def tag_clouds(tags: Iterable[tuple[str, str]]) -> float | None:
    """Return the cloud cover in percent that the tags of a raster state, None where they do not."""
    upper = {key.upper(): value for key, value in tags}
    clouds = (percent(upper.get(name.upper(), "")) for name in _CLOUDS)
    return next((cloud for cloud in clouds if cloud is not None), None)


class Sidecars:
    """The text files of one folder, found by the scenes that they describe."""

    def __init__(self, folder: str | Path, names: Iterable[str]):
        self._folder = Path(folder)
        self._own: dict[str, list[str]] = defaultdict(list)
        self._of_products: dict[str, list[str]] = defaultdict(list)
        self._of_folder: list[str] = []
        for name in sorted(names):
            stem, suffix = os.path.splitext(name)
            if suffix.lower() not in _SUFFIXES:
                continue
            if _OF_FOLDER.fullmatch(stem):
                self._of_folder.append(name)
                continue
            self._own[stem].append(name)
            product = _ENDING.sub("", stem)
            if product != stem:
                self._of_products[product].append(name)

    def facts(self, scene: str) -> tuple[str | None, float | None]:
        """Return when a scene was taken (as its provider writes it) and its cloud cover in percent.

        ``scene`` is its name without the ending. Each is None where no file that belongs to it says so; what
        speaks for it alone is believed before what speaks for its product or the folder.
        """
        products = [scene[: place.start()] for place in _JOINT.finditer(scene)][::-1]
        names = [*self._own.get(scene, ()), *self._of_products.get(scene, ())]
        names += [name for product in products for name in self._of_products.get(product, ())]
        by_file = [_facts(self._folder / name) for name in (*names, *self._of_folder)]
        date = next((date for date, _ in by_file if date), None)
        return date, next((cloud for _, cloud in by_file if cloud is not None), None)


@lru_cache(maxsize=256)
def _facts(path: Path) -> tuple[str | None, float | None]:
    try:
        with open(path, encoding="utf-8", errors="replace", opener=plain_only) as file:
            text = file.read(_MOST_BYTES)
    except OSError:
        return None, None
    date = next(filter(None, (_value(text, name, r"\d{4}-?\d\d-?\d\d") for name in _DATES)), None)
    clouds = (percent(_value(text, name, r"[\d.]+") or "") for name in _CLOUDS)
    return date, next((cloud for cloud in clouds if cloud is not None), None)


def _value(text: str, name: str, form: str) -> str | None:
    """Find ``NAME = value``, ``"NAME": value`` or ``<NAME>value``: what is read here may be a stranger's."""
    # By the exact name: what others call cloud_cover is a share of 1.
    pattern = rf"(?<![\w:]){re.escape(name)}\"?\s*[=:>]\s*\"?({form})"
    match = re.search(pattern, text)
    return match[1] if match else None


def percent(text: str) -> float | None:
    """Return a number of 0 to 100, None where the text is none."""
    try:
        value = float(text)
    except ValueError:
        return None
    # Where clouds were not looked for, Landsat says -1.
    return value if 0 <= value <= 100 else None

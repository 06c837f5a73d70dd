"""Date and cloud cover from text files beside a scene: Landsat, Sentinel-2, Planet, STAC items."""

import os
import re
from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from tiling import open_regular

# Names that providers use for the time of acquisition, and for the cloud cover in percent.
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
_PRODUCT_ENDING = re.compile(r"[_.-](mtl|metadata|meta|stac|item|tiff?|jp2)$", re.IGNORECASE)
_FOR_WHOLE_FOLDER = re.compile(r"mtd(_\w+)?|mtl|metadata", re.IGNORECASE)
_SEPARATOR = re.compile(r"[_.-]")
_MAX_BYTES = 2**20


def tag_clouds(tags: Iterable[tuple[str, str]]) -> float | None:
    """Return the cloud cover in percent from the tags of a raster, None if they have none."""
    upper = {key.upper(): value for key, value in tags}
    clouds = (percent(upper.get(name.upper(), "")) for name in _CLOUDS)
    return next((cloud for cloud in clouds if cloud is not None), None)


class Sidecars:
    """The text files of one folder, found by the scenes that they describe."""

    def __init__(self, folder: str | Path):
        self._folder = Path(folder)
        self._by_scene: dict[str, list[str]] = defaultdict(list)
        self._by_product: dict[str, list[str]] = defaultdict(list)
        self._for_folder: list[str] = []
        for name in _listed(self._folder):
            stem, suffix = os.path.splitext(name)
            if suffix.lower() not in _SUFFIXES:
                continue
            if _FOR_WHOLE_FOLDER.fullmatch(stem):
                self._for_folder.append(name)
                continue
            self._by_scene[stem].append(name)
            product = _PRODUCT_ENDING.sub("", stem)
            if product != stem:
                self._by_product[product].append(name)

    def facts(self, scene: str) -> tuple[str | None, float | None]:
        """Return the date of a scene, as its provider writes it, and its cloud cover in percent.

        ``scene`` is its file name without the suffix. A value is None if no file has it. Files of the scene
        come before files of its product, and those before files of the folder.
        """
        products = [scene[: place.start()] for place in _SEPARATOR.finditer(scene)][::-1]
        names = [*self._by_scene.get(scene, ()), *self._by_product.get(scene, ())]
        names += [name for product in products for name in self._by_product.get(product, ())]
        by_file = [_facts(self._folder / name) for name in (*names, *self._for_folder)]
        date = next((date for date, _ in by_file if date), None)
        return date, next((cloud for _, cloud in by_file if cloud is not None), None)


@lru_cache(maxsize=256)
def sidecars_of(folder: str) -> Sidecars:
    """Return the text files of a folder; none for an address, or a folder that cannot be listed."""
    return Sidecars(folder)


def _listed(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


@lru_cache(maxsize=256)
def _facts(path: Path) -> tuple[str | None, float | None]:
    try:
        with open(path, encoding="utf-8", errors="replace", opener=open_regular) as file:
            text = file.read(_MAX_BYTES)
    except OSError:
        return None, None
    date = next(filter(None, (_value(text, name, r"\d{4}-?\d\d-?\d\d") for name in _DATES)), None)
    clouds = (percent(_value(text, name, r"[\d.]+") or "") for name in _CLOUDS)
    return date, next((cloud for cloud in clouds if cloud is not None), None)


def _value(text: str, name: str, form: str) -> str | None:
    """Find ``NAME = value``, ``"NAME": value`` or ``<NAME>value``, without parsing an untrusted file."""
    # The exact name only: Planet's cloud_cover is a fraction of 1.
    pattern = rf"(?<![\w:]){re.escape(name)}\"?\s*[=:>]\s*\"?({form})"
    match = re.search(pattern, text)
    return match[1] if match else None


def percent(text: str) -> float | None:
    """Return a number from 0 to 100, None for any other text."""
    try:
        value = float(text)
    except ValueError:
        return None
    # Landsat writes -1 if clouds were not assessed.
    return value if 0 <= value <= 100 else None

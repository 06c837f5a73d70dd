"""What text files beside a scene say of its date and clouds: of Landsat, Sentinel-2, Planet, STAC items."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

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
_MOST_BYTES = 2**20


def tag_clouds(tags: Iterable[tuple[str, str]]) -> float | None:
    """Return the cloud cover in percent that the tags of a raster state, None where they do not."""
    upper = {key.upper(): value for key, value in tags}
    for name in _CLOUDS:
        clouds = _percent(upper.get(name.upper(), ""))
        if clouds is not None:
            return clouds
    return None


def sidecar_facts(scene: Path, beside: Iterable[str]) -> tuple[str | None, float | None]:
    """Return when a scene was taken (as its provider writes it) and its cloud cover in percent.

    ``beside`` are the names of the files in its folder. Each is None where no file that belongs to the scene
    says it.
    """
    dates, clouds = [], []
    for name in sorted(beside):
        stem, dot, suffix = name.rpartition(".")
        if f"{dot}{suffix}".lower() in _SUFFIXES and _belongs(stem, scene.stem):
            date, cloud = _facts(scene.with_name(name))
            dates.append(date)
            clouds.append(cloud)
    return next(filter(None, dates), None), next((cloud for cloud in clouds if cloud is not None), None)


def _belongs(stem: str, scene: str) -> bool:
    """Tell whether a file of that name describes the scene, or the product that the scene is a part of."""
    base = _ENDING.sub("", stem)
    if scene in (stem, base) or _OF_FOLDER.fullmatch(stem):
        return True
    return base != stem and re.match(rf"{re.escape(base)}[_.-]", scene) is not None


@lru_cache(maxsize=256)
def _facts(path: Path) -> tuple[str | None, float | None]:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            text = file.read(_MOST_BYTES)
    except OSError:
        return None, None
    date = next(filter(None, (_value(text, name, r"\d{4}-?\d\d-?\d\d") for name in _DATES)), None)
    clouds = (_percent(_value(text, name, r"[\d.]+") or "") for name in _CLOUDS)
    return date, next((cloud for cloud in clouds if cloud is not None), None)


def _value(text: str, name: str, form: str) -> str | None:
    """Find ``NAME = value``, ``"NAME": value`` or ``<NAME>value``: what is read here may be a stranger's."""
    # By the exact name: what others call cloud_cover is a share of 1.
    pattern = rf"(?<![\w:]){re.escape(name)}\"?\s*[=:>]\s*\"?({form})"
    found = re.search(pattern, text)
    return found[1] if found else None


def _percent(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    # Where clouds were not looked for, Landsat says -1.
    return value if 0 <= value <= 100 else None

"""Reads the headers of many scenes and the text files beside them: footprint, date and cloud cover.

Text files are those of Landsat, Sentinel-2, Planet, and STAC items.
"""

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from tiling import (
    ANYWHERE,
    Access,
    SceneUnreachable,
    TilingError,
    choose_bands,
    describe,
    open_regular,
    to_wgs84,
)
from tiling.prefetch import map_ahead
from workflows.addresses import public_path
from workflows.dates import scene_date
from workflows.errors import CatalogUnreachable
from workflows.pairs.catalog import Scene, Skipped
from workflows.pairs.delivery.contents import content_of
from workflows.progress import Progress, report_progress

_THREADS = 8  # reading a header is mostly waiting
MAX_UNREACHABLE = 10
"""Unreachable scenes in a row after which their server counts as down."""
_FOOTPRINT_STEP = 1e-5
"""Degrees by which footprints are simplified, about a metre."""
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


def _read_header(location: str, access: Access, name: str, folder: str | None) -> Scene:
    """Return a scene without site, from its header and the text files beside it."""
    info = describe(location, access)
    choose_bands(info)
    date, cloud = text_facts(Path(location))
    tags = {"DATE_ACQUIRED": date, **info.tags} if date else info.tags
    tagged_cloud = tag_clouds(info.tags.items())
    taken = scene_date(info.path, tags, folder=folder)
    return Scene(
        name=name,
        location=location,
        site=None,
        date=taken.value or "",
        cloud=cloud if tagged_cloud is None else tagged_cloud,
        footprint=to_wgs84(info.footprint, info.crs).simplify(_FOOTPRINT_STEP),
        content=content_of(name, info) if name else None,
        note=taken.doubt,
        info=info,
    )


def read_headers(
    locations: Sequence[str],
    progress: Progress | None = None,
    access: Access = ANYWHERE,
    named: Sequence[tuple[str, str | None]] | None = None,
    *,
    with_info: bool = False,
) -> Iterator[Scene | Skipped]:
    """Yield the header of each scene, or why it was skipped, in order; several are read at a time.

    ``named`` has, for each, its path under its source and the date of its folders. The headers are kept only
    ``with_info``: those of many scenes take much memory.

    Raises:
        CatalogUnreachable: many scenes in a row are unreachable.
    """

    def read(asked: tuple[str, tuple[str, str | None]]) -> Scene | TilingError:
        location, (name, folder) = asked
        try:
            scene = _read_header(location, access, name, folder)
            return scene if with_info else replace(scene, info=None)
        except TilingError as error:
            return error

    asked = list(zip(locations, named or [("", None)] * len(locations), strict=True))
    unreachable = 0
    executor = ThreadPoolExecutor(_THREADS)
    try:
        for number, header in enumerate(map_ahead(executor, read, asked, 2 * _THREADS), start=1):
            report_progress(progress, "scenes", number, len(locations))
            unreachable = unreachable + 1 if isinstance(header, SceneUnreachable) else 0
            if unreachable == MAX_UNREACHABLE:
                raise CatalogUnreachable(
                    f"{public_path(locations[number - 1])}: {unreachable} scenes in a row are unreachable; "
                    "try again later"
                )
            yield _skipped(locations[number - 1], header) if isinstance(header, TilingError) else header
    finally:
        executor.shutdown(cancel_futures=True)


def _skipped(location: str, error: TilingError) -> Skipped:
    name = public_path(location)
    return Skipped("unreadable", name, f"{str(error).removeprefix(f'{name}: ')} (left out)")


def tag_clouds(tags: Iterable[tuple[str, str]]) -> float | None:
    """Return the cloud cover in percent from the tags of a raster, None if they have none."""
    upper = {key.upper(): value for key, value in tags}
    clouds = (percent(upper.get(name.upper(), "")) for name in _CLOUDS)
    return next((cloud for cloud in clouds if cloud is not None), None)


def text_facts(scene: Path) -> tuple[str | None, float | None]:
    """Return the date of a scene, as its provider writes it, and its cloud cover in percent, from text files.

    A value is None if no file has it. Files of the scene come before files of its product, and those before
    files of the folder.
    """
    files, stem = _text_files(str(scene.parent)), scene.stem
    products = [stem[: place.start()] for place in _SEPARATOR.finditer(stem)][::-1]
    keys = (stem, *(f"{start}*" for start in (stem, *products, "")))
    by_file = [_facts(scene.parent / name) for key in keys for name in files.get(key, ())]
    date = next((date for date, _ in by_file if date), None)
    return date, next((cloud for _, cloud in by_file if cloud is not None), None)


@lru_cache(maxsize=256)
def _text_files(folder: str) -> dict[str, list[str]]:
    """Return the text files of a folder by the stem of their scene, or by the start of stems and ``*``."""
    files: dict[str, list[str]] = defaultdict(list)
    try:
        names = sorted(os.listdir(folder))
    except OSError:  # also an address
        return files
    for name in names:
        stem, suffix = os.path.splitext(name)
        if suffix.lower() not in _SUFFIXES:
            continue
        if _FOR_WHOLE_FOLDER.fullmatch(stem):
            files["*"].append(name)
            continue
        files[stem].append(name)
        product = _PRODUCT_ENDING.sub("", stem)
        if product != stem:
            files[f"{product}*"].append(name)
    return files


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

"""Reads the headers of many scenes: footprint, date and cloud cover."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tiling import ANYWHERE, Access, SceneUnreachable, TilingError, choose_bands, describe, to_wgs84
from tiling.prefetch import map_ahead
from workflows.addresses import public_path
from workflows.dates import scene_date
from workflows.errors import CatalogUnreachable
from workflows.pairs.catalog import Scene, Skipped
from workflows.pairs.delivery.contents import content_of
from workflows.pairs.sidecars import sidecars_of, tag_clouds
from workflows.progress import Progress, report_progress

_THREADS = 8  # reading a header is mostly waiting
MAX_UNREACHABLE = 10
"""Unreachable scenes in a row after which their server counts as down."""
_FOOTPRINT_STEP = 1e-5
"""Degrees by which footprints are simplified, about a metre."""


def read_header(location: str, access: Access, folder: str | None = None, name: str = "") -> Scene:
    """Return a scene without site, from its header and the text files beside it.

    Args:
        folder: date of the folders above it.
        name: its path under its source.
    """
    info = describe(location, access)
    choose_bands(info)
    path = Path(location)
    date, cloud = sidecars_of(str(path.parent)).facts(path.stem)
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
    )


def read_headers(
    locations: Sequence[str],
    progress: Progress | None = None,
    access: Access = ANYWHERE,
    named: Sequence[tuple[str, str | None]] | None = None,
) -> Iterator[Scene | Skipped]:
    """Yield the header of each scene, or why it was skipped, in order; several are read at a time.

    ``named`` has, for each, its path under its source and the date of its folders.

    Raises:
        CatalogUnreachable: many scenes in a row are unreachable.
    """

    def read(asked: tuple[str, tuple[str, str | None]]) -> Scene | TilingError:
        location, (name, folder) = asked
        try:
            return read_header(location, access, folder, name)
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

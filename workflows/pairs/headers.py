"""The headers of many scenes: where they lie, when they were taken, how cloudy they are."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tiling import ANYWHERE, Access, SceneUnreachable, TilingError, choose_bands, describe, to_wgs84
from tiling.ahead import in_order
from workflows.addresses import public_path
from workflows.dates import scene_date
from workflows.errors import CatalogUnreachable
from workflows.pairs.catalog import Scene, Skipped
from workflows.pairs.sidecars import Sidecars, tag_clouds
from workflows.progress import Progress, tell

# Headers are waited for more than they are computed with.
_READERS = 8
# So many scenes of a server in a row that cannot be had, and it is the server.
_PATIENCE = 10
# Degrees, about a metre.
_DETAIL = 1e-5


def read_header(location: str, beside: Sidecars | None, access: Access) -> Scene:
    """Return a scene without name and site: of its header, and of the text files ``beside`` it that it has.

    Raises:
        TilingError: the scene cannot be read, has no place, or nothing that can be looked at.
    """
    info = describe(location, access)
    choose_bands(info)
    date, cloud = beside.facts(Path(location).stem) if beside else (None, None)
    tags = {"DATE_ACQUIRED": date, **info.tags} if date else info.tags
    clouds = tag_clouds(info.tags.items())
    return Scene(
        name="",
        location=location,
        site=None,
        date=scene_date(info.path, tags).value or "",
        cloud=cloud if clouds is None else clouds,
        footprint=to_wgs84(info.footprint, info.crs).simplify(_DETAIL),
    )


def read_headers(
    locations: Sequence[str],
    sidecars: Mapping[str, Sidecars],
    progress: Progress | None = None,
    access: Access = ANYWHERE,
) -> Iterator[Scene | Skipped]:
    """Yield the header of each scene in the order given, or why there is none; several are read at a time.

    ``sidecars`` are the text files of each folder, by its absolute path.

    Raises:
        CatalogUnreachable: the server of many scenes in a row does not answer.
    """

    def read(location: str) -> Scene | TilingError:
        try:
            return read_header(location, sidecars.get(os.path.dirname(location)), access)
        except TilingError as error:
            return error

    unreachable = 0
    executor = ThreadPoolExecutor(_READERS)
    try:
        for number, header in enumerate(in_order(executor, read, locations, 2 * _READERS), start=1):
            tell(progress, "scenes", number, len(locations))
            unreachable = unreachable + 1 if isinstance(header, SceneUnreachable) else 0
            if unreachable == _PATIENCE:
                raise CatalogUnreachable(
                    f"{public_path(locations[number - 1])}: {_PATIENCE} scenes in a row cannot be reached; "
                    "try again when their server answers"
                )
            yield Skipped("unreadable", f"{header} (left out)") if isinstance(header, TilingError) else header
    finally:
        executor.shutdown(cancel_futures=True)

"""Write a QGIS project of a monitor: events and scenes, each with its time for the Temporal Controller."""

import os
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from itertools import pairwise
from pathlib import Path

import shapely

from tiling import TilingError, describe, is_address
from workflows.dates import PartialDate
from workflows.files import write_together
from workflows.monitor.places import KnownScene
from workflows.monitor.view import PlaceView
from workflows.report.geojson import CRS
from workflows.report.qgis import file_text
from workflows.report.qgis.project import crs_element, expanded, filled, relative_name, xml_text, zipped

MOST_SCENES = 200
"""Scenes of a project, the latest of each place; QGIS opens each when it opens the project."""
_MARGIN = 0.05


def write_project(target: Path, places: Sequence[PlaceView]) -> None:
    """Write ``events.qgz`` beside ``events.gpkg``; the same content makes the same bytes."""
    rasters = list(_rasters(target, places))
    dates = [PartialDate(scene.date) for view in places for scene in view.place.scenes]
    grounds = [view.place.ground for view in places]
    west, south, east, north = (
        shapely.total_bounds(grounds).tolist() if grounds else (-180.0, -90.0, 180.0, 90.0)
    )
    corners = map(repr, expanded((west, south, east, north), _MARGIN))
    tree = [
        f'    <layer-tree-layer id="{raster["id"]}" name="{raster["name"]}" providerKey="gdal" '
        'checked="Qt::Checked" expanded="0" />'
        for raster in rasters
    ]
    text = filled(
        "events.qgs",
        crs=crs_element(CRS),
        tree="\n".join(tree),
        style="\n".join(file_text("events.qml").splitlines()[2:-1]),  # without its root
        rasters="\n".join(filled("dated.xml", **raster) for raster in rasters),
        first=min((one.first for one in dates), default=date(1970, 1, 1)).isoformat(),
        last=(max((one.last for one in dates), default=date(1970, 1, 1)) + timedelta(1)).isoformat(),
        **dict(zip(("west", "south", "east", "north"), corners, strict=True)),
    )
    write_together({target: [zipped(text)]})


def _rasters(target: Path, places: Sequence[PlaceView]) -> Iterator[dict[str, str]]:
    """Yield the values of the template of each scene that is a local file.

    A scene on a server is left out: QGIS would ask for it whenever it opens the project.
    """
    number = 0
    for view in places:
        scenes = [scene for scene in view.place.scenes if _is_plain(scene)]
        for scene, end in list(_until_next(scenes))[-MOST_SCENES:]:
            number += 1
            try:
                info = describe(scene.source)
            except TilingError:
                continue  # it is gone or damaged
            yield {
                "crs": crs_element(str(info.crs.to_wkt())),
                "id": f"rscc_scene_{number}",
                "name": xml_text(f"{view.place.name} {scene.date}"),
                "source": xml_text(relative_name(target, Path(scene.source))),
                "first": PartialDate(scene.date).first.isoformat(),
                "last": end.isoformat(),
            }


def _is_plain(scene: KnownScene) -> bool:
    return not is_address(scene.source) and scene.source.isprintable() and os.path.isfile(scene.source)


def _until_next(scenes: Sequence[KnownScene]) -> Iterator[tuple[KnownScene, date]]:
    """Yield each scene with the day at which the next one begins."""
    for scene, following in pairwise([*scenes, None]):
        assert scene is not None
        own = PartialDate(scene.date)
        end = own.last + timedelta(1)
        yield (
            scene,
            end if following is None else max(own.first + timedelta(1), PartialDate(following.date).first),
        )

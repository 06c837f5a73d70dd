"""Write a QGIS project of a monitor: events and scenes, each with its time for the Temporal Controller."""

import os
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from itertools import pairwise
from pathlib import Path

import shapely

from tiling import SceneInfo, TilingError, describe, is_address
from workflows.dates import PartialDate
from workflows.files import write_together
from workflows.monitor.places import KnownScene
from workflows.monitor.view import PlaceView
from workflows.report.geojson import CRS
from workflows.report.qgis import file_text
from workflows.report.qgis.project import Layer, expanded, filled, project_text, relative_name, zipped

MOST_SCENES = 200
"""Scenes of a project, the latest of each place; QGIS opens each when it opens the project."""
_MARGIN = 0.05


def write_project(target: Path, places: Sequence[PlaceView]) -> None:
    """Write ``events.qgz`` beside ``events.gpkg``; the same content makes the same bytes."""
    dates = [PartialDate(scene.date) for view in places for scene in view.place.scenes]
    grounds = [view.place.ground for view in places]
    west, south, east, north = (
        shapely.total_bounds(grounds).tolist() if grounds else (-180.0, -90.0, 180.0, 90.0)
    )
    style = "\n".join(file_text("events.qml").splitlines()[2:-1])  # without its root
    events = Layer("events", "./events.gpkg|layername=events", CRS, style)
    time = filled(
        "time.xml",
        first=min((one.first for one in dates), default=date(1970, 1, 1)).isoformat(),
        last=(max((one.last for one in dates), default=date(1970, 1, 1)) + timedelta(1)).isoformat(),
    )
    view = expanded((west, south, east, north), _MARGIN)
    text = project_text(CRS, view, [events, *_rasters(target, places)], time)
    write_together({target: [zipped(text)]})


def _rasters(target: Path, places: Sequence[PlaceView]) -> Iterator[Layer]:
    """Yield the layer of each local scene: QGIS would ask a server whenever it opens the project."""
    for view in places:
        scenes = [scene for scene in view.place.scenes if _is_plain(scene)]
        for scene, end in list(_until_next(scenes))[-MOST_SCENES:]:
            try:
                known = view.place.opened.get(scene.source)
                info = known if isinstance(known, SceneInfo) else describe(scene.source)
            except TilingError:
                continue  # it is gone or damaged
            first = PartialDate(scene.date).first.isoformat()
            yield Layer(
                f"{view.place.name} {scene.date}",
                relative_name(target, Path(scene.source)),
                str(info.crs.to_wkt()),
                filled("temporal.xml", first=first, last=end.isoformat()),
                "raster.xml",
                is_open=False,
            )


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

"""The scenes of a report: where they are now, opened on the pixel grid on which they were searched.

A report may come from anybody, so what its record says is checked before it is used.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import shapely
from shapely.geometry import MultiPolygon, Polygon, box

from tiling import (
    Frame,
    NoOverlap,
    SceneNotFound,
    ScenePair,
    Window,
    locate,
    mended,
    on_map,
    polygons_in,
    to_wgs84,
    transformer,
)
from workflows.errors import OptionInvalid, ReportInvalid
from workflows.options import MAX_METRES, SceneOptions, ServerOptions
from workflows.printable import printable
from workflows.report.change import Change
from workflows.report.geojson import rounded
from workflows.report.record import of_scenes
from workflows.scenes import FINEST, Infos, Scene, bounded_cache, open_at, read_headers

if TYPE_CHECKING:
    from geopandas import GeoDataFrame

    from workflows.report.summary import SceneSummary

_FOLDERS = 4
"""Folders above a report in which its scenes are looked for."""
STEPS = 8
"""Parts of a pixel to which outlines are rounded: they were traced along pixels, then rounded in degrees."""
_GIVE_BOTH = "give BEFORE and AFTER, where the scenes are now (rscc convert takes --before and --after)"
_FLAGS, _LISTS = ("normalize", "align", "force"), ("bands", "band_names", "bounds")
_SETTINGS = (*_FLAGS, *_LISTS, "area", "gsd", "scale", "frame")
"""Settings of the record that say how scenes are read."""


class Pictured(Protocol):
    """What pages and pictures take of a report, see :class:`workflows.report.report.Report`."""

    @property
    def changes(self) -> Sequence[Change]: ...  # noqa: D102
    @property
    def run(self) -> Mapping[str, Any]: ...  # noqa: D102
    @property
    def source(self) -> Path: ...  # noqa: D102
    @property
    def scenes(self) -> tuple[Scene, Scene] | None: ...  # noqa: D102
    @property
    def servers(self) -> ServerOptions | None: ...  # noqa: D102
    @property
    def summary(self) -> SceneSummary: ...  # noqa: D102
    def to_geodataframe(self) -> GeoDataFrame: ...  # noqa: D102


@contextmanager
def open_scenes(report: Pictured) -> Iterator[ScenePair]:
    """Open the scenes of a report on the pixel grid on which they were searched.

    Raises:
        ReportInvalid: the record has values that no run has, or names no scenes.
        OptionInvalid: the scenes are swapped.
    """
    with bounded_cache():
        infos, options = read_scenes(report)
        gsd = report.run["tiling"].get("gsd")
        if not isinstance(gsd, int | float) or not infos[0].gsd / FINEST <= gsd <= MAX_METRES:
            raise ReportInvalid(
                f"{printable(report.source)}: it does not say at what resolution its scenes were searched; "
                "give a report that rscc wrote, with its own scenes"
            )
        with open_at(gsd, infos, options) as pair:
            yield pair


def read_scenes(report: Pictured) -> tuple[Infos, SceneOptions]:
    """Return the headers of the scenes of a report, and the options to open them with."""
    servers = report.servers or ServerOptions(allow_hosts=() if report.scenes is None else None)
    options = replace(recorded_options(report), offline=servers.offline, allow_hosts=servers.allow_hosts)
    infos = read_headers(*(report.scenes or find_scenes(report)), options)
    check_order(report, [info.path for info in infos])
    return infos, options


def find_scenes(report: Pictured) -> tuple[str, str]:
    """Return where the scenes are: under the names in the run record, else beside the report.

    Raises:
        SceneNotFound: one is in neither place.
    """
    names = of_scenes(report.run, "path")
    if "sample" in report.run and not any(names.values()):
        raise ReportInvalid(
            f"{printable(report.source)}: it is a sample of several pairs; give the report of one of them"
        )
    before, after = (_find(report.source, role, name) for role, name in names.items())
    return before, after


def _find(source: Path, role: str, name: str | None) -> str:
    # The name is printed, and must not steer a terminal.
    if not name or not name.isprintable():
        raise ReportInvalid(f"{printable(source)}: it names no scene {role} that can be read; {_GIVE_BOTH}")
    # A relative name counts from the folder of the run, which often is one above the report.
    above = (source.parent, *source.absolute().parents[1:_FOLDERS])
    for place in (name, *(str(folder / name) for folder in above), str(source.parent / PurePath(name).name)):
        try:
            local = locate(place).local
        except SceneNotFound:
            continue
        # os.path: a hostile name may be too long for the system, which is no error there.
        if local is None or os.path.exists(local):
            return place
    raise SceneNotFound(
        f"{printable(source)}: its scene {name} is neither there nor beside or above the report; {_GIVE_BOTH}"
    )


def recorded_options(report: Pictured) -> SceneOptions:
    """Return the options by which the scenes were read."""
    recorded = {name: report.run["settings"].get(name) for name in _SETTINGS}
    given = {name: value for name, value in recorded.items() if value is not None}
    wrong = next((name for name, value in given.items() if not _has_type(name, value)), None)
    if wrong is not None:
        raise ReportInvalid(f"{printable(report.source)}: its setting {wrong} is damaged")
    plain: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in given.items()
    }
    try:
        return SceneOptions(**plain)
    except OptionInvalid as error:
        raise ReportInvalid(f"{printable(report.source)}: a setting is damaged ({error})") from error


def _has_type(name: str, value: Any) -> bool:
    """Return whether a value of JSON has the type of a setting; SceneOptions checks the rest."""
    if name in _FLAGS:
        return type(value) is bool
    if name in _LISTS:
        right_size = isinstance(value, list) and (name != "bounds" or len(value) == 4)
        return right_size and all(type(one) in (int, float, str) and str(one).isprintable() for one in value)
    return type(value) is not bool


def check_order(report: Pictured, names: Sequence[str]) -> None:
    """Refuse scenes before and after whose names are swapped in the report."""
    recorded = [PurePath(name or "").name for name in of_scenes(report.run, "path").values()]
    if [PurePath(name).name for name in names] == recorded[::-1] != recorded:
        raise OptionInvalid(
            f"{printable(report.source)}: its scene before is {printable(recorded[0])} and its scene after "
            f"{printable(recorded[1])}, and they were given the other way round; swap them"
        )


def in_pixels(geometries: Iterable[Polygon | MultiPolygon], pair: ScenePair | Frame) -> list[MultiPolygon]:
    """Return outlines in degrees as pixels of the working grid; empty where they have no place on it."""
    move, to_pixel = transformer("EPSG:4326", pair.grid.crs), ~pair.grid.transform

    def moved(degrees: np.ndarray) -> np.ndarray:
        pixels = np.column_stack(on_map(to_pixel, *move.transform(degrees[:, 0], degrees[:, 1])))
        return np.round(pixels * STEPS) / STEPS

    outlines = shapely.transform(np.array(list(geometries), dtype=object), moved)
    lost = ~np.isfinite(shapely.bounds(outlines)).all(axis=1)
    outlines[lost] = MultiPolygon()
    return [MultiPolygon(polygons_in(mended(outline))) for outline in outlines]


def window_ground(pair: ScenePair, window: Window) -> Polygon | MultiPolygon:
    """Return the ground that a window of the working grid shows, in degrees of WGS84."""
    return rounded(to_wgs84(pair.grid.ground(window), pair.grid.crs))


def largest_part(outline: MultiPolygon) -> Polygon:
    """Return the polygon of an outline with the largest area."""
    return max(outline.geoms, key=lambda part: part.area)


def outlines_on(pair: ScenePair, report: Pictured) -> list[MultiPolygon]:
    """Return the outlines of the changes in pixels of the working grid.

    Raises:
        NoOverlap: a change does not lie on the ground that both scenes show.
    """
    changes = report.changes
    outlines = in_pixels([change.geometry for change in changes], pair) if changes else []
    grid = box(0, 0, pair.grid.width, pair.grid.height)
    for change, outline in zip(changes, outlines, strict=True):
        if not outline.intersects(grid):
            raise NoOverlap(
                f"{printable(report.source)}: change {change.id} does not lie on the ground that "
                f"{pair.before.path} and {pair.after.path} both show; give --before and --after of this "
                "report, or delete the change"
            )
    return outlines

"""From a report and its scenes to a QGIS project."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tiling import SceneInfo, describe, is_address, locate, on_map, transformer
from workflows.errors import FormatUnsupported, OptionInvalid
from workflows.files import check_free, write_together
from workflows.inspection.event import ReportedRun, read_report
from workflows.options import ServerOptions
from workflows.report.qgis_project import MOST_BOOKMARKS, SUFFIXES, RasterLayer, limits_of, project_content
from workflows.report.record import grid_crs, text_in
from workflows.texts import shown


@dataclass(frozen=True)
class WrittenProject:
    """A project, and how many changes and bookmarks it has."""

    path: Path
    changes: int
    bookmarks: int


def write_project(
    report: Path,
    target: Path | None = None,
    scenes: tuple[str, str] | None = None,
    *,
    servers: ServerOptions,
    overwrite: bool = False,
) -> WrittenProject:
    """Write a QGIS project of a report: changes, both scenes as they were shown to the model, bookmarks.

    Without a ``target`` it has the report's name, and without ``scenes`` they are where the report says, or
    beside it.

    Raises:
        ReportInvalid, SceneNotFound: the report or its scenes cannot be read.
        TilingError: a scene is none that is read.
        OptionInvalid: the report or a scene cannot be named in a project.
        FormatUnsupported, OutputExists, OutputFolderMissing, OutputNotWritable: it cannot be written.
    """
    target = report.with_suffix(SUFFIXES[0]) if target is None else target
    if target.suffix.lower() not in SUFFIXES:
        raise FormatUnsupported(f"{target}: projects are written as {' or '.join(SUFFIXES)}")
    check_free((target,), overwrite, (report, *(scenes or ())))
    if not os.path.abspath(report).isprintable():
        raise OptionInvalid(f"{shown(report)}: no project can hold such a name; rename it")
    read = read_report(report)
    run = ReportedRun(report, read.run)
    named = scenes or run.scenes()
    run.check_order([str(name) for name in named])
    if scenes is None:
        for name in filter(is_address, named):
            raise OptionInvalid(
                f"{shown(report)}: it names a scene on a server, {shown(name)}, which QGIS would ask "
                "whenever it opens the project; if you want that, give BEFORE and AFTER"
            )
    infos = [describe(name, servers.access) for name in named]
    crs = grid_crs(read.changes, read.run)
    layers = [_layer(info, role, read.run) for info, role in zip(infos, ("before", "after"), strict=True)]
    layers.reverse()
    view = _bounds(infos[1], crs)
    content = project_content(target, read.changes, report, layers, crs, view)
    write_together({target: [content]})
    count = len(read.changes)
    return WrittenProject(target, count, min(count, MOST_BOOKMARKS))


def _layer(info: SceneInfo, role: str, run: dict[str, Any]) -> RasterLayer:
    place = locate(info.source)
    # A signature or password would lie in the project for everybody who gets it.
    if locate(info.path).source != info.source and place.local is None:
        raise OptionInvalid(
            f"{info.path}: its address holds a secret that the project would tell; download it"
        )
    if not info.source.isprintable():
        raise OptionInvalid(f"{shown(info.path)}: no project can hold such a name; rename it")
    date = text_in(run, "inputs", role, "date")
    return RasterLayer(
        name=role if date is None else f"{role} {''.join(filter(str.isprintable, date))[:10]}",
        source=info.source,
        local=place.local is not None and place.member is None,
        crs=str(info.crs.to_wkt()),
        bands=None if info.palette else _bands(info, run.get("bands"), role),
        limits=limits_of(run.get("stretch"), role),
    )


def _bands(info: SceneInfo, recorded: Any, role: str) -> tuple[int, int, int]:
    """Return the bands that the model was shown; where the record has none of the scene, the first."""
    bands = recorded.get(role) if isinstance(recorded, dict) else None
    if not isinstance(bands, list) or [type(band) for band in bands] != [int] * 3:
        bands = [1, 2, 3]
    red, green, blue = bands if all(1 <= band <= info.count for band in bands) else (1, 1, 1)
    return red, green, blue


def _bounds(info: SceneInfo, crs: str) -> tuple[float, float, float, float]:
    """Return west, south, east, north of a scene on the map."""
    corners = [on_map(info.transform, col, row) for col in (0, info.width) for row in (0, info.height)]
    xs, ys = transformer(info.crs.to_wkt(), crs).transform([x for x, _ in corners], [y for _, y in corners])
    return min(xs), min(ys), max(xs), max(ys)

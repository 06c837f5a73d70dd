"""The run record: everything needed to know where a report came from and to make it again; no secrets."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple
from importlib.metadata import version
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np
import shapely
from shapely.geometry import box

import rscc
import tiling
from workflows.addresses import public_path
from workflows.progress import device_of
from workflows.report.geojson import CRS, geometry_member, rounded

if TYPE_CHECKING:
    from rscc.captioner import Captioner
    from rscc.model_folder import ModelCard
    from tiling import SceneInfo, ScenePair, TileGrid
    from workflows.dates import SceneDate
    from workflows.options import SceneOptions
    from workflows.report.change import Change

Run = Mapping[str, Any]

# Degrees.
_GROUND_TOLERANCE = 1e-6
# What a user reads of a model's card, and no pixel or word depends on.
_DESCRIBING = {"description", "paper", "licence", "data", "trained", "limits", "scores", "kinds", "cost"}


def scene_record(info: SceneInfo, taken: SceneDate) -> dict[str, Any]:
    """Describe one input; its path is recorded as given, but for what a URL may hold of secrets."""
    return {
        "path": public_path(info.path),
        "driver": info.driver,
        "width": info.width,
        "height": info.height,
        "bands": info.count,
        "dtype": str(info.dtype),
        "crs": _crs_name(info.crs),
        "gsd": round(float(info.gsd), 4),
        "date": taken.value,
        "date_source": taken.source,
    }


def determination_record(after: SceneDate) -> dict[str, str | None]:
    """Say how outlines were determined, and when they were seen last, in the words of fiboa.

    The time is that of the scene after, in UTC; None where its day is not known.
    """
    known = after.value is not None and len(after.value) == len("2020-01-31")
    return {
        "determination:method": "auto-imagery",
        "determination:datetime": f"{after.value}T00:00:00Z" if known else None,
    }


def pair_record(pair: ScenePair) -> dict[str, Any]:
    """Say how two scenes became a pair: bands, radiometry, shift, and which pixels were asked for."""
    return {
        "bands": {"before": list(pair.bands[0]), "after": list(pair.bands[1])},
        "stretch": pair.stretch.as_dict(),
        "normalization": None if pair.normalization is None else pair.normalization.as_dict(),
        "registration": pair.registration.as_dict(),
        "focus": dict(zip(("column", "row", "width", "height"), astuple(pair.focus), strict=True)),
    }


def model_record(card: ModelCard) -> dict[str, Any]:
    """Say which weights were used and what they are made for."""
    names = (
        "name",
        "version",
        "weights_sha256",
        "facts_sha256",
        "gsd",
        "gsd_range",
        "localiser",
        "localisation",
    )
    return {
        **{name: getattr(card, name) for name in names},
        "gsd_range": list(card.gsd_range),
        "card_sha256": hash_of(decisive(card)),
    }


def decisive(card: ModelCard) -> dict[str, Any]:
    """Return what a card says that pixels and words depend on, such as thresholds and calibration."""
    return {name: value for name, value in asdict(card).items() if name not in _DESCRIBING}


def hash_of(value: Any) -> str:
    """Return the SHA-256 of plain values, whatever the order of their keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def run_id(run: Run) -> str:
    """Return the SHA-256 by which a report is known: of its run record but for the summary.

    That follows the changes, of which people delete some and draw others.
    """
    return hash_of({name: value for name, value in run.items() if name != "summary"})


def settings_record(options: SceneOptions, card: ModelCard) -> dict[str, Any]:
    """Return what was asked for; None where the default was left to the reader or the model.

    Where finished tiles are kept is left out: it has no influence on what is found.
    """
    return {
        **options.written("settings"),
        "threshold": options.threshold_for(card),
        "refine": None if options.refine is None else public_path(options.refine),
    }


def grid_record(pair: ScenePair, grid: TileGrid) -> dict[str, Any]:
    """Describe the grid that both scenes were brought onto, and its tiles."""
    return {
        "crs": _crs_name(pair.grid.crs),
        "gsd": round(float(pair.grid.gsd), 4),
        "width": pair.grid.width,
        "height": pair.grid.height,
        "tile": grid.tile,
        "overlap": grid.overlap,
        "tiles": len(grid),
    }


def ground_record(pair: ScenePair) -> dict[str, Any] | None:
    """Return the ground that both scenes show as a GeoJSON polygon in WGS84, bent edges within 10 cm.

    None around a pole, and where an edge has no longitude and latitude.
    """
    grid = pair.grid
    west, south = tiling.on_map(grid.transform, 0, grid.height)
    east, north = tiling.on_map(grid.transform, grid.width, 0)
    ground = box(west, south, east, north)
    if tiling.pole_in(ground, grid.crs):
        return None
    try:
        shown = tiling.to_wgs84(ground, grid.crs)
    except tiling.ReprojectionFailed:
        return None
    return geometry_member(rounded(shapely.simplify(shown, _GROUND_TOLERANCE)))


def tells_facts(captioner: Captioner, options: SceneOptions) -> bool:
    """Return whether fact heads are asked of each tile, whose answers a finished tile keeps."""
    return options.ground and getattr(captioner, "facts", None) is not None


def identity(pair: ScenePair, grid: TileGrid, captioner: Captioner, options: SceneOptions) -> dict[str, Any]:
    """Return what the probabilities of a pair depend on: two runs with the same have the same."""
    return {
        "scenes": [_file_identity(info) for info in (pair.before, pair.after)],
        "pair": pair_record(pair),
        "grid": {**grid_record(pair, grid), "transform": list(pair.grid.transform)[:6]},
        "anchor": list(grid.anchor),
        "area": list(astuple(grid.area)),
        "model": model_record(captioner.card),
        "fast": options.fast,
        "facts": tells_facts(captioner, options),
        # Its kind, not its number: a part of the scene may be done on any of several.
        "device": device_of(captioner).partition(":")[0],
        # As asked for, not as planned: what a process holds differs a little from run to run.
        "batch_size": options.batch_size,
        "memory": options.memory,
        "versions": versions(),
    }


def _file_identity(info: SceneInfo) -> dict[str, Any]:
    """Return size and time of the files of a scene where they are on this machine, and its header."""
    with tiling.open_scene(info) as file:
        header = [str(file.profile), sorted(file.tags().items())]
    names = tiling.files_of(info)
    archive = tiling.locate(info.source)
    if archive.local is not None and archive.member is not None:
        names.add(str(archive.local))
    stats = [(name, os.stat(name)) for name in sorted(names)]
    return {
        "path": info.path,
        "files": [[os.path.abspath(name), stat.st_size, stat.st_mtime_ns] for name, stat in stats],
        "header": repr(header),
    }


def versions() -> dict[str, str]:
    """Return the versions of what the pixels went through."""
    import rasterio

    return {
        "rscc": rscc.__version__,
        "torch": version("torch"),
        "rasterio": rasterio.__version__,
        "gdal": rasterio.__gdal_version__,
    }


def _crs_name(crs: Any) -> str:
    # rasterio and pyproj agree on this: "EPSG:32633" where there is such a code, else the definition.
    return str(crs.to_string())


def grid_crs(changes: Sequence[Change], run: Run) -> str:
    """Return the CRS of the grid that was worked on; WGS84 where it is not known or has no such places."""
    crs = text_in(run, "tiling", "crs")
    try:
        bounds = np.array([change.geometry.bounds for change in changes]).reshape(-1, 2)
        placed = crs is not None and np.isfinite(tiling.transformer(CRS, crs).transform(*bounds.T)).all()
    except tiling.ReprojectionFailed:
        return CRS
    return crs if crs is not None and placed else CRS


def scenes_in(run: Run) -> dict[str, str | None]:
    """Return the attributes that every change has of its scenes; None is what the run record does not say."""
    fields: dict[str, str | None] = {}
    for role in ("before", "after"):
        path = text_in(run, "inputs", role, "path")
        fields[role] = path and PurePath(path).name
        fields[f"date_{role}"] = text_in(run, "inputs", role, "date")
    return fields


def of_scenes(run: Run, name: str) -> dict[str, str | None]:
    """Return a text that the run record has of the scenes before and after; None where there is none."""
    return {role: text_in(run, "inputs", role, name) for role in ("before", "after")}


def text_in(run: Run, *names: str) -> str | None:
    """Return a text of the run record by the names that lead to it; None where there is none."""
    value: Any = run
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if isinstance(value, str) else None

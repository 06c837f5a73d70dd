"""The run record: everything needed to know where a report came from and to make it again; no secrets."""

from __future__ import annotations

import os
import re
from importlib.metadata import version
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import rasterio
import shapely
from shapely.geometry import box

import rscc
from tiling import ReprojectionFailed, to_wgs84
from tiling.frame import pole_in
from tiling.geodesy import on_map
from tiling.location import is_address, locate
from tiling.scene import open_scene
from workflows.geojson import geometry_member, rounded
from workflows.memory import device_of

if TYPE_CHECKING:
    from pathlib import Path

    from rscc.captioner import Captioner
    from rscc.weights import ModelCard
    from tiling import SceneInfo, ScenePair, TileGrid
    from workflows.dates import SceneDate
    from workflows.options import SceneOptions

# How an address begins, also one that lost a slash, and what ends it in a sentence.
_SERVER = r"(?:\w://+|\w\w:/)"
_END = r"(?=[:;,.)\]'\"]*(?:\s|$))"
_USER = re.compile(rf"({_SERVER})[^/\s]*@")
# With such a mark in front of the path nobody can know what belongs to a password.
_UNCLEAR = re.compile(rf"({_SERVER})(?=[^/\s]*[?#])[^/\s]*@\S*?{_END}")
_QUERY = re.compile(rf"((?:{_SERVER}|(?<![\w.-])/vsi(?!zip)\w+)[^\s?#]*)[?#]\S*?{_END}")
# Parameters of addresses that sign or authorise, and are others each time; no pixel depends on them.
_SIGNING = re.compile(
    r"x-(amz|goog|oss|ms)-.*|(aws|google|oss)access(key)?id|signature|expires|policy|key-pair-id|security-token"
    r"|sig|(access_?|id_?|sas_?)?token|api_?key|subscription-key"
)
# Of Azure, too short to be known for that without ``sig`` beside them.
_AZURE = re.compile("s[eprtvis]|spr|sip|srt|sdd|skoid|sktid|skt|ske|sks|skv|saoid|suoid")
# Degrees.
_GROUND_TOLERANCE = 1e-6


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


def pair_record(pair: ScenePair) -> dict[str, Any]:
    """Say how two scenes became a pair: bands, radiometry, shift, and which pixels were asked for."""
    focus = pair.focus
    return {
        "bands": {"before": list(pair.bands[0]), "after": list(pair.bands[1])},
        "stretch": pair.stretch.as_dict(),
        "normalization": None if pair.normalization is None else pair.normalization.as_dict(),
        "registration": pair.registration.as_dict(),
        "focus": {
            "column": focus.col_off,
            "row": focus.row_off,
            "width": focus.width,
            "height": focus.height,
        },
    }


def public_path(path: str | Path) -> str:
    """Return ``path`` without the user, password and query of an address: signed addresses are passwords."""
    text = str(path)
    if not is_address(text) and "://" not in text:
        return text
    return re.sub(r"[?#].*", "", _without_user(text), flags=re.DOTALL)


def without_secrets(text: str) -> str:
    """Return a message without the user, password and query of the addresses in it."""
    return _QUERY.sub(r"\1", _without_user(text))


def _without_user(text: str) -> str:
    return _USER.sub(r"\1", _UNCLEAR.sub(r"\1...", text))


def unsigned(address: str) -> str:
    """Return an address without what changes when it is signed anew; what is left may still be a secret.

    >>> unsigned("https://me:word@host/get?layer=2&X-Amz-Signature=0")
    'https://host/get?layer=2'
    """
    shown = public_path(address)
    parts = [] if shown == address else [part for part in re.split("[?#&;]", address)[1:] if part]
    names = [unquote(part.partition("=")[0]).casefold() for part in parts]
    kept = [
        part
        for name, part in zip(names, parts, strict=True)
        if not (_SIGNING.fullmatch(name) or ("sig" in names and _AZURE.fullmatch(name)))
    ]
    return f"{shown}?{'&'.join(kept)}" if kept else shown


def model_record(card: ModelCard) -> dict[str, Any]:
    """Say which weights were used and what they are made for."""
    return {
        "name": card.name,
        "version": card.version,
        "weights_sha256": card.weights_sha256,
        "gsd": card.gsd,
        "gsd_range": list(card.gsd_range),
        "localiser": card.localiser,
        "localisation": card.localisation,
    }


def settings_record(options: SceneOptions, card: ModelCard) -> dict[str, Any]:
    """Return what was asked for; None where the default was left to the reader or the model.

    Where finished tiles are kept is left out: it has no influence on what is found.
    """
    return {
        "bands": list(options.bands) if options.bands else None,
        "bounds": list(options.bounds) if options.bounds else None,
        "gsd": options.gsd,
        "threshold": options.threshold_for(card),
        "min_area": options.min_area,
        "batch_size": options.batch_size,
        "beams": options.beams,
        "simplify": options.simplify,
        "force": options.force,
        "scale": list(options.scale) if isinstance(options.scale, tuple) else options.scale,
        "normalize": options.normalize,
        "align": options.align,
        "group_distance": options.group_distance,
        "regularize": options.regularize,
        "refine": None if options.refine is None else public_path(options.refine),
        "focus_captions": options.focus_captions,
        "memory": options.memory,
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
    ground = box(*on_map(grid.transform, 0, grid.height), *on_map(grid.transform, grid.width, 0))
    if pole_in(ground, grid.crs):
        return None
    try:
        shown = to_wgs84(ground, grid.crs)
    except ReprojectionFailed:
        return None
    return geometry_member(rounded(shapely.simplify(shown, _GROUND_TOLERANCE)))


def identity(pair: ScenePair, grid: TileGrid, captioner: Captioner, options: SceneOptions) -> dict[str, Any]:
    """Return what the probabilities of a pair depend on: two runs with the same have the same."""
    area = grid.area
    return {
        "scenes": [_file_identity(info) for info in (pair.before, pair.after)],
        "pair": pair_record(pair),
        "grid": {**grid_record(pair, grid), "transform": list(pair.grid.transform)[:6]},
        "anchor": list(grid.anchor),
        "area": [area.col_off, area.row_off, area.width, area.height],
        "model": model_record(captioner.card),
        # Its kind, not its number: a part of the scene may be done on any of several.
        "device": device_of(captioner).partition(":")[0],
        # As asked for, not as planned: what a process holds differs a little from run to run.
        "batch_size": options.batch_size,
        "memory": options.memory,
        "versions": versions(),
    }


def _file_identity(info: SceneInfo) -> dict[str, Any]:
    """Return size and time of the files of a scene where they are on this machine, and its header."""
    with open_scene(info) as file:
        names = {name for name in file.files if os.path.isfile(name)}
        header = [str(file.profile), sorted(file.tags().items())]
    archive = locate(info.source)
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
    return {
        "rscc": rscc.__version__,
        "torch": version("torch"),
        "rasterio": rasterio.__version__,
        "gdal": rasterio.__gdal_version__,
    }


def _crs_name(crs: Any) -> str:
    # rasterio and pyproj agree on this: "EPSG:32633" where there is such a code, else the definition.
    return str(crs.to_string())

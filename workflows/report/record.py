"""The run record: all that is needed to trace a report and to make it again, without secrets."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple
from functools import cache
from importlib.metadata import version
from pathlib import PurePath
from typing import Any

import numpy as np
import shapely

import rscc
import tiling
from rscc.model_card import ModelCard
from tiling import SceneInfo, ScenePair, TileGrid
from workflows.addresses import public_path
from workflows.dates import SceneDate
from workflows.options import SceneOptions
from workflows.report.change import Change
from workflows.report.geojson import CRS, geometry_member, rounded

Run = Mapping[str, Any]

# Degrees.
_GROUND_TOLERANCE = 1e-6
# Members of a model's card that no result depends on.
_DESCRIBING = {"description", "paper", "licence", "data", "trained", "limits", "scores", "kinds", "cost"}


def scene_record(info: SceneInfo, taken: SceneDate) -> dict[str, Any]:
    """Describe one input; its path is recorded as given, without the secrets of an address."""
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
    """Return how and when outlines were determined, as fiboa names it.

    The time is that of the scene after, in UTC; None where its day is not known.
    """
    known = after.value is not None and len(after.value) == len("2020-01-31")
    return {
        "determination:method": "auto-imagery",
        "determination:datetime": f"{after.value}T00:00:00Z" if known else None,
    }


def pair_record(pair: ScenePair) -> dict[str, Any]:
    """Describe how two scenes became a pair: bands, radiometry, offset, and the searched pixels."""
    return {
        "bands": {"before": list(pair.bands[0]), "after": list(pair.bands[1])},
        "stretch": pair.stretch.as_dict(),
        "normalization": None if pair.normalization is None else pair.normalization.as_dict(),
        "registration": pair.registration.as_dict(),
        "fill": dict(
            zip(("before", "after"), ([one.as_dict() for one in found] for found in pair.fill), strict=True)
        ),
        "focus": dict(zip(("column", "row", "width", "height"), astuple(pair.focus), strict=True)),
    }


def model_record(card: ModelCard) -> dict[str, Any]:
    """Describe the weights that were used, and their purpose."""
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
        **({} if card.detector is None else {"detector": asdict(card.detector)}),
    }


def decisive(card: ModelCard) -> dict[str, Any]:
    """Return the members of a card that results depend on, such as thresholds and calibration."""
    members = {name: value for name, value in asdict(card).items() if name not in _DESCRIBING}
    if card.detector is None:  # as before there were detectors
        del members["detector"]
    return members


def hash_of(value: Any) -> str:
    """Return the SHA-256 of plain values, independent of the order of keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def run_id(run: Run) -> str:
    """Return the SHA-256 that identifies a report: of its run record without the summary.

    The summary follows the changes, which people delete and draw.
    """
    return hash_of({name: value for name, value in run.items() if name != "summary"})


def settings_record(options: SceneOptions, card: ModelCard) -> dict[str, Any]:
    """Return the options; None where the reader or the model chose.

    The folder of the maps is left out: results do not depend on it.
    """
    return {**options.written("settings"), "threshold": options.threshold_for(card)}


def grid_record(pair: ScenePair, grid: TileGrid) -> dict[str, Any]:
    """Describe the working grid and its tiles."""
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
    degrees = pair.grid.degrees(tiling.Window(0, 0, pair.grid.width, pair.grid.height))
    if degrees is None:
        return None
    return geometry_member(rounded(shapely.simplify(degrees, _GROUND_TOLERANCE)))


@cache  # reading the metadata of a package takes milliseconds
def _torch_version() -> str:
    return version("torch")


def versions() -> dict[str, str]:
    """Return the versions of the libraries that process pixels."""
    import rasterio

    return {
        "rscc": rscc.__version__,
        "torch": _torch_version(),
        "rasterio": rasterio.__version__,
        "gdal": rasterio.__gdal_version__,
    }


def _crs_name(crs: Any) -> str:
    # A code only if it is sure: to_string() takes one of a similar system, metres off.
    code = crs.to_authority(100)
    return str(crs.to_wkt()) if code is None else ":".join(code)


def grid_crs(changes: Sequence[Change], run: Run) -> str:
    """Return the CRS of the working grid, or WGS84 if that is unknown, unsafe or far from the changes."""
    recorded = text_in(run, "tiling", "crs")
    if recorded is None:
        return CRS
    bounds = np.array([change.geometry.bounds for change in changes]).reshape(-1, 2)
    try:
        crs = tiling.checked_crs(recorded)
        covered = np.isfinite(tiling.transformer(CRS, crs).transform(*bounds.T)).all()
    except (tiling.UnsafeReference, tiling.ReprojectionFailed):
        return CRS
    return crs if covered else CRS


def scenes_in(run: Run) -> dict[str, str | None]:
    """Return the attributes of a change that name its scenes; None where the record lacks one."""
    fields: dict[str, str | None] = {}
    for role in ("before", "after"):
        path = text_in(run, "inputs", role, "path")
        fields[role] = path and PurePath(path).name
        fields[f"date_{role}"] = text_in(run, "inputs", role, "date")
    return fields


def of_scenes(run: Run, name: str) -> dict[str, str | None]:
    """Return a text of the record for the scenes before and after; None where there is none."""
    return {role: text_in(run, "inputs", role, name) for role in ("before", "after")}


def text_in(run: Run, *names: str) -> str | None:
    """Return the text in the record under nested names; None where there is none."""
    value = value_in(run, *names)
    return value if isinstance(value, str) else None


def value_in(run: Run, *names: str) -> Any:
    """Return the value in the record under nested names; None where there is none."""
    value: Any = run
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value

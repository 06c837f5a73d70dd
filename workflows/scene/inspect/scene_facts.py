"""Facts of two scenes for an inspection: their properties, their overlap, their resampling."""

import math
from typing import Any

from pyproj import CRS
from rasterio.enums import Resampling

from tiling import (
    BandChoice,
    GriddedScene,
    SceneInfo,
    ScenePair,
    common_ground,
    pole_in,
    to_wgs84,
)
from workflows.dates import SceneDate
from workflows.report.geojson import collection_bbox, rounded
from workflows.report.record import scene_record

# A rotation or shear below this many degrees is a rounding error of the file.
TURNED = 1e-4


def scene_facts(info: SceneInfo, taken: SceneDate, choice: BandChoice | None) -> dict[str, Any]:
    """Return the run record of a scene and, besides, its bands, masks and placement.

    ``shown`` holds the numbers of the bands shown as red, green and blue, ``shown_by`` why these.
    """
    nodata = info.nodata
    return {
        **scene_record(info, taken),
        "crs_name": str(CRS.from_user_input(info.crs).name),
        "band_list": [
            {"name": name, "color": None if color == "undefined" else color, "dtype": dtype}
            for name, color, dtype in zip(info.descriptions, info.colors, info.dtypes, strict=True)
        ],
        "shown": None if choice is None else list(choice.numbers),
        "shown_by": None if choice is None else choice.how,
        # JSON has no other way to say it.
        "nodata": nodata if nodata is None or math.isfinite(nodata) else str(nodata),
        "masked_by": info.masked_by,
        "placement": placement_words(info),
        "north_up": info.north_up,
        "control_points": len(info.gcps),
    }


def placement_words(info: SceneInfo) -> str:
    """Describe in words how the rows and columns of a scene lie on the map."""
    if info.gcps:
        return f"placed by {len(info.gcps)} ground control points"
    to_map = info.transform
    if info.north_up:
        return "north-up"
    mirrored = to_map.determinant > 0
    if mirrored and to_map.b == to_map.d == 0:
        return "south-up" if to_map.e > 0 else "mirrored, columns from east to west"
    turn = math.degrees(math.atan2(to_map.d, to_map.a))
    down = math.degrees(math.atan2(to_map.e, to_map.b))
    shear = (down - turn + (-90 if mirrored else 90) + 180) % 360 - 180
    words = []
    if abs(turn) >= TURNED:
        words.append(f"rotated by {abs(turn):.4g} degrees {'counter-clockwise' if turn > 0 else 'clockwise'}")
    if abs(shear) >= TURNED:
        words.append(f"sheared by {abs(shear):.3g} degrees")
    if mirrored:
        words.append("mirrored")
    return " and ".join(words) or "north-up"


def overlap_facts(pair: ScenePair) -> dict[str, Any]:
    """Return the ground that both scenes show: square metres, and bounds in degrees, None around a pole."""
    grid = pair.grid
    ground = common_ground(pair.before, pair.after, grid.crs)
    around_pole = pole_in(ground, grid.crs)
    cell = abs(grid.transform.a * grid.transform.e)
    return {
        "area_m2": round(ground.area / cell * grid.gsd**2, 1),
        "bounds": None if around_pole else collection_bbox([rounded(to_wgs84(ground, grid.crs))]),
    }


def layer_facts(layer: GriddedScene) -> dict[str, Any]:
    """Return how a scene is resampled to the working grid; ``method`` is None for unchanged pixels."""
    info, grid = layer.info, layer.grid
    as_is = layer.offset is not None
    return {
        "method": None if as_is else Resampling(layer.resampling).name,
        "from_gsd": round(info.gsd, 4),
        "to_gsd": round(grid.gsd, 4),
        "reprojected": info.crs != grid.crs,
        "turned": not info.north_up,
        "moved": layer.shift != (0, 0),
    }

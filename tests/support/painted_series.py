"""Series of painted scenes, and a finder of bright squares that stands in for the real ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from rasterio.features import shapes
from rasters import north_up, write_scene
from scipy import ndimage
from shapely.geometry import MultiPolygon, shape

from tiling import geodesic_area_m2, to_wgs84
from workflows.monitor.events import FoundEvent, Series, Sighting

SIDE, CELL = 48, 10.0
GROUND, BRIGHT = 90, 230
Square = tuple[int, int, int]
"""Row, column and side in pixels."""
DATES = ("2018-01", "2018-03", "2018-05", "2018-07", "2018-09")
HOUSE, FLICKER, POND = (8, 8, 6), (30, 30, 5), (8, 30, 7)
SHOWN: dict[str, tuple[Square, ...]] = {
    "2018-01": (POND,),
    "2018-03": (POND,),
    "2018-05": (POND, HOUSE),
    "2018-07": (HOUSE,),
    "2018-09": (HOUSE, FLICKER),
}
"""A house appears in May and stays, a pond is gone from July on, something is there in September only."""


def write_series(folder: Path, shown: dict[str, Sequence[Square]] = SHOWN, **options: Any) -> list[Path]:
    """Write one scene per date with bright squares on even ground; return their paths in order."""
    folder.mkdir(parents=True, exist_ok=True)
    return [write_painted(folder / f"{date}.tif", squares, **options) for date, squares in shown.items()]


def write_painted(
    path: Path, squares: Iterable[Square] = (), hidden: Iterable[Square] = (), **options: Any
) -> Path:
    """Write one scene; ``hidden`` squares have no data."""
    image = np.full((3, SIDE, SIDE), GROUND, np.uint8)
    for squares_, value in ((squares, BRIGHT), (hidden, 0)):
        for row, col, side in squares_:
            image[:, row : row + side, col : col + side] = value
    return write_scene(path, image, **{"transform": north_up(cell=CELL), "nodata": 0, **options})


def find_squares(series: Series, options: Any = None, progress: Any = None) -> list[FoundEvent]:
    """Return the bright squares of a series that are not in all of its scenes."""
    images = np.stack([_grey(scene.info.path) for scene in series.scenes])  # (n, h, w)
    ever = ndimage.label((images == BRIGHT).any(axis=0))[0]
    events = []
    for number in range(1, ever.max() + 1):
        inside = ever == number
        shown = [_state(image[inside]) for image in images]
        if set(shown) - {"hidden"} == {"seen", "absent"}:
            gone = shown[0] == "seen"
            states = [{"seen": "absent", "absent": "seen"}.get(one, one) for one in shown] if gone else shown
            events.append(_event(series, inside, states, gone))
    return events


def _state(values: np.ndarray) -> str:
    if (values == 0).mean() > 0.5:
        return "hidden"
    return "seen" if (values == BRIGHT).mean() > 0.5 else "absent"


def _grey(source: str) -> np.ndarray:
    with rasterio.open(source) as file:
        return file.read(1)


def _event(series: Series, inside: np.ndarray, states: Sequence[Any], gone: bool) -> FoundEvent:
    info = series.scenes[0].info
    rings = shapes(inside.astype(np.uint8), inside, transform=info.transform)
    outline = MultiPolygon([shape(ring) for ring, _ in rings])
    ground = to_wgs84(outline, info.crs)
    ground = ground if isinstance(ground, MultiPolygon) else MultiPolygon([ground])
    area = geodesic_area_m2(ground)
    return FoundEvent(
        geometry=ground,
        kind="water" if gone else "building",
        direction="disappeared" if gone else "appeared",
        sightings=tuple(
            Sighting(scene.name, state, None if state == "hidden" else 0.9, area if state == "seen" else None)
            for scene, state in zip(series.scenes, states, strict=True)
        ),
        probability=0.9,
        count=None if gone else 1,
        area_m2=area,
    )

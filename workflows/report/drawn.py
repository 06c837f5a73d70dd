"""Changes that a person drew into a report, as QGIS draws them: an outline, and perhaps words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import shapely
from shapely.geometry import shape

from rscc.text.facts import SOMETHING
from tiling import geodesic_area_m2
from workflows.report.change import CONFIRMED, WRONG_WORDS, id_of
from workflows.report.geojson import joined, polygons_in
from workflows.report.record import scenes_in

BY_HAND = "drawn by hand"
"""``model`` of such a change."""
# What every change has that a run found, and none that a person drew.
_MEASURED = ("score", "change_probability", "area_m2", "before", "after", "model")


def completed(features: Sequence[Any], record: Any) -> list[Any]:
    """Return the features of a report, each that a person drew with what every change has.

    It counts as confirmed, or, where it has no caption, as one in the wrong words without the right ones. Its
    id is that of its row, or the next that is free.

    Args:
        features: as they are in the file, which may come from anybody.
        record: the run record, from there, too.
    """
    taken = {id_of(one) or 0 for one in features if not _is_drawn(one)}
    whole = []
    for feature in features:
        if _is_drawn(feature):
            number = id_of(feature)
            if number is None or number in taken:
                number = max(taken, default=0) + 1
            taken.add(number)
            given = {name: value for name, value in feature["properties"].items() if value is not None}
            status = {"review_status": CONFIRMED}
            if not given.get("caption"):
                given |= {"caption": SOMETHING, "score": 0.0, "caption_confident": False}
                status = {"review_status": WRONG_WORDS}
            own = {**_of_run(record), **_measured(feature.get("geometry")), **status, **given, "id": number}
            feature = {**feature, "id": number, "properties": own}
        whole.append(feature)
    return whole


def _is_drawn(feature: Any) -> bool:
    properties = feature.get("properties") if isinstance(feature, Mapping) else None
    return isinstance(properties, Mapping) and all(properties.get(name) is None for name in _MEASURED)


def _measured(geometry: Any) -> dict[str, Any]:
    """Return what an outline tells; one that is none is refused where outlines are read."""
    try:
        west, south, east, north = shape(geometry).bounds
        on_earth = -180 <= west <= east <= 180 and -90 <= south <= north <= 90
        parts = polygons_in(shapely.make_valid(shape(geometry))) if on_earth else []
        area = geodesic_area_m2(joined(parts))
    # Whatever a hostile file brings shapely to say.
    except Exception:
        parts, area = [], 0.0
    return {"area_m2": round(area, 2), "count": max(len(parts), 1)}


def _of_run(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a change has of its scenes, and nothing that a model would say."""
    sure = {"alternatives": [], "score": 1.0, "change_probability": 1.0}
    return {**sure, **scenes_in(record), "model": BY_HAND, "model_version": ""}

"""What people do to a report in a GIS: changes that they drew, reshaped or split are as they are now.

A GIS saves an outline as it is drawn, with the numbers of another one beside it, or with none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import shapely
from shapely.geometry import shape

from rscc.text.facts import SOMETHING
from tiling import geodesic_area_m2
from workflows.report.change import CONFIRMED, WRONG_WORDS, fits, id_of
from workflows.report.geojson import joined, polygons_in
from workflows.report.record import scenes_in

BY_HAND = "drawn by hand"
"""``model`` of a change that a person drew."""
# What every change has that a run found, and none that a person drew.
_OF_MODEL = ("model", "score", "change_probability")
# An outline was reshaped if its area differs by more than this share and this many square metres from what is
# said: corners are rounded, and a way to another reference system and back moves them by as much.
_RESHAPED, _RESHAPED_M2 = 0.01, 0.5
_UNKNOWN = ("count_sure", "largest_m2", "median_m2", "changed_m2", "arrangement")
"""What is not known of an outline that a person made."""


def completed(features: Sequence[Any], record: Any) -> list[Any]:
    """Return the features of a report, each with what is true of its outline.

    A drawn change gets what every change has. It counts as confirmed, or, without a caption, as one in the
    wrong words without the right ones. An outline that was reshaped or split is measured anew: its area and
    the number of its parts. An id that is missing or there already, as in the pieces of a split change,
    becomes the next that no change has or had.

    Args:
        features: as they are in the file, which may come from anybody.
        record: the run record, from there, too.
    """
    summary = record.get("summary") if isinstance(record, Mapping) else None
    first = summary.get("changes") if isinstance(summary, Mapping) else None
    numbers = [number if fits("id", number := id_of(feature)) else None for feature in features]
    # Changes that somebody deleted had ids, too.
    last = max(number or 0 for number in (first if fits("id", first) else 0, *numbers))
    taken: set[int] = set()
    whole = []
    for feature, number in zip(features, numbers, strict=True):
        properties = feature.get("properties") if isinstance(feature, Mapping) else None
        if isinstance(properties, Mapping):
            is_drawn = all(properties.get(name) is None for name in _OF_MODEL)
            if number in taken or (number is None and is_drawn):
                number = last = last + 1
            if number is not None:
                taken.add(number)
                area, parts = _measured(feature.get("geometry"))
                if is_drawn:
                    properties = _drawn(properties, record, area, parts)
                elif parts and _is_reshaped(properties.get("area_m2"), area):
                    unknown = dict.fromkeys(_UNKNOWN)
                    properties = {**properties, **unknown, "area_m2": round(area, 2), "count": parts}
                feature = {**feature, "id": number, "properties": {**properties, "id": number}}
        whole.append(feature)
    return whole


def _drawn(given: Mapping[str, Any], record: Any, area: float, parts: int) -> dict[str, Any]:
    """Return what a person said of a change, and what is known of it besides."""
    said = {name: value for name, value in given.items() if value is not None}
    caption = said.get("caption", "")
    sure = {"score": 1.0, "change_probability": 1.0, "review_status": CONFIRMED, "count": max(parts, 1)}
    if isinstance(caption, str) and not caption.strip():
        sure |= {"score": 0.0, "caption_confident": False, "review_status": WRONG_WORDS}
        said["caption"] = SOMETHING
    model = {"model": BY_HAND, "model_version": "", "alternatives": []}
    return {**sure, **scenes_in(record), **model, **said, "area_m2": round(area, 2)}


def _is_reshaped(told: Any, area: float) -> bool:
    """Return whether an outline has another area than is told; what is damaged is refused elsewhere."""
    known = type(told) in (int, float) and fits("area_m2", told)
    return known and abs(area - told) > max(_RESHAPED * area, _RESHAPED_M2)


def _measured(geometry: Any) -> tuple[float, int]:
    """Return the square metres of an outline and its number of parts; 0 of what is none, which is refused."""
    try:
        west, south, east, north = shape(geometry).bounds
        if -180 <= west <= east <= 180 and -90 <= south <= north <= 90:
            parts = polygons_in(shapely.make_valid(shape(geometry)))
            return geodesic_area_m2(joined(parts)), len(parts)
    # Whatever a hostile file brings shapely to say.
    except Exception:
        pass
    return 0.0, 0

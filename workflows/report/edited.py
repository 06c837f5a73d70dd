"""What people do to a report in a GIS: changes that they drew, reshaped or split are as they are now.

A GIS saves an outline as it is drawn, with the numbers of another one beside it, or with none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shapely.geometry import MultiPolygon, Polygon

from rscc.text.facts import SOMETHING
from tiling import geodesic_area_m2
from workflows.report.change import CONFIRMED, WRONG_WORDS, fits, id_of
from workflows.report.geojson import outlines_in, parts_of
from workflows.report.record import scenes_in

BY_HAND = "drawn by hand"
"""``model`` of a change that a person drew."""
# What every change has that a run found, and none that a person drew: the names of its scenes.
_OF_RUN = ("before", "after")
# An outline was reshaped if its area differs by more than this share and this many square metres from what is
# said: corners are rounded, and a way to another reference system and back moves them by as much.
_RESHAPED, _RESHAPED_M2 = 0.01, 0.5
_UNKNOWN = ("count_sure", "largest_m2", "median_m2", "changed_m2", "changed_back_m2", "arrangement")
"""What is not known of an outline that a person made."""


def completed(features: Sequence[Any], record: Any) -> list[Any]:
    """Return the features of a report, each with what is true of its outline.

    A drawn change gets what every change has. It counts as confirmed, or, without a caption, as one in the
    wrong words without the right ones. An outline that was reshaped or split is measured anew: its area and
    the number of its parts. An id that is missing or there already, as in the pieces of a split change,
    becomes the next that no change has, nor one had that somebody deleted.

    Args:
        features: as they are in the file, which may come from anybody.
        record: the run record, from there, too.
    """
    numbers = [number if fits("id", number := id_of(feature)) else None for feature in features]
    last = max(found_first(record), *(number or 0 for number in numbers), 0)
    taken: set[int] = set()
    whole = []
    for feature, number in zip(features, numbers, strict=True):
        properties = feature.get("properties") if isinstance(feature, Mapping) else None
        if isinstance(properties, Mapping):
            if number in taken or (number is None and _is_drawn(properties)):
                number = last = last + 1
            if number is not None:
                taken.add(number)
                own = _attributes(properties, outlines_in(feature.get("geometry")), record)
                feature = {**feature, "id": number, "properties": {**own, "id": number}}
        whole.append(feature)
    return whole


def found_first(record: Any) -> int:
    """Return how many changes a run found, the highest id of its report; 0 where its record does not say."""
    summary = record.get("summary") if isinstance(record, Mapping) else None
    number = summary.get("changes") if isinstance(summary, Mapping) else None
    return number if isinstance(number, int) and fits("id", number) else 0


def _is_drawn(properties: Mapping[str, Any]) -> bool:
    return all(properties.get(name) is None for name in _OF_RUN)


def _attributes(
    properties: Mapping[str, Any], outlines: Polygon | MultiPolygon | None, record: Any
) -> Mapping[str, Any]:
    """Return the attributes of a change with these outlines; None is refused where outlines are read."""
    area = 0.0 if outlines is None else geodesic_area_m2(outlines)
    measured = {"area_m2": round(area, 2), "count": 1 if outlines is None else len(parts_of(outlines))}
    if _is_drawn(properties):
        own = {"model": BY_HAND, "model_version": "", "area_m2": measured["area_m2"]}
        return {**scenes_in(record), "alternatives": [], **measured, **_said(properties), **own}
    if outlines is not None and _is_reshaped(properties.get("area_m2"), area):
        return {**properties, **dict.fromkeys(_UNKNOWN), **measured}
    return properties


def _said(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a person said of a drawn change, and how sure that is."""
    said = {name: value for name, value in given.items() if value is not None}
    caption = said.get("caption", "")
    if isinstance(caption, str) and not caption.strip():
        said["caption"] = SOMETHING
        sure = {"score": 0.0, "caption_confident": False, "review_status": WRONG_WORDS}
    else:
        sure = {"score": 1.0, "review_status": CONFIRMED}
    return {"change_probability": 1.0, **sure, **said}


def _is_reshaped(told: Any, area: float) -> bool:
    """Return whether an outline has another area than is told; what is damaged is refused elsewhere."""
    known = type(told) in (int, float) and fits("area_m2", told)
    return known and abs(area - told) > max(_RESHAPED * area, _RESHAPED_M2)

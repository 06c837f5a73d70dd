"""Complete changes that people drew, reshaped or split in a GIS.

A GIS saves a new outline without attributes, and a changed one with the old measurements beside it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from shapely.geometry import MultiPolygon, Polygon

from rscc.text.change_facts import SOMETHING
from tiling import geodesic_area_m2
from workflows.report.change import CONFIRMED, WRONG_WORDS, id_of, is_valid
from workflows.report.geojson import outlines_in, parts_of
from workflows.report.record import scenes_in, value_in

BY_HAND = "drawn by hand"
"""``model`` of a change that a person drew."""
# Attributes that every change of a run has, and none that a person drew.
_OF_RUN = ("before", "after")
# An outline was reshaped if its area differs from the attribute by more than this share and this many square
# metres; rounding, and the transformation to another reference system and back, change it by less.
_RESHAPED, _RESHAPED_M2 = 0.01, 0.5
_UNKNOWN = ("label", "count_sure", "largest_m2", "median_m2", "changed_m2", "changed_back_m2", "arrangement")
"""Attributes that are not known of an outline that a person made."""


def completed(features: Sequence[Any], record: Any) -> list[Any]:
    """Return the features of a report with attributes that are true of their outlines.

    A drawn change gets the attributes that every change has. It counts as confirmed, or without a caption as
    one in the wrong words. The area and the number of parts of a reshaped or split outline are measured
    again. An id that is missing or not unique, as after a split, becomes the next that was never used.

    Args:
        features: as they are in the file, which may come from anybody.
    """
    numbers = [number if is_valid("id", number := id_of(feature)) else None for feature in features]
    last = max(found_count(record), *(number or 0 for number in numbers), 0)
    taken: set[int] = set()
    result = []
    for feature, number in zip(features, numbers, strict=True):
        properties = feature.get("properties") if isinstance(feature, Mapping) else None
        if isinstance(properties, Mapping):
            if number in taken or (number is None and _is_drawn(properties)):
                number = last = last + 1
            if number is not None:
                taken.add(number)
                own = _attributes(properties, outlines_in(feature.get("geometry")), record)
                feature = {**feature, "id": number, "properties": {**own, "id": number}}
        result.append(feature)
    return result


def found_count(record: Any) -> int:
    """Return the number of changes that the run found, its highest id; 0 where the record has none."""
    number = value_in(record, "summary", "changes")
    return number if isinstance(number, int) and is_valid("id", number) else 0


def _is_drawn(properties: Mapping[str, Any]) -> bool:
    return all(properties.get(name) is None for name in _OF_RUN)


def _attributes(
    properties: Mapping[str, Any], outlines: Polygon | MultiPolygon | None, record: Any
) -> Mapping[str, Any]:
    """Return the attributes of a change; outlines that are None are refused by the reader."""
    area = 0.0 if outlines is None else geodesic_area_m2(outlines)
    measured = {"area_m2": round(area, 2), "count": 1 if outlines is None else len(parts_of(outlines))}
    if _is_drawn(properties):
        own = {"model": BY_HAND, "model_version": "", "area_m2": measured["area_m2"]}
        return {**scenes_in(record), "alternatives": [], **measured, **_given(properties), **own}
    if outlines is not None and _is_reshaped(properties.get("area_m2"), area):
        return {**properties, **dict.fromkeys(_UNKNOWN), **measured}
    return properties


def _given(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes that a person filled in for a drawn change, and a score for its caption."""
    given = {name: value for name, value in properties.items() if value is not None}
    caption = given.get("caption", "")
    if isinstance(caption, str) and not caption.strip():
        given["caption"] = SOMETHING
        defaults = {"score": 0.0, "caption_confident": False, "review_status": WRONG_WORDS}
    else:
        defaults = {"score": 1.0, "review_status": CONFIRMED}
    return {"change_probability": 1.0, **defaults, **given}


def _is_reshaped(recorded: Any, area: float) -> bool:
    """Return whether an outline has another area than its attribute; a damaged one is refused elsewhere."""
    known = type(recorded) in (int, float) and is_valid("area_m2", recorded)
    return known and abs(area - recorded) > max(_RESHAPED * area, _RESHAPED_M2)

"""One change of a report: what is known of it, and how it is written down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache
from types import NoneType
from typing import Any, get_args, get_type_hints

from shapely.geometry import MultiPolygon, Polygon

from workflows.report.geojson import geometry_member, rounded

SCHEMA_VERSION = "1.4"
"""Of the attributes and of the run record, as ``docs/report.schema.json`` has them.

The first number rises when one goes away or means something else, the second when one is new.
"""
VERDICTS = CONFIRMED, WRONG_PLACE, WRONG_WORDS = ("confirmed", "wrong place", "wrong words")
"""What a person says of a change."""
LISTS = ("alternatives", "came", "gone", "before_cover")
"""Attributes that are lists of texts."""
FLAGS = ("changed_at_least", "caption_confident")
"""Attributes that are true or false."""
# No number of a report is larger, and no format takes larger whole ones.
_LARGEST = 2.0**53
_TEXTS = tuple[str, ...]
Chips = Mapping[int, tuple[bytes, bytes]]
"""Small pictures of changes before and after, JPEG, by the ids of the changes."""


@dataclass(frozen=True)
class Change:
    """One change and the words for it; the attributes but ``geometry`` are the fields of the report.

    A change is what a person calls one: a house, an estate of many outlines. What is not known is None or
    empty.

    Attributes:
        geometry: its outlines in WGS84 longitude and latitude, degrees; cut in parts where they cross 180
            degrees.
        id: 1..n, counted from north to south and from west to east.
        caption: the sentence, lower case.
        alternatives: other sentences, best first.
        score: how sure the model is of the words, 0..1.
        change_probability: mean probability of change inside the outlines, 0..1.
        area_m2: geodesic area of all outlines in square metres.
        date_before, date_after: ISO dates as precise as known (day, month or year); None when unknown.
        before, after: file names of the scenes.
        model, model_version: what found and described it.
        outline_of: ``road`` or ``clearing`` where the outlines are of one away from other changes, else
            ``change``.
        count: number of objects: outlines, of which those of buildings that touch are parted.
        count_sure: how many of these objects are sure; None of roads, clearings and captions that are made of
            no facts about objects.
        direction: ``appeared``, ``disappeared`` or ``replaced``.
        came, gone: object classes that appeared and that are gone.
        before_cover: what covered the ground before.
        largest_m2, median_m2: area of the largest and of the median object in square metres.
        changed_m2: square metres that are measured to have changed as the caption says, of a change of land
            cover; None for others.
        changed_back_m2: the same of what changed the other way, where the caption tells of both.
        changed_at_least: whether it may be notably more than these.
        place: compass words of where it lies in the ground that was searched; None where it lies all over.
        arrangement: ``alone`` (one object), ``in rows`` or ``scattered``.
        caption_confident: whether the words are sure enough to be said.
        review_status: what a person said of it: ``confirmed``, ``wrong place`` or ``wrong words``.
        reviewer: who said so.
        reviewer_caption: the right words, where those of the report are wrong.
        reviewer_note: what else there is to say.
    """

    geometry: Polygon | MultiPolygon
    id: int
    caption: str
    alternatives: tuple[str, ...]
    score: float
    change_probability: float
    area_m2: float
    date_before: str | None
    date_after: str | None
    before: str
    after: str
    model: str
    model_version: str
    outline_of: str = "change"
    count: int = 1
    count_sure: int | None = None
    direction: str | None = None
    came: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    before_cover: tuple[str, ...] = ()
    largest_m2: float | None = None
    median_m2: float | None = None
    changed_m2: float | None = None
    changed_back_m2: float | None = None
    changed_at_least: bool = False
    place: str | None = None
    arrangement: str | None = None
    caption_confident: bool = True
    review_status: str | None = None
    reviewer: str | None = None
    reviewer_caption: str | None = None
    reviewer_note: str | None = None

    def properties(self) -> dict[str, Any]:
        """Return the fields as plain values: probabilities with 4 decimals, areas with 2, tuples as lists."""
        return {name: _plain(getattr(self, name), 2 if name.endswith("_m2") else 4) for name in PROPERTIES}


PROPERTIES = [each.name for each in fields(Change) if each.name != "geometry"]
"""The attributes of the report, in their order: the fields of a change but its geometry."""
# As JSON has them.
_DEFAULTS = {
    each.name: list(each.default) if isinstance(each.default, tuple) else each.default
    for each in fields(Change)
    if each.default is not MISSING
}


def id_of(feature: Any) -> int | None:
    """Return the id of a feature of a report; None where it has none."""
    properties = feature.get("properties") if isinstance(feature, dict) else None
    # GDAL, and so QGIS, leaves out the attribute where it saves the same number as the id of the feature.
    number = properties.get("id", feature.get("id")) if isinstance(properties, dict) else None
    return number if type(number) is int else None


def attributes_of(feature: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a feature of a report, all of them, as JSON has them.

    One that it lacks, as a report of an earlier version may, has its default.

    Raises:
        KeyError: it lacks one that every report has.
    """
    own = {**_DEFAULTS, **feature["properties"], "id": id_of(feature)}
    for name in LISTS:  # people empty a cell of a GIS, or type one text into it
        cell = "" if own[name] is None else own[name]
        if isinstance(cell, str) and not cell.startswith("["):  # that would be a list, cut off
            own[name] = [cell.strip()] if cell.strip() else []
    if isinstance(verdict := own["review_status"], str):
        own["review_status"] = " ".join(verdict.split()).lower() or None
    return {name: own[name] for name in PROPERTIES}


def _plain(value: Any, digits: int) -> Any:
    if isinstance(value, float):
        return round(value, digits)
    return list(value) if isinstance(value, tuple) else value


def feature_of(change: Change) -> dict[str, Any]:
    """Return the GeoJSON feature of a change."""
    return {
        "type": "Feature",
        "id": change.id,
        "geometry": geometry_member(rounded(change.geometry)),
        "properties": change.properties(),
    }


def fits(name: str, value: Any) -> bool:
    """Return whether a value of JSON can be that of an attribute of a change, but its geometry."""
    hint = _hints()[name]
    if hint == _TEXTS:
        return isinstance(value, list) and all(isinstance(one, str) for one in value)
    kinds = get_args(hint) or (hint,)
    if value is None:
        return NoneType in kinds
    if name == "review_status":
        return value in VERDICTS
    if type(value) is int or type(value) is float:
        # A comparison, since whole numbers of any length are JSON.
        return (float in kinds or type(value) in kinds) and abs(value) < _LARGEST
    return type(value) in kinds


def number_types() -> dict[str, str]:
    """Return the types of the columns of a table that are numbers or flags, whatever stands in them."""
    types = {}
    for name in PROPERTIES:
        kinds = set(get_args(_hints()[name]) or (_hints()[name],))
        if kinds == {bool}:
            types[name] = "bool"
        elif kinds & {int, float}:
            types[name] = "int64" if kinds == {int} else "float64"  # which has NaN for None
    return types


@cache
def _hints() -> dict[str, Any]:
    return get_type_hints(Change)

"""One change of a report: its attributes, how they are written, and which changes a report keeps."""

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from types import NoneType
from typing import Any, Protocol, get_args, get_origin, get_type_hints

from shapely.geometry import MultiPolygon, Polygon

from workflows.option_fields import area_of
from workflows.report.geojson import geometry_member, rounded

SCHEMA_VERSION = "2.1"
"""Version of the attributes and of the run record in ``docs/report.schema.json``.

The first number rises when one is removed or changes its meaning, the second when one is added.
"""
VERDICTS = CONFIRMED, WRONG_PLACE, WRONG_WORDS = ("confirmed", "wrong place", "wrong words")
"""Verdicts of a reviewer."""
GIVEN = "given"
"""``outline_of`` of a change whose outline a user gave."""
SEEN = 0.5
"""Share of a given outline seen as changed from which it is the outline of what changed."""
# The largest number of a report; formats store no larger whole number exactly.
_LARGEST = 2.0**53
Chips = Mapping[int, tuple[bytes, bytes]]
"""Small pictures of changes before and after, JPEG, by the ids of the changes."""


@dataclass(frozen=True)
class Change:
    """One change and its sentence; all attributes but ``geometry`` are fields of the report.

    A change is what a person calls one: a house, an estate of many outlines. An unknown attribute is None
    or empty.

    Attributes:
        geometry: its outlines in WGS84 longitude and latitude, degrees; cut in parts where they cross 180
            degrees.
        id: 1..n, counted from north to south and from west to east.
        caption: the sentence.
        alternatives: other sentences, best first.
        score: probability that the sentence is right, 0..1.
        change_probability: mean probability of change inside the outlines, 0..1.
        area_m2: geodesic area of all outlines in square metres.
        date_before, date_after: ISO dates as precise as known (day, month or year); None when unknown.
        before, after: file names of the scenes.
        model, model_version: of the model that found and described it.
        label: what it is in a few words; None where no class is known.
        outline_of: ``road`` or ``clearing`` of one that lies away from other changes, ``given`` of one that a
            user gave, else ``change``.
        count: number of objects: outlines, with buildings that touch counted one by one.
        count_sure: number of sure objects; None of roads, clearings and captions without facts on objects.
        direction: ``appeared``, ``disappeared`` or ``replaced``.
        came, gone: object classes that appeared and that are gone.
        before_cover: what covered the ground before.
        largest_m2, median_m2: area of the largest and of the median object in square metres.
        changed_m2: square metres that changed as the caption says, for land cover; None for others.
        changed_back_m2: square metres that changed the other way, where the caption says both.
        changed_at_least: whether the changed area may be notably larger.
        place: compass words for where it lies in the searched ground; None where it lies all over.
        arrangement: ``alone`` (one object), ``in rows`` or ``scattered``.
        cut_by_edge: whether it touches the edge of the data or of the search, and may go on beyond it.
        caption_confident: whether the sentence is sure enough.
        may_be_destroyed: whether buildings are gone where the ground is not clear after.
        familiarity: how like the training data the ground is, 0..1; None where the model has no measure.
        context: areas of context layers that it overlaps: layer, id, name, share.
        source_id: its id in the layer of changes that a user gave; None of what was found.
        supported: share of a given outline, 0..1, that the model itself sees as changed; None of what was
            found, and where it is not judged.
        not_judged: why there are no facts of a given outline, such as ``cloud`` or ``outside the scenes``.
        review_status: the verdict: ``confirmed``, ``wrong place`` or ``wrong words``.
        reviewer: name of the reviewer.
        reviewer_caption: the right sentence, where that of the report is wrong.
        reviewer_note: remark of the reviewer.
        reviewed_at: when the verdict was given, ISO, UTC; None where it was typed in a GIS.
        attributes: the other columns of a given outline, which are written beside these.
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
    label: str | None = None
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
    cut_by_edge: bool = False
    caption_confident: bool = True
    may_be_destroyed: bool = False
    familiarity: float | None = None
    context: tuple[str, ...] = ()
    source_id: str | None = None
    supported: float | None = None
    not_judged: str | None = None
    review_status: str | None = None
    reviewer: str | None = None
    reviewer_caption: str | None = None
    reviewer_note: str | None = None
    reviewed_at: str | None = None
    attributes: Mapping[str, str | int | float | bool | None] = field(default_factory=dict)

    def properties(self) -> dict[str, Any]:
        """Return the fields as plain values: probabilities with 4 decimals, areas with 2, tuples as lists."""
        own = {name: _plain(getattr(self, name), 2 if name.endswith("_m2") else 4) for name in PROPERTIES}
        return {**own, **self.attributes}


_NO_PROPERTIES = ("geometry", "attributes")
PROPERTIES = [each.name for each in fields(Change) if each.name not in _NO_PROPERTIES]
"""The attributes of every report, in their order."""
_HINTS = {name: hint for name, hint in get_type_hints(Change).items() if name not in _NO_PROPERTIES}
KINDS: dict[str, type] = {
    name: list if get_origin(hint) is tuple else next(iter({*(get_args(hint) or (hint,))} - {NoneType}))
    for name, hint in _HINTS.items()
}
"""The JSON type of each attribute: ``str``, ``int``, ``float``, ``bool`` or ``list`` (of texts)."""
OPTIONAL = {name for name, hint in _HINTS.items() if NoneType in get_args(hint)}
"""Attributes that can be None."""
LISTS = tuple(name for name, kind in KINDS.items() if kind is list)
FLAGS = tuple(name for name, kind in KINDS.items() if kind is bool)
# As JSON has them.
_DEFAULTS = {
    each.name: list(each.default) if isinstance(each.default, tuple) else each.default
    for each in fields(Change)
    if each.default is not MISSING
}


def id_of(feature: Any) -> int | None:
    """Return the id of a feature of a report; None where it has none."""
    properties = feature.get("properties") if isinstance(feature, dict) else None
    # GDAL and QGIS leave the attribute out where the feature has the same id.
    number = properties.get("id", feature.get("id")) if isinstance(properties, dict) else None
    return number if type(number) is int else None


def attributes_of(feature: Mapping[str, Any]) -> dict[str, Any]:
    """Return all attributes of a feature of a report, as JSON; a missing optional one has its default.

    Raises:
        KeyError: an attribute that every report has is missing.
    """
    own = {**_DEFAULTS, **feature["properties"], "id": id_of(feature)}
    for name in LISTS:  # people empty a cell in a GIS, or type a text into it
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


def columns_of(changes: Iterable[Change]) -> list[str]:
    """Return the attributes of changes in their order: those of every report, then those that were given."""
    return [*PROPERTIES, *dict.fromkeys(name for change in changes for name in change.attributes)]


def given_columns(record: Any) -> list[str]:
    """Return the attributes that given outlines have by a run record, which may come from anybody."""
    given = record.get("given") if isinstance(record, Mapping) else None
    names = given.get("columns") if isinstance(given, Mapping) else None
    if not isinstance(names, list):
        return []
    return [name for name in dict.fromkeys(map(str, names)) if name and name not in PROPERTIES]


def feature_of(change: Change) -> dict[str, Any]:
    """Return the GeoJSON feature of a change; a given outline stays as it was given, to the last bit."""
    is_given = change.outline_of == GIVEN
    outline = geometry_member(change.geometry if is_given else rounded(change.geometry), exact=is_given)
    return {"type": "Feature", "id": change.id, "geometry": outline, "properties": change.properties()}


def is_valid(name: str, value: Any) -> bool:
    """Return whether a JSON value is valid for an attribute of a change other than its geometry."""
    kind = KINDS[name]
    if kind is list:
        return isinstance(value, list) and all(isinstance(one, str) for one in value)
    if value is None:
        return name in OPTIONAL
    if name == "review_status":
        return value in VERDICTS
    if type(value) is int or type(value) is float:
        # A comparison, since whole numbers of any length are JSON.
        return (kind is float or type(value) is kind) and abs(value) < _LARGEST
    return type(value) is kind


class Selection(Protocol):
    """Options that select changes; None selects all."""

    @property
    def only(self) -> tuple[str, ...] | None: ...  # noqa: D102
    @property
    def direction(self) -> str | None: ...  # noqa: D102
    @property
    def area(self) -> str | None: ...  # noqa: D102


def selected(changes: Iterable[Change], options: Selection) -> list[Change]:
    """Return the changes that touch ``area`` and in which a class of ``only`` came or went as asked.

    A change that replaced one class by another counts for both directions.
    """
    area = None if options.area is None else area_of(options.area)
    return [
        change
        for change in changes
        if _names_match(change, options) and (area is None or change.geometry.intersects(area))
    ]


def _names_match(change: Change, options: Selection) -> bool:
    parts = {"appeared": change.came, "disappeared": change.gone}
    wanted = [named for direction, named in parts.items() if options.direction in (None, direction)]
    names = {name for named in wanted for name in named}
    if options.only is not None:
        return not names.isdisjoint(options.only)
    return options.direction is None or bool(names) or change.direction == options.direction

"""Check reports without the code under test (RFC 7946, the JSON Schema), read tables, hostile texts."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from jsonschema import Draft202012Validator
from shapely.geometry import shape

FIELDS = {
    "id": int,
    "alternatives": list,
    **dict.fromkeys(("score", "change_probability", "area_m2"), float),
    **dict.fromkeys(("date_before", "date_after"), (str, type(None))),
    **dict.fromkeys(("caption", "before", "after", "model", "model_version", "outline_of"), str),
    "count": int,
    "count_sure": (int, type(None)),
    **dict.fromkeys(("label", "direction", "place", "arrangement"), (str, type(None))),
    **dict.fromkeys(("came", "gone", "before_cover", "context"), list),
    **dict.fromkeys(("largest_m2", "median_m2", "changed_m2", "changed_back_m2"), (float, type(None))),
    **dict.fromkeys(("familiarity", "supported"), (float, int, type(None))),
    **dict.fromkeys(("source_id", "not_judged"), (str, type(None))),
    **dict.fromkeys(("changed_at_least", "cut_by_edge", "caption_confident", "may_be_destroyed"), bool),
    **dict.fromkeys(
        ("review_status", "reviewer", "reviewer_caption", "reviewer_note", "reviewed_at"), (str, type(None))
    ),
}


def load_valid(path: Path) -> dict[str, Any]:
    """Read a report and check all of it; raises AssertionError with the place."""
    text = path.read_text(encoding="utf-8")
    collection = json.loads(text, parse_constant=_no_constant)
    assert collection["type"] == "FeatureCollection"
    assert "crs" not in collection, "RFC 7946 has no crs member"
    assert isinstance(collection["rscc"], dict)
    features = collection["features"]
    # Reports that tests make up have less of a run record.
    if "schema" in collection["rscc"]:
        assert faults(collection) == []
    for number, feature in enumerate(features, start=1):
        _check_feature(feature, number)
    if features:
        _check_bbox(collection["bbox"], [ring for feature in features for ring in _outer_rings(feature)])
    return collection


def _no_constant(name: str) -> None:
    raise AssertionError(f"{name} is no JSON")


def _check_feature(feature: dict[str, Any], number: int) -> None:
    assert feature["type"] == "Feature"
    assert feature["id"] == feature["properties"]["id"] == number
    properties = feature["properties"]
    assert set(properties) == set(FIELDS)
    for name, kind in FIELDS.items():
        assert isinstance(properties[name], kind), (number, name, properties[name])
    assert faults(feature, "feature") == [], number
    assert properties["caption"].strip()
    assert all(isinstance(text, str) for text in properties["alternatives"])
    assert properties["caption"] not in properties["alternatives"]
    assert 0 <= properties["score"] <= 1
    assert 0 <= properties["change_probability"] <= 1
    assert properties["area_m2"] > 0
    for rings in _polygons(feature):
        for index, ring in enumerate(rings):
            _check_ring(ring, counter_clockwise=index == 0)
    assert shape(feature["geometry"]).is_valid, number


def _check_ring(ring: list[list[float]], *, counter_clockwise: bool) -> None:
    assert len(ring) >= 4
    assert ring[0] == ring[-1], "a ring is closed"
    for longitude, latitude in ring:
        assert -180 <= longitude <= 180 and -90 <= latitude <= 90
        for value in (longitude, latitude):
            assert math.isfinite(value)
            assert round(value, 7) == value, "7 decimals"
    pairs = itertools.pairwise(ring)
    doubled_area = sum(
        (x0 - ring[0][0]) * (y1 - y0) - (x1 - x0) * (y0 - ring[0][1]) for (x0, y0), (x1, y1) in pairs
    )
    assert (doubled_area > 0) == counter_clockwise, "right-hand rule"


def _check_bbox(bbox: list[float], rings: list[list[list[float]]]) -> None:
    west, south, east, north = bbox
    longitudes = [point[0] for ring in rings for point in ring]
    latitudes = [point[1] for ring in rings for point in ring]
    assert (south, north) == (min(latitudes), max(latitudes))
    if west <= east:
        assert (west, east) == (min(longitudes), max(longitudes))
    else:  # across the antimeridian
        assert all(value >= west or value <= east for value in longitudes)
        assert west in longitudes and east in longitudes


def _polygons(feature: dict[str, Any]) -> list[list[list[list[float]]]]:
    geometry = feature["geometry"]
    assert geometry["type"] in ("Polygon", "MultiPolygon")
    polygons = [geometry["coordinates"]] if geometry["type"] == "Polygon" else geometry["coordinates"]
    assert polygons
    for polygon in polygons:
        longitudes = [point[0] for point in polygon[0]]
        assert max(longitudes) - min(longitudes) < 180, "cut at the antimeridian"
    return polygons


def _outer_rings(feature: dict[str, Any]) -> list[list[list[float]]]:
    return [rings[0] for rings in _polygons(feature)]


SCHEMA = Path(__file__).resolve().parents[2] / "docs" / "report.schema.json"


@cache
def published() -> dict[str, Any]:
    """What the file holds."""
    return json.loads(SCHEMA.read_text(encoding="utf-8"))


@cache
def _validator(part: str) -> Draft202012Validator:
    schema = published()
    return Draft202012Validator({"$ref": f"#/$defs/{part}", "$defs": schema["$defs"]} if part else schema)


def faults(value: Any, part: str = "") -> list[str]:
    """Return what is wrong with a report or, with ``part``, with a ``feature`` or the ``record`` alone."""
    return [f"{error.json_path}: {error.message[:200]}" for error in _validator(part).iter_errors(value)]


TIMES = ("started", "seconds")


def without_times(record: Mapping[str, Any], *others: str) -> dict[str, Any]:
    """Return the record of a run without its times, and without the fields named by ``others``."""
    return {name: value for name, value in record.items() if name not in (*TIMES, *others)}


PIECES = (
    "<img src=x onerror=alert(1)>", "<svg/onload=alert(1)>", "</script>", "</title>",
    "<script>alert(1)</script>", "<iframe srcdoc='<b>'>", "<a href=javascript:alert(1)>x</a>", "<!--",
    "-->", "]]>", "<style>*{}</style>", "<b>", "&lt;", "&#60;", "&amp;", "`", "${alert(1)}", "{{7*7}}",
    "%3Cscript%3E", "\\u003cb\\u003e", "\\x3cb\\x3e", "\\", '"', "'", "//x.example/",
    "https://x.example/", "url(x)", "data:text/html,", "__proto__", "constructor", "null", "\x00",
    "\x07", "\x1b[31m", "\r\n", "\t", "\x7f", "\x85", "\u2028", "\u2029", "\ufeff", "\ufffe", "\ue000",
    "\u202e", "\u202d", "\u2066", "\u2067", "\u2069", "\u200f", "\u200b", "\u200d", "\u0301" * 30,
    "\u05d0\u05d1", "\u0645\u0631\u062d\u0628\u0627", "\u5bb6", "\U0001f3e0", "\U000e0041", "[[data]]",
    "=1+1", "x" * 3_000, " " * 50,
)  # fmt: skip


def hostile_texts(count):
    """Different texts of some pieces each."""
    random = Random(11)
    return [f"{n}{''.join(random.choices(PIECES, k=random.randint(1, 6)))}" for n in range(count)]


def cells_of(table: str) -> list[list[str]]:
    """The cells of every line of a table in Markdown; the second line is the rule under the head."""
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.strip().splitlines()]

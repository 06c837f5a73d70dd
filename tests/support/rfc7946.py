"""What RFC 7946 and this project ask of a report, checked on the JSON without the code under test."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

from report_schema import faults
from shapely.geometry import shape

FIELDS = {
    "id": int,
    "alternatives": list,
    **dict.fromkeys(("score", "change_probability", "area_m2"), float),
    **dict.fromkeys(("date_before", "date_after"), (str, type(None))),
    **dict.fromkeys(("caption", "before", "after", "model", "model_version", "outline_of"), str),
    "count": int,
    "count_sure": (int, type(None)),
    **dict.fromkeys(("direction", "place", "arrangement"), (str, type(None))),
    **dict.fromkeys(("came", "gone", "before_cover"), list),
    **dict.fromkeys(("largest_m2", "median_m2", "changed_m2", "changed_back_m2"), (float, type(None))),
    **dict.fromkeys(("changed_at_least", "caption_confident"), bool),
    **dict.fromkeys(("review_status", "reviewer", "reviewer_caption", "reviewer_note"), (str, type(None))),
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

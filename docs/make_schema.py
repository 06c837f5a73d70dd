"""Write docs/report.schema.json: the JSON Schema of a report, from the class of its changes.

Names, types and order are those of ``workflows.report.change.Change``; what an attribute means is said in
docs/report.md and taken from there.

Usage: python docs/make_schema.py
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_type_hints

from rscc.text.facts import DIRECTIONS
from workflows.report.change import PROPERTIES, SCHEMA_VERSION, VERDICTS, Change

PAGE = Path(__file__).with_name("report.md")
SCHEMA = Path(__file__).with_name("report.schema.json")
_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}
_SHARE = {"minimum": 0, "maximum": 1}
_SIZE = {"minimum": 0}
_DATE = {"pattern": r"^\d{4}(-\d{2}(-\d{2})?)?$"}
# What the types do not say of the values.
_LIMITS: dict[str, dict[str, Any]] = {
    "id": {"minimum": 1},
    "count": {"minimum": 1},
    "count_sure": {"minimum": 0},
    "outline_of": {"enum": ["change", "road", "clearing"]},
    "alternatives": {"maxItems": 4},
    **dict.fromkeys(("score", "change_probability"), _SHARE),
    **dict.fromkeys(("area_m2", "largest_m2", "median_m2", "changed_m2", "changed_back_m2"), _SIZE),
    **dict.fromkeys(("date_before", "date_after"), _DATE),
    "direction": {"enum": [*DIRECTIONS, None]},
    "place": {
        "enum": [
            *("north", "north-east", "east", "south-east", "south", "south-west", "west", "north-west"),
            *("centre", None),
        ]
    },
    "arrangement": {"enum": ["alone", "in rows", "scattered", None]},
    "review_status": {"enum": [*VERDICTS, None]},
}
_MAYBE = ["object", "null"]
# The members of the run record, and what each is.
_RECORD: dict[str, str | list[str]] = {
    "schema": "string",
    "summary": "object",
    "inputs": "object",
    "model": "object",
    "settings": "object",
    "settings_sha256": "string",
    "determination:method": "string",
    "determination:datetime": ["string", "null"],
    "tiling": "object",
    "probability": ["string", "null"],
    "remade": _MAYBE,
    "sample": "object",
    "bands": "object",
    "stretch": "object",
    "normalization": _MAYBE,
    "ground": _MAYBE,
    "registration": "object",
    "focus": "object",
    "refinement": _MAYBE,
    "land_cover": _MAYBE,
    "memory": "object",
    "resumed_tiles": "integer",
    "warnings": "array",
    "versions": "object",
    "started": "string",
    "seconds": "number",
}
# What the record of a sample has, which is of no pair or of several; the others are in that of every run.
_SHARED = ("schema", "inputs", "model", "settings", "settings_sha256", "tiling", "versions")
_NUMBERS = {"type": "array", "items": {"type": "number"}}
_RING = {"type": "array", "items": {**_NUMBERS, "minItems": 2}, "minItems": 4}
_POLYGON = {"type": "array", "items": _RING, "minItems": 1}


def schema() -> dict[str, Any]:
    """Return the schema of a report's file; that of a feature alone is ``#/$defs/feature``."""
    about, _, about_runs = PAGE.read_text(encoding="utf-8").partition("## The run record")
    told, told_of_runs = meanings(about), meanings(about_runs)
    own = {name: {"description": told[name][1], **_kind(name)} for name in PROPERTIES}
    record = {name: {"description": told_of_runs[name][1], **_record(name)} for name in _RECORD}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:rscc:report:{SCHEMA_VERSION}",
        "title": f"A report of rscc, version {SCHEMA_VERSION}",
        "type": "object",
        "required": ["type", "rscc", "features"],
        "properties": {
            "type": {"const": "FeatureCollection"},
            "bbox": {**_NUMBERS, "minItems": 4, "maxItems": 4},
            "rscc": {"$ref": "#/$defs/record"},
            "features": {"type": "array", "items": {"$ref": "#/$defs/feature"}},
        },
        "$defs": {
            "feature": {
                "title": "One change",
                "type": "object",
                "required": ["type", "id", "geometry", "properties"],
                "properties": {
                    "type": {"const": "Feature"},
                    "id": {"type": "integer"},
                    "geometry": {
                        "oneOf": [
                            _geometry("Polygon", _POLYGON),
                            _geometry("MultiPolygon", {"type": "array", "items": _POLYGON, "minItems": 1}),
                        ]
                    },
                    "properties": {"type": "object", "required": list(own), "properties": own},
                },
            },
            "record": {
                "title": "The run record",
                "type": "object",
                "required": list(_SHARED),
                "properties": record,
                "if": {"required": ["sample"]},
                "else": {
                    "required": [n for n in _RECORD if n not in (*_SHARED, "remade", "sample")],
                    "properties": {"inputs": {"required": ["before", "after"]}},
                },
            },
        },
    }


def words(kind: dict[str, Any]) -> str:
    """Return how docs/report.md calls a type."""
    if kind["type"] == "array":
        return "list of strings"
    if kind.get("maximum") == 1:
        return "0 to 1"
    return kind["type"] if isinstance(kind["type"], str) else " or ".join(kind["type"])


def meanings(page: str) -> dict[str, tuple[str, str]]:
    """Return for each name in the first column of a table what the second and the last say; the first holds.

    Of attributes these are the type, as the page calls it, and the meaning.
    """
    found: dict[str, tuple[str, str]] = {}
    for line in page.splitlines():
        names, *cells = line.strip("| ").split(" | ") if line.startswith("| `") else [""]
        for name in re.findall(r"`([\w:]+)(?:\.\w+)?`", names):
            found.setdefault(name, (cells[0], _plain(cells[-1])))
    return found


def _plain(text: str) -> str:
    """Return a cell without the marks of Markdown, and without what points to another place of the page."""
    text = re.sub(r", see \[below\]\([^)]*\)", "", text)
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text).replace("`", "")


def _kind(name: str) -> dict[str, Any]:
    hint = get_type_hints(Change)[name]
    if hint == tuple[str, ...]:
        return {"type": "array", "items": {"type": "string"}, **_LIMITS.get(name, {})}
    kinds = [_TYPES[one] for one in get_args(hint) or (hint,)]
    return {"type": kinds[0] if len(kinds) == 1 else kinds, **_LIMITS.get(name, {})}


def _record(name: str) -> dict[str, Any]:
    kind: dict[str, Any] = {"type": _RECORD[name]}
    if name == "schema":
        return {**kind, "const": SCHEMA_VERSION}
    if name == "inputs":
        scene = {"type": "object", "required": ["path", "date"]}
        return {**kind, "properties": {"before": scene, "after": scene}}
    return kind


def _geometry(kind: str, coordinates: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["type", "coordinates"],
        "properties": {"type": {"const": kind}, "coordinates": coordinates},
    }


def text() -> str:
    """Return the text of the file."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    SCHEMA.write_text(text(), encoding="utf-8")

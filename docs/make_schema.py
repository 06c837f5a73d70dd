"""Write docs/report.schema.json: the JSON Schema of a report.

Names, types and order of the fields are those of :class:`workflows.report.change.Change`; the tables of
docs/report.md have their descriptions.

Usage: python docs/make_schema.py
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_type_hints

from rscc.text.change_facts import DIRECTIONS
from workflows.report.change import PROPERTIES, SCHEMA_VERSION, VERDICTS, Change

PAGE = Path(__file__).with_name("report.md")
SCHEMA = Path(__file__).with_name("report.schema.json")
COMPASS = ("north", "north-east", "east", "south-east", "south", "south-west", "west", "north-west", "centre")
TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}
PROBABILITY = {"minimum": 0, "maximum": 1}
AREA = {"minimum": 0}
DATE = {"pattern": r"^\d{4}(-\d{2}(-\d{2})?)?$"}
# Limits of the values, beyond their types.
LIMITS: dict[str, dict[str, Any]] = {
    "id": {"minimum": 1},
    "count": {"minimum": 1},
    "count_sure": {"minimum": 0},
    "outline_of": {"enum": ["change", "road", "clearing", "given"]},
    "alternatives": {"maxItems": 4},
    **dict.fromkeys(("score", "change_probability", "familiarity", "supported"), PROBABILITY),
    **dict.fromkeys(("area_m2", "largest_m2", "median_m2", "changed_m2", "changed_back_m2"), AREA),
    **dict.fromkeys(("date_before", "date_after"), DATE),
    "direction": {"enum": [*DIRECTIONS, None]},
    "place": {"enum": [*COMPASS, None]},
    "arrangement": {"enum": ["alone", "in rows", "scattered", None]},
    "review_status": {"enum": [*VERDICTS, None]},
}
OBJECT_OR_NULL = ["object", "null"]
# The members of the run record and their types.
RECORD: dict[str, str | list[str]] = {
    "schema": "string",
    "summary": "object",
    "inputs": "object",
    "model": "object",
    "settings": "object",
    "settings_sha256": "string",
    "determination:method": "string",
    "determination:datetime": ["string", "null"],
    "tiling": "object",
    "maps": ["string", "null"],
    "given": "object",
    "remade": OBJECT_OR_NULL,
    "sample": "object",
    "bands": "object",
    "stretch": "object",
    "normalization": OBJECT_OR_NULL,
    "ground": OBJECT_OR_NULL,
    "not_judged": "object",
    "fill": "object",
    "registration": "object",
    "focus": "object",
    "familiarity": ["number", "null"],
    "land_cover": OBJECT_OR_NULL,
    "memory": "object",
    "resumed_tiles": "integer",
    "warnings": "array",
    "versions": "object",
    "started": "string",
    "seconds": "number",
}
OPTIONAL = ("given", "remade", "sample")
# Members that every record has, also that of a sample, which is of several pairs.
ALWAYS = ("schema", "inputs", "model", "settings", "settings_sha256", "tiling", "versions")
NUMBERS = {"type": "array", "items": {"type": "number"}}
RING = {"type": "array", "items": {**NUMBERS, "minItems": 2}, "minItems": 4}
POLYGON = {"type": "array", "items": RING, "minItems": 1}


def schema() -> dict[str, Any]:
    """Return the schema of a report's file; ``#/$defs/feature`` is that of one change."""
    of_change, _, of_record = PAGE.read_text(encoding="utf-8").partition("## The run record")
    properties = {name: {**_described(of_change, name), **_kind(name)} for name in PROPERTIES}
    record = {name: {**_described(of_record, name), **_record(name)} for name in RECORD}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:rscc:report:{SCHEMA_VERSION}",
        "title": f"A report of rscc, version {SCHEMA_VERSION}",
        "type": "object",
        "required": ["type", "rscc", "features"],
        "properties": {
            "type": {"const": "FeatureCollection"},
            "bbox": {**NUMBERS, "minItems": 4, "maxItems": 4},
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
                            _geometry("Polygon", POLYGON),
                            _geometry("MultiPolygon", {"type": "array", "items": POLYGON, "minItems": 1}),
                        ]
                    },
                    "properties": {
                        "type": "object",
                        "required": list(properties),
                        "properties": properties,
                    },
                },
            },
            "record": {
                "title": "The run record",
                "type": "object",
                "required": list(ALWAYS),
                "properties": record,
                "if": {"required": ["sample"]},
                "else": {
                    "required": [name for name in RECORD if name not in (*ALWAYS, *OPTIONAL)],
                    "properties": {"inputs": {"required": ["before", "after"]}},
                },
            },
        },
    }


def _described(page: str, name: str) -> dict[str, str]:
    """Return the description of a name: the last cell of its row, without Markdown."""
    row = re.search(rf"^\| .*`{name}(?:\.\w+)?`.* \| (.+) \|$", page, re.M)
    text = re.sub(r";? see \[[^]]*\]\([^)]*\)", "", row[1]) if row else ""
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text).replace("`", "")
    return {"description": text} if text else {}


def _kind(name: str) -> dict[str, Any]:
    hint = get_type_hints(Change)[name]
    if hint == tuple[str, ...]:
        return {"type": "array", "items": {"type": "string"}, **LIMITS.get(name, {})}
    kinds = [TYPES[one] for one in get_args(hint) or (hint,)]
    return {"type": kinds[0] if len(kinds) == 1 else kinds, **LIMITS.get(name, {})}


def _record(name: str) -> dict[str, Any]:
    kind: dict[str, Any] = {"type": RECORD[name]}
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

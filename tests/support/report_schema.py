"""The JSON Schema of a report, as it is published."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

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

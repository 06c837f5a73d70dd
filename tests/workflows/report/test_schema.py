"""The published JSON Schema of a report is that of the code, and fits what runs write."""

from __future__ import annotations

import importlib
import json

import pytest
from archive_rows import change
from captioners import captioned
from jsonschema import Draft202012Validator
from report_checks import SCHEMA, faults, published
from scene_pairs import make_pair

from workflows.report.change import SCHEMA_VERSION, feature_of

FEATURE = feature_of(change(1))
OWN = published()["$defs"]["feature"]["properties"]["properties"]["properties"]


@pytest.fixture
def make_schema(repository, monkeypatch):
    monkeypatch.syspath_prepend(str(repository / "docs"))
    return importlib.import_module("make_schema")


def test_the_file_is_what_the_code_makes(make_schema):
    assert SCHEMA.read_text(encoding="utf-8") == make_schema.text(), "run python docs/make_schema.py"
    Draft202012Validator.check_schema(published())


def test_a_report_of_a_run_has_all_of_it_and_nothing_else(tmp_path):
    made = captioned(make_pair(tmp_path, [(40, 50, 30, 50, 240)]))
    written = json.loads(made.write(tmp_path / "r.geojson").read_text(encoding="utf-8"))
    assert written["features"] and faults(written) == []
    assert written["rscc"]["schema"] == SCHEMA_VERSION
    assert {*written["rscc"], "given", "remade", "sample"} == set(
        published()["$defs"]["record"]["properties"]
    )
    assert list(written["features"][0]["properties"]) == list(OWN)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("id", 0), ("id", 1.5), ("caption", None), ("caption", ["a"]), ("alternatives", [1]),
        ("alternatives", list("abcde")), ("score", 1.01), ("score", "0.5"), ("area_m2", -1),
        ("date_before", "last year"), ("count", 0), ("direction", "moved"), ("came", "building"),
        ("place", "above"), ("caption_confident", 1), ("review_status", "fine"), ("median_m2", False),
    ],
)  # fmt: skip
def test_what_no_report_has_does_not_fit(name, value):
    assert faults(FEATURE, "feature") == []
    properties = {**FEATURE["properties"], name: value}
    assert faults({**FEATURE, "properties": properties}, "feature") != []

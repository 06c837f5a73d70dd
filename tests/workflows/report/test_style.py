"""The QGIS styles: what every report needs is in them, and no text of a stranger becomes HTML."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from rscc.text.change_facts import DIRECTIONS, PLANTS
from rscc.text.object_classes import KINDS
from workflows import report
from workflows.report.change import PROPERTIES
from workflows.report.qgis import qgis_style


@pytest.fixture(scope="module")
def style():
    return ElementTree.fromstring(qgis_style())


PAGE = Path(report.__file__).parent / "page" / "files" / "page.css"


def test_every_direction_has_its_own_look_in_the_colour_of_the_page(style):
    assert set(style.get("styleCategories").split("|")) == {
        "Symbology", "Labeling", "Fields", "Forms", "MapTips", "Temporal"
    }  # fmt: skip
    categories = {one.get("value"): one.get("symbol") for one in style.iter("category")}
    assert set(categories) == {*DIRECTIONS, ""}
    symbols = {symbol.get("name"): symbol for symbol in style.iter("symbol")}
    colours = dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", PAGE.read_text(encoding="utf-8")))
    looks = set()
    for name, number in categories.items():
        first = symbols[number].find("layer/Option")
        values = {option.get("name"): option.get("value") for option in first}
        looks.add((values["color"], values.get("style", "solid")))
        if name:
            red, green, blue, _ = map(int, values["color"].split(","))
            assert f"#{red:02x}{green:02x}{blue:02x}" == colours[name]
    assert len(looks) == len(categories) == len(symbols)


def test_the_expressions_know_all_classes_and_only_fields_of_a_report(style):
    texts = [rule.get("fieldName") for rule in style.iter("text-style")]
    texts += [style.find("mapTip").text, style.find("renderer-v2").get("attr")]
    texts += [style.find("temporal").get("startExpression")]
    named = {name for text in texts for name in re.findall(r'"(\w+)"', text)}
    assert {"caption", "came", "gone", "direction", "count", "score", "date_before"} <= named
    assert named <= set(PROPERTIES)
    classes = {name for classes in KINDS.values() for name in classes} | set(PLANTS)
    assert set(re.findall(r"LIKE '%([^%]+)%'", texts[2])) == classes
    assert set(re.findall(r"'(\w+)'", texts[3])) == set(DIRECTIONS)

from __future__ import annotations

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from rscc.text.facts import DIRECTIONS, ChangeFacts
from rscc.text.object_classes import KINDS, OTHER_KIND
from workflows.report.change import PROPERTIES
from workflows.report.expressions import map_tip
from workflows.report.qgis import COLOURS, PATTERNS, pairs_style, qgis_style


@pytest.fixture(scope="module")
def style():
    return ElementTree.fromstring(qgis_style())


def test_every_kind_and_direction_has_a_look_of_its_own(style):
    assert style.tag == "qgis" and style.get("labelsEnabled") == "1"
    assert set(style.get("styleCategories").split("|")) == {"Symbology", "Labeling", "MapTips"}
    categories = {one.get("value"): one.get("symbol") for one in style.iter("category")}
    expected = {f"{kind} {direction}" for kind in (*KINDS, OTHER_KIND) for direction in DIRECTIONS}
    assert set(categories) == expected | {""}
    symbols = {symbol.get("name"): symbol for symbol in style.iter("symbol")}
    looks = set()
    for symbol in categories.values():
        options = {option.get("name"): option.get("value") for option in symbols[symbol].iter("Option")}
        looks.add((options["color"], options["style"]))
    assert len(looks) == len(categories) == len(symbols)
    assert set(COLOURS) == {*KINDS, OTHER_KIND} and set(PATTERNS) == set(DIRECTIONS)


def test_the_directions_are_those_of_the_facts():
    facts = [
        ChangeFacts(came={"building": 1.0}),
        ChangeFacts(gone={"road": 1.0}),
        ChangeFacts(came={"building": 1.0}, gone={"building": 1.0}),
    ]
    assert tuple(one.direction for one in facts) == DIRECTIONS


def test_both_ways_to_write_a_symbol_say_the_same(style):
    for layer in style.iter("layer"):
        options = {option.get("name"): option.get("value") for option in layer.find("Option")}
        props = {prop.get("k"): prop.get("v") for prop in layer.findall("prop")}
        assert options == props
        solid = options["style"] == "solid"
        assert (int(options["color"].split(",")[3]) < 255) == solid, "half transparent or hatched"


def test_labels_are_plain_text_and_one_for_each_change(style):
    near, far = style.iter("rule")
    assert near.get("scalemaxdenom") == far.get("scalemindenom")
    for rule in (near, far):
        text = rule.find("settings/text-style")
        assert (text.get("isExpression"), text.get("allowHtml")) == ("1", "0")
        assert text.find("text-buffer").get("bufferDraw") == "1"
        assert int(rule.find("settings/text-format").get("autoWrapLength")) > 0
        assert rule.find("settings/rendering").get("labelPerPart") == "0"
    assert '"caption"' in near.find("settings/text-style").get("fieldName")


def test_the_fields_of_the_expressions_are_those_of_a_report(style):
    texts = [rule.get("fieldName") for rule in style.iter("text-style")]
    texts += [style.find("mapTip").text, style.find("renderer-v2").get("attr")]
    named = {name for text in texts for name in re.findall(r'"(\w+)"', text)}
    assert {"caption", "came", "gone", "direction", "count", "score", "date_before"} <= named
    assert named <= set(PROPERTIES)


def test_the_map_tip_is_a_table_whose_values_are_all_escaped():
    tags = []

    class Tags(HTMLParser):
        def handle_starttag(self, tag, attrs):
            tags.append(tag)

    parts = map_tip().split("[% ")
    Tags().feed(parts[0] + "".join(part.partition(" %]")[2] for part in parts[1:]))
    assert set(tags) == {"div", "p", "b", "table", "tr", "td", "i"}
    assert len(parts) > 10
    chips = [part for part in parts[1:] if "to_base64(" in part]
    assert all("array('&amp;', '&lt;', '&gt;'" in part for part in parts[1:] if part not in chips)
    # What is read from the field is letters of base64 alone.
    start = r"coalesce\('<img src=\"data:image/jpeg;base64,' \|\| "
    pattern = start + r"to_base64\(attribute\('chip_\w+'\)\) \|\| '\"> ', ''\)"
    assert len(chips) == 2 and all(re.fullmatch(pattern, part.partition(" %]")[0]) for part in chips)


def test_pairs_are_shown_by_their_state():
    root = ElementTree.fromstring(pairs_style())
    assert root.find("renderer-v2").get("attr") == "state"
    assert {one.get("value") for one in root.iter("category")} == {"done", "failed", "pending"}

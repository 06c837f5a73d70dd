from __future__ import annotations

import itertools
from xml.etree import ElementTree

from workflows.report.qgis import CLASSES, qgis_style


def test_the_style_is_xml_with_classes_for_every_probability():
    root = ElementTree.fromstring(qgis_style())
    assert root.tag == "qgis" and root.get("labelsEnabled") == "1"
    ranges = [(float(r.get("lower")), float(r.get("upper"))) for r in root.iter("range")]
    assert ranges[0][0] == 0 and ranges[-1][1] == 1
    assert all(above[0] == below[1] for below, above in itertools.pairwise(ranges))
    names = {symbol.get("name") for symbol in root.iter("symbol")}
    assert names == {r.get("symbol") for r in root.iter("range")} == {str(i) for i in range(len(CLASSES))}


def test_both_ways_to_write_a_symbol_say_the_same():
    for layer in ElementTree.fromstring(qgis_style()).iter("layer"):
        options = {option.get("name"): option.get("value") for option in layer.find("Option")}
        props = {prop.get("k"): prop.get("v") for prop in layer.findall("prop")}
        assert options == props
        assert 0 < int(options["color"].split(",")[3]) < 255, "half transparent"


def test_labels_show_the_caption_as_plain_text():
    text = ElementTree.fromstring(qgis_style()).find(".//text-style")
    assert text.get("fieldName") == "caption"
    assert text.get("isExpression") == "0"
    assert text.get("allowHtml") == "0"
    assert text.find("text-buffer").get("bufferDraw") == "1"
    assert int(ElementTree.fromstring(qgis_style()).find(".//text-format").get("autoWrapLength")) > 0

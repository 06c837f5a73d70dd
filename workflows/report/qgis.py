"""The QGIS styles: changes by kind and direction, labelled by scale, with map tips; pairs by state.

Only constants enter the XML: QGIS reads captions from the fields of the layer, see
:mod:`workflows.report.expressions`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from rscc.text.facts import DIRECTIONS
from rscc.text.object_classes import KINDS, OTHER_KIND
from workflows.report.expressions import category, map_tip, sentence, summary

Colour = tuple[int, int, int]
# Colours (red, green, blue) that people with any kind of colour blindness tell apart.
COLOURS = dict(
    zip((*KINDS, OTHER_KIND), ((213, 94, 0), (0, 114, 178), (0, 158, 115), (204, 121, 167)), strict=True)
)
UNKNOWN_COLOUR = (240, 228, 66)
# What came is filled, what is gone is hatched, what made room for something is hatched both ways.
PATTERNS = dict(zip(DIRECTIONS, ("solid", "b_diagonal", "diagonal_x"), strict=True))
FILL_ALPHA = 100
# What became of a pair of an archive, and its colour.
STATES = (("done", (90, 140, 110)), ("failed", (200, 40, 40)), ("pending", (130, 130, 130)))
PAIR_FILL_ALPHA = 25
LABEL_WRAP = 28
# Scales, 1 to so many: sentences up to the first, numbers and kinds from there to the second.
SENTENCES, SUMMARIES = 12_000, 60_000

_TEXT = {
    "isExpression": "1",
    "fontSize": "9",
    "fontWeight": "63",
    "fontSizeUnit": "Point",
    "textColor": "0,0,0,255",
    "textOpacity": "1",
    "multilineHeight": "0.9",
    "allowHtml": "0",
}
_BUFFER = {
    "bufferDraw": "1",
    "bufferSize": "0.7",
    "bufferSizeUnits": "MM",
    "bufferColor": "255,255,255,255",
    "bufferOpacity": "0.85",
    "bufferJoinStyle": "128",
    "bufferNoFill": "1",
}
_WRAP = {
    "autoWrapLength": str(LABEL_WRAP),
    "useMaxLineLengthForAutoWrap": "1",
    "multilineAlign": "1",
    "wrapChar": "",
}
# Over the middle of the whole change, which QGIS would not find: it takes the largest outline.
_PLACEMENT = {
    "placement": "1",
    "quadOffset": "4",
    "geometryGenerator": "centroid($geometry)",
    "geometryGeneratorEnabled": "1",
    "geometryGeneratorType": "PointGeometry",
    "layerType": "PolygonGeometry",
    "priority": "5",
    "dist": "0",
}
# A change of many outlines has one label.
_RENDERING = {
    "drawLabels": "1",
    "obstacle": "1",
    "displayAll": "0",
    "labelPerPart": "0",
    "scaleVisibility": "0",
}


@cache
def qgis_style() -> str:
    """Return the text of a ``.qml`` for QGIS 3.22 and later; it fits every report."""
    root = Element("qgis", _style("Symbology|Labeling|MapTips"), labelsEnabled="1")
    root.extend(change_style())
    return document_text(root)


def change_style() -> list[Element]:
    """Return what a style of changes consists of, for a ``.qml`` or a layer of a project."""
    tip = Element("mapTip", enabled="1")
    tip.text = map_tip()
    return [_categories(), _labels(), tip]


def pairs_style() -> str:
    """Return the text of a ``.qml`` for the footprints of an archive's pairs, coloured by their state."""
    root = Element("qgis", _style("Symbology|Labeling"), labelsEnabled="0")
    root.append(_renderer("state", [(state, colour, PAIR_FILL_ALPHA, "solid") for state, colour in STATES]))
    return document_text(root)


def document_text(root: Element) -> str:
    """Return the text of a style or a project."""
    indent(root)
    heading = "<!DOCTYPE qgis PUBLIC 'http://mrcc.com/qgis.dtd' 'SYSTEM'>\n"
    return heading + tostring(root, encoding="unicode") + "\n"


def _style(categories: str) -> dict[str, str]:
    return {"version": "3.22.0", "styleCategories": categories}


def _categories() -> Element:
    """Return the renderer: a colour for each kind, a pattern for each direction, one for what has neither."""
    looks = [
        (f"{kind} {direction}", colour, FILL_ALPHA if pattern == "solid" else 255, pattern)
        for kind, colour in COLOURS.items()
        for direction, pattern in PATTERNS.items()
    ]
    return _renderer(category(), [*looks, ("", UNKNOWN_COLOUR, FILL_ALPHA, "solid")])


def _renderer(attribute: str, looks: Sequence[tuple[str, Colour, int, str]]) -> Element:
    """Return a renderer with a symbol for each value of an attribute: its colour, alpha and pattern."""
    renderer = Element("renderer-v2", type="categorizedSymbol", attr=attribute)
    categories, symbols = SubElement(renderer, "categories"), SubElement(renderer, "symbols")
    for index, (value, colour, alpha, pattern) in enumerate(looks):
        label = value or "changed, not stated how"
        SubElement(categories, "category", value=value, symbol=str(index), label=label, render="true")
        symbols.append(_symbol(str(index), colour, alpha, pattern))
    return renderer


def _labels() -> Element:
    labeling = Element("labeling", type="rule-based")
    rules = SubElement(labeling, "rules", key="labels")
    for name, expression, near, far in (
        ("sentences", sentence(), 1, SENTENCES),
        ("numbers and kinds", summary(), SENTENCES, SUMMARIES),
    ):
        scales = {"scalemindenom": str(near), "scalemaxdenom": str(far)}
        rule = SubElement(rules, "rule", scales, key=name, description=name)
        settings = SubElement(rule, "settings", calloutType="simple")
        text = SubElement(settings, "text-style", _TEXT, fieldName=expression)
        SubElement(text, "text-buffer", _BUFFER)
        SubElement(settings, "text-format", _WRAP)
        SubElement(settings, "placement", _PLACEMENT)
        SubElement(settings, "rendering", _RENDERING)
    return labeling


def _symbol(name: str, colour: Colour, alpha: int, pattern: str) -> Element:
    symbol = Element("symbol", type="fill", name=name, alpha="1", clip_to_extent="1", force_rhr="0")
    layer = SubElement(symbol, "layer", {"class": "SimpleFill", "enabled": "1", "locked": "0", "pass": "0"})
    options = {
        "color": ",".join(map(str, (*colour, alpha))),
        "style": pattern,
        "outline_color": ",".join(map(str, (*(value * 2 // 3 for value in colour), 255))),
        "outline_style": "solid",
        "outline_width": "0.5",
        "outline_width_unit": "MM",
        "joinstyle": "miter",
    }
    # Older versions of QGIS read <prop>, newer ones read <Option>.
    mapping = SubElement(layer, "Option", type="Map")
    for key, value in options.items():
        SubElement(mapping, "Option", type="QString", name=key, value=value)
        SubElement(layer, "prop", k=key, v=value)
    return symbol

"""The QGIS styles: half transparent polygons by change probability, labelled with captions; pairs by state.

Only constants enter the XML; captions are read by QGIS from the layer's field ``caption`` and drawn
as plain text.
"""

from __future__ import annotations

from xml.etree.ElementTree import Element, SubElement, indent, tostring

# Upper bounds of the classes of probability and their colours (red, green, blue), from pale to strong.
CLASSES = ((0.6, (253, 219, 109)), (0.8, (245, 134, 52)), (1.0, (200, 30, 90)))
FILL_ALPHA = 120
# What became of a pair of an archive, and its colour.
STATES = (("done", (90, 140, 110)), ("failed", (200, 40, 40)), ("pending", (130, 130, 130)))
PAIR_FILL_ALPHA = 25
LABEL_WRAP = 28

_TEXT = {
    "fieldName": "caption",
    "isExpression": "0",
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
# Over the centroid of the polygon, which need not be large enough for the label.
_PLACEMENT = {
    "placement": "1",
    "centroidInside": "1",
    "centroidWhole": "1",
    "fitInPolygonOnly": "0",
    "priority": "5",
    "dist": "0",
}


def qgis_style() -> str:
    """Return the text of a ``.qml`` for QGIS 3.22 and later; it fits every report."""
    root = Element("qgis", version="3.22.0", styleCategories="Symbology|Labeling", labelsEnabled="1")
    renderer = SubElement(root, "renderer-v2", type="graduatedSymbol", attr="change_probability")
    renderer.set("graduatedMethod", "GraduatedColor")
    ranges, symbols = SubElement(renderer, "ranges"), SubElement(renderer, "symbols")
    low = 0.0
    for index, (high, colour) in enumerate(CLASSES):
        SubElement(
            ranges,
            "range",
            lower=str(low),
            upper=str(high),
            symbol=str(index),
            label=f"change probability {low:.1f} to {high:.1f}",
            render="true",
        )
        symbols.append(_symbol(str(index), colour))
        low = high
    settings = SubElement(SubElement(root, "labeling", type="simple"), "settings", calloutType="simple")
    SubElement(SubElement(settings, "text-style", _TEXT), "text-buffer", _BUFFER)
    SubElement(settings, "text-format", _WRAP)
    SubElement(settings, "placement", _PLACEMENT)
    SubElement(settings, "rendering", drawLabels="1", obstacle="1", displayAll="0", scaleVisibility="0")
    return _text(root)


def pairs_style() -> str:
    """Return the text of a ``.qml`` for the footprints of an archive's pairs, coloured by their state."""
    root = Element("qgis", version="3.22.0", styleCategories="Symbology|Labeling", labelsEnabled="0")
    renderer = SubElement(root, "renderer-v2", type="categorizedSymbol", attr="state")
    categories, symbols = SubElement(renderer, "categories"), SubElement(renderer, "symbols")
    for index, (state, colour) in enumerate(STATES):
        SubElement(categories, "category", value=state, symbol=str(index), label=state, render="true")
        symbols.append(_symbol(str(index), colour, PAIR_FILL_ALPHA))
    return _text(root)


def _symbol(name: str, colour: tuple[int, int, int], alpha: int = FILL_ALPHA) -> Element:
    symbol = Element("symbol", type="fill", name=name, alpha="1", clip_to_extent="1", force_rhr="0")
    layer = SubElement(symbol, "layer", {"class": "SimpleFill", "enabled": "1", "locked": "0", "pass": "0"})
    options = {
        "color": ",".join(map(str, (*colour, alpha))),
        "style": "solid",
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


def _text(root: Element) -> str:
    indent(root)
    heading = "<!DOCTYPE qgis PUBLIC 'http://mrcc.com/qgis.dtd' 'SYSTEM'>\n"
    return heading + tostring(root, encoding="unicode") + "\n"

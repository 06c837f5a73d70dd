"""A QGIS project as a file: rasters, changes on top in their style, a bookmark for each of the largest."""

from __future__ import annotations

import io
import math
import os
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, SubElement

import pyproj

from tiling import transformer
from workflows.report.change import Change
from workflows.report.geojson import CRS, bbox_of, parts_of
from workflows.report.qgis import change_style, document_text

SUFFIXES = (".qgz", ".qgs")
# QGIS shows them in one list.
MOST_BOOKMARKS = 500
_NAME = 80
# Parts of the width that are shown beside all changes, and beside one.
_MARGIN, _CLOSE = 0.1, 0.5
_VERSION = "3.22.0-rscc"
_COLOURS = ("red", "green", "blue")
_VECTOR = {"type": "vector", "geometry": "Polygon", "labelsEnabled": "1"}
_Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class RasterLayer:
    """A scene as a layer of a project.

    Attributes:
        name: as it is listed.
        source: what GDAL opens.
        local: whether that is a file, which is named from the project's folder.
        crs: its reference system, as text.
        bands: those shown as red, green and blue, from 1; None leaves it to QGIS, as for a palette.
        limits: for each of them the values shown as black and white; None shows 8 bit as they are.
    """

    name: str
    source: str
    local: bool
    crs: str
    bands: tuple[int, int, int] | None
    limits: Sequence[tuple[float, float]] | None = None


def project_content(
    target: Path,
    changes: Sequence[Change],
    report: Path,
    rasters: Sequence[RasterLayer],
    crs: str,
    view: _Box,
) -> bytes:
    """Return the bytes of a project that is to lie at ``target``; the same project has the same bytes.

    Args:
        changes: those of the report.
        report: its file.
        rasters: the scenes, the uppermost first.
        crs: reference system of the map, which is that of a report in a GeoPackage.
        view: west, south, east, north in ``crs`` of what is shown where nothing changed.
    """
    root = Element("qgis", projectname="", version=_VERSION)
    SubElement(root, "title")
    _add_crs(SubElement(root, "projectCrs"), crs)
    tree = SubElement(root, "layer-tree-group")
    layers = Element("projectlayers")
    source = _name_from(target, report)
    if report.suffix.lower() == ".gpkg":
        vector = _layer("changes", f"{source}|layername=changes", "ogr", crs, _VECTOR)
    else:
        vector = _layer("changes", source, "ogr", CRS, _VECTOR)
    vector.extend(change_style())
    for layer in (vector, *(_raster(each, target) for each in rasters)):
        # The same in both places; QGIS takes none of ten letters or fewer.
        number = f"rscc_layer_{len(layers)}"
        SubElement(layer, "id").text = number
        name, provider = (str(layer.findtext(one)) for one in ("layername", "provider"))
        known = {"id": number, "name": name, "providerKey": provider}
        SubElement(tree, "layer-tree-layer", known, checked="Qt::Checked", expanded="1")
        layers.append(layer)
    boxes = [change_box(change) for change in changes]
    view = _around(_on_map(boxes, crs) if boxes else view, _MARGIN)
    shown = dict(zip(("xmin", "ymin", "xmax", "ymax"), map(repr, view), strict=True))
    canvas = SubElement(root, "mapcanvas", name="theMapCanvas", annotationsVisible="1")
    extent = SubElement(canvas, "extent")
    for name, value in shown.items():
        SubElement(extent, name).text = value
    _add_crs(SubElement(canvas, "destinationsrs"), crs)
    root.append(layers)
    properties = SubElement(root, "properties")
    SubElement(SubElement(properties, "Paths"), "Absolute", type="bool").text = "false"
    SubElement(SubElement(properties, "SpatialRefSys"), "ProjectionsEnabled", type="int").text = "1"
    SubElement(root, "Bookmarks").extend(_bookmarks(changes))
    _add_crs(SubElement(SubElement(root, "ProjectViewSettings"), "DefaultViewExtent", shown), crs)
    text = document_text(root)
    return _zipped(text) if target.suffix.lower() == ".qgz" else text.encode()


def change_box(change: Change) -> _Box:
    """Return west, south, east, north of a change in degrees; of the largest part where it crosses 180."""
    largest = max(parts_of(change.geometry), key=lambda part: part.area)
    west, south, east, north = bbox_of(change.geometry)
    return (west, south, east, north) if west <= east else largest.bounds


def limits_of(stretch: Any, role: str) -> list[tuple[float, float]] | None:
    """Return the values shown as black and white by the run record; None where it has none that serve."""
    table: Any = stretch.get(role) if isinstance(stretch, Mapping) else None
    try:
        pairs = [(float(low), float(high)) for low, high in zip(table["low"], table["high"], strict=True)]
    # A record may come from anybody.
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    whole = len(pairs) == 3 and all(math.isfinite(low) and low < high < math.inf for low, high in pairs)
    return pairs if whole else None


def _layer(name: str, source: str, provider: str, crs: str, kind: dict[str, str]) -> Element:
    layer = Element("maplayer", kind)
    SubElement(layer, "layername").text = name
    SubElement(layer, "datasource").text = source
    SubElement(layer, "provider", {"encoding": "UTF-8"} if kind == _VECTOR else {}).text = provider
    _add_crs(SubElement(layer, "srs"), crs)
    return layer


def _raster(raster: RasterLayer, target: Path) -> Element:
    source = _name_from(target, Path(raster.source)) if raster.local else raster.source
    layer = _layer(raster.name, source, "gdal", raster.crs, {"type": "raster"})
    if raster.bands is None:
        return layer
    bands = {f"{name}Band": str(band) for name, band in zip(_COLOURS, raster.bands, strict=True)}
    looks = {"type": "multibandcolor", "opacity": "1", "alphaBand": "-1", **bands}
    renderer = SubElement(SubElement(layer, "pipe"), "rasterrenderer", looks)
    for name, (low, high) in zip(_COLOURS, raster.limits or (), strict=False):
        contrast = SubElement(renderer, f"{name}ContrastEnhancement")
        SubElement(contrast, "minValue").text = repr(low)
        SubElement(contrast, "maxValue").text = repr(high)
        SubElement(contrast, "algorithm").text = "StretchToMinimumMaximum"
    return layer


def _bookmarks(changes: Sequence[Change]) -> Iterator[Element]:
    """Yield a bookmark for each of the largest changes, in the order of the report."""
    largest = sorted(changes, key=lambda change: -change.area_m2)[:MOST_BOOKMARKS]
    for change in sorted(largest, key=lambda change: change.id):
        west, south, east, north = _around(change_box(change), _CLOSE)
        corners = ((west, south), (east, south), (east, north), (west, north), (west, south))
        ring = ", ".join(f"{x:.7f} {y:.7f}" for x, y in corners)
        name = f"{change.id}: {_plain(change.caption)}"
        bookmark = Element("Bookmark", id=f"rscc-{change.id}", name=name, group="changes")
        bookmark.set("extent", f"POLYGON(({ring}))")
        _add_crs(bookmark, CRS)
        yield bookmark


def _add_crs(parent: Element, crs: str) -> None:
    known = pyproj.CRS.from_user_input(crs)
    node = SubElement(parent, "spatialrefsys")
    # Both: QGIS 3.22 leaves a project without one that has a name alone.
    SubElement(node, "wkt").text = known.to_wkt("WKT2_2019")
    if (authority := known.to_authority()) is not None:
        SubElement(node, "authid").text = ":".join(authority)


def _on_map(boxes: Sequence[_Box], crs: str) -> _Box:
    """Return the box around boxes in degrees, on the map."""
    corners = [(x, y) for west, south, east, north in boxes for x in (west, east) for y in (south, north)]
    xs, ys = transformer(CRS, crs).transform([x for x, _ in corners], [y for _, y in corners])
    return min(xs), min(ys), max(xs), max(ys)


def _around(box: _Box, part: float) -> _Box:
    west, south, east, north = box
    wide, high = (east - west) * part, (north - south) * part
    return west - wide, south - high, east + wide, north + high


def _name_from(target: Path, path: Path) -> str:
    """Return the name of a file as seen from the project; the whole name where no way leads there."""
    try:
        relative = Path(os.path.relpath(path, target.parent)).as_posix()
    except ValueError:  # another drive
        return Path(os.path.abspath(path)).as_posix()
    return relative if relative.startswith("../") else f"./{relative}"


def _plain(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text[:_NAME])


def _zipped(text: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        entry = zipfile.ZipInfo("project.qgs")  # of 1980, so that the bytes depend on the content alone
        entry.compress_type = zipfile.ZIP_DEFLATED
        archive.writestr(entry, text)
    return buffer.getvalue()

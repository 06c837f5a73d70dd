"""Write a QGIS project of a report: both scenes, the changes on top in their style, bookmarks."""

import io
import math
import os
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template
from xml.sax.saxutils import escape

import numpy as np
import pyproj

from rscc.text.change_facts import DIRECTIONS
from tiling import SceneInfo, describe, is_address, locate, transformer
from workflows.errors import FormatUnsupported, OptionInvalid
from workflows.files import check_free, write_together
from workflows.options import ServerOptions
from workflows.printable import printable
from workflows.report.change import Change
from workflows.report.geojson import CRS, bbox_of, geometry_member, json_text, parts_of
from workflows.report.looked_at import not_judged_outline
from workflows.report.qgis import file_text, qgis_style
from workflows.report.reading import open_report
from workflows.report.record import Run, grid_crs, text_in, value_in
from workflows.report.report import Report
from workflows.report.scenes import check_order, find_scenes

SUFFIXES = (".qgz", ".qgs")
MOST_BOOKMARKS = 500
"""QGIS shows bookmarks in one list; the largest changes have one."""
_NAME_LENGTH = 80
# Share of the width that is shown around all changes, and around the one of a bookmark.
_MARGIN, _MARGIN_OF_ONE = 0.1, 0.5
_COLOURS = ("red", "green", "blue")
Box = tuple[float, float, float, float]
"""West, south, east and north."""


def write_project(
    report: Path,
    target: Path | None = None,
    scenes: tuple[str, str] | None = None,
    *,
    servers: ServerOptions,
    overwrite: bool = False,
) -> tuple[Path, int]:
    """Write a QGIS project of a report; return its path, and its number of changes.

    Args:
        target: ``.qgz`` or ``.qgs``; None: the name of the report with ``.qgz``.
        scenes: before and after; None: where the report says, or beside it.
        servers: which may be asked for the scenes.

    Raises:
        OptionInvalid: the report or a scene has a name that a project cannot hold.
    """
    target = report.with_suffix(SUFFIXES[0]) if target is None else target
    if target.suffix.lower() not in SUFFIXES:
        raise FormatUnsupported(f"{target}: projects are written as {' or '.join(SUFFIXES)}")
    check_free((target,), overwrite, (report, *(scenes or ())))
    if not os.path.abspath(report).isprintable():
        raise OptionInvalid(f"{printable(report)}: no project can hold such a name; rename it")
    read = open_report(report)
    names = scenes or find_scenes(read)
    check_order(read, names)
    if scenes is None:
        for name in filter(is_address, names):
            raise OptionInvalid(
                f"{printable(report)}: it names a scene on a server, {printable(name)}, which QGIS would ask "
                "whenever it opens the project; if you want that, give BEFORE and AFTER"
            )
    before, after = (describe(name, servers.access) for name in names)
    for info in (before, after):
        _check_source(info)
    text = _project_text(target, read, before, after)
    write_together({target: [zipped(text) if target.suffix.lower() == ".qgz" else text]})
    return target, len(read.changes)


def _check_source(info: SceneInfo) -> None:
    # A signature or password would lie in the project for everybody who gets it.
    if locate(info.path).source != info.source and locate(info.source).local is None:
        raise OptionInvalid(
            f"{info.path}: its address holds a secret that the project would tell; download it"
        )
    if not info.source.isprintable():
        raise OptionInvalid(f"{printable(info.path)}: no project can hold such a name; rename it")


def _project_text(target: Path, report: Report, before: SceneInfo, after: SceneInfo) -> str:
    """Return a project that is to lie at ``target``; the same content makes the same text."""
    changes, record = report.changes, report.run
    crs = grid_crs(changes, record)
    view = transformer(str(after.crs.to_wkt()), crs).transform_bounds(*after.bounds)
    if changes:
        boxes = np.array([_change_box(change) for change in changes])  # (n, 4)
        xs, ys = transformer(CRS, crs).transform(boxes[:, [0, 0, 2, 2]], boxes[:, [1, 3, 1, 3]])
        view = float(xs.min()), float(ys.min()), float(xs.max()), float(ys.max())
    in_geopackage = report.source.suffix.lower() == ".gpkg"
    directions = {change.direction for change in changes} & set(DIRECTIONS)
    style = "\n".join(qgis_style(directions).splitlines()[2:-1])
    # The category of all others is the last one; outlines that are drawn later need it.
    shown = len(directions) if all(change.direction in directions for change in changes) else None
    source = relative_name(target, report.source) + ("|layername=changes" if in_geopackage else "")
    layers = [
        Layer("changes", source, crs if in_geopackage else CRS, style, labels=True, shown=shown or None)
    ]
    hidden = not_judged_outline(record)
    if hidden is not None:
        feature = {"type": "Feature", "properties": {}, "geometry": geometry_member(hidden)}
        # Not a file of its own: OGR reads GeoJSON from the name of a source as well.
        layers.append(Layer("not judged", json_text(feature), CRS, filled("not_judged.xml")))
    layers += [_raster(after, "after", record, target), _raster(before, "before", record, target)]
    marks = "\n".join(("  <Bookmarks>", *_bookmarks(changes), "  </Bookmarks>"))
    return project_text(crs, expanded(view, _MARGIN), layers, marks)


@dataclass(frozen=True)
class Layer:
    """A layer of a project.

    Attributes:
        style: XML of its style, of a raster also of its time.
        is_open: whether its legend is unfolded.
        shown: how many categories its legend shows, the first ones; None: all.
    """

    name: str
    source: str
    crs: str
    style: str
    template: str = "vector.xml"
    labels: bool = False
    is_open: bool = True
    shown: int | None = None


def project_text(crs: str, view: Box, layers: Sequence[Layer], more: str) -> str:
    """Return a project.

    Args:
        view: west, south, east and north of the map, in ``crs``.
        layers: the first is the uppermost.
    """
    tree, texts = [], []
    for number, one in enumerate(layers):
        provider = "ogr" if one.template == "vector.xml" else "gdal"
        tree.append(
            f'    <layer-tree-layer id="rscc_layer_{number}" name="{xml_text(one.name)}" '
            f'providerKey="{provider}" checked="Qt::Checked" expanded="{one.is_open:d}">'
            f"{'' if one.shown is None else _legend_of(one.shown)}</layer-tree-layer>"
        )
        texts.append(
            filled(
                one.template,
                id=f"rscc_layer_{number}",
                name=xml_text(one.name),
                source=xml_text(one.source),
                crs=crs_element(one.crs),
                style=one.style,
                labels=f"{one.labels:d}",
            )
        )
    edges = dict(zip(("west", "south", "east", "north"), map(repr, view), strict=True))
    tree_text, layer_text = "\n".join(tree), "\n".join(texts)
    return filled("project.qgs", crs=crs_element(crs), tree=tree_text, layers=layer_text, more=more, **edges)


def _legend_of(shown: int) -> str:
    order = ",".join(map(str, range(shown)))
    return (
        '<customproperties><Option type="Map"><Option type="QString" name="legend/node-order" '
        f'value="{order}" /></Option></customproperties>'
    )


def filled(template: str, /, **values: object) -> str:
    """Return a template with its placeholders replaced; values of strangers are escaped before."""
    return Template(file_text(template).removesuffix("\n")).substitute(values)


def xml_text(text: str) -> str:
    """Return a text escaped for an element or an attribute."""
    return escape(text, {'"': "&quot;"})


def _raster(info: SceneInfo, role: str, record: Run, target: Path) -> Layer:
    place = locate(info.source)
    is_file = place.local is not None and place.member is None
    date = text_in(record, "inputs", role, "date")
    name = role if date is None else f"{role} {''.join(filter(str.isprintable, date))[:10]}"
    source = relative_name(target, Path(info.source)) if is_file else info.source
    style = "" if info.palette else _renderer(info, role, record)
    return Layer(name, source, str(info.crs.to_wkt()), style, "raster.xml")


def _renderer(info: SceneInfo, role: str, record: Run) -> str:
    """Return how a scene is drawn: the bands and the stretch that the model was shown.

    These are the first bands, and no stretch, where the record, which may come from anybody, has no others.
    """
    bands, limits = (value_in(record, name, role) for name in ("bands", "stretch"))
    if not isinstance(bands, list) or [type(band) for band in bands] != [int] * 3:
        bands = [1, 2, 3]
    if not all(1 <= band <= info.count for band in bands):
        bands = [1, 1, 1]
    try:
        pairs = [(float(low), float(high)) for low, high in zip(limits["low"], limits["high"], strict=True)]
    except (KeyError, TypeError, ValueError, OverflowError):
        pairs = []
    is_valid = len(pairs) == 3 and all(math.isfinite(low) and low < high < math.inf for low, high in pairs)
    contrasts = [
        filled("contrast.xml", colour=colour, low=low, high=high)
        for colour, (low, high) in zip(_COLOURS, pairs if is_valid else (), strict=False)
    ]
    return filled("renderer.xml", contrasts="\n".join(contrasts), **dict(zip(_COLOURS, bands, strict=True)))


def _bookmarks(changes: Sequence[Change]) -> Iterator[str]:
    """Yield a bookmark for each of the largest changes, in the order of the report."""
    largest = sorted(changes, key=lambda change: -change.area_m2)[:MOST_BOOKMARKS]
    crs = crs_element(CRS)
    for change in sorted(largest, key=lambda change: change.id):
        west, south, east, north = expanded(_change_box(change), _MARGIN_OF_ONE)
        corners = ((west, south), (east, south), (east, north), (west, north), (west, south))
        ring = ", ".join(f"{x:.7f} {y:.7f}" for x, y in corners)
        text = change.caption[:_NAME_LENGTH]
        name = xml_text("".join(letter if letter.isprintable() else " " for letter in text))
        yield (
            f'    <Bookmark id="rscc-{change.id}" name="{change.id}: {name}" group="changes" '
            f'extent="POLYGON(({ring}))">{crs}</Bookmark>'
        )


def crs_element(crs: str) -> str:
    """Return a reference system as text and by its code: QGIS 3.22 needs both."""
    known = pyproj.CRS.from_user_input(crs)
    authority = known.to_authority(min_confidence=100)
    code = "" if authority is None else f"<authid>{':'.join(authority)}</authid>"
    return f"<spatialrefsys><wkt>{xml_text(known.to_wkt('WKT2_2019'))}</wkt>{code}</spatialrefsys>"


def _change_box(change: Change) -> Box:
    """Return west, south, east, north of a change in degrees; of the largest part where it crosses 180."""
    west, south, east, north = bbox_of(change.geometry)
    if west <= east:
        return west, south, east, north
    west, south, east, north = max(parts_of(change.geometry), key=lambda part: part.area).bounds
    return west, south, east, north


def expanded(box: Box, share: float) -> Box:
    """Return a box with a margin on each side, as a share of its width and height."""
    west, south, east, north = box
    width, height = (east - west) * share, (north - south) * share
    return west - width, south - height, east + width, north + height


def relative_name(target: Path, path: Path) -> str:
    """Return the name of a file relative to the project; absolute where it lies on another drive."""
    try:
        relative = Path(os.path.relpath(path, target.parent)).as_posix()
    except ValueError:
        return Path(os.path.abspath(path)).as_posix()
    return relative if relative.startswith("../") else f"./{relative}"


def zipped(text: str) -> bytes:
    """Return a ``.qgz`` with this project; the same project has the same bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        entry = zipfile.ZipInfo("project.qgs")  # dated 1980: the same project has the same bytes
        entry.compress_type = zipfile.ZIP_DEFLATED
        archive.writestr(entry, text)
    return buffer.getvalue()

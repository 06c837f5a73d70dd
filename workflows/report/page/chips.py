"""Small pictures of changes on both dates, for the map tips of a GeoPackage in QGIS."""

import io
import math
from collections.abc import Collection

from PIL import Image, ImageDraw
from shapely.geometry import MultiPolygon

from tiling import ScenePair, Window
from workflows.report.change import Change, Chips
from workflows.report.page.imagery import QUALITY, read_reduced
from workflows.report.scenes import Pictured, largest_part, open_scenes, outlines_on
from workflows.scenes import expanded

SIDE = 128
"""Largest side of a chip in pixels."""
MOST = 1_000
"""Changes that have chips, the largest: with some kB each, they add a few MB to a report."""
# Sides of the ground shown in working pixels, at least and at most, and the largest share of it for a change.
LEAST, LARGEST, SHARE = 32, 2 * SIDE, 0.75
_LINE = (255, 210, 63)


def chips_of(report: Pictured, changes: Collection[Change] | None = None) -> Chips:
    """Return JPEGs of both dates of the largest changes, by their ids; at full detail with the outline.

    Raises:
        TilingError: a scene cannot be read, or a change does not lie on the ground that both show.
    """
    with open_scenes(report) as pair:
        outlined = list(zip(report.changes, outlines_on(pair, report), strict=True))
        if changes is not None:
            outlined = [one for one in outlined if one[0] in changes]
        largest = sorted(outlined, key=lambda one: -one[0].area_m2)[:MOST]
        # From top to bottom, as blocks lie in a file: each is decoded once.
        downwards = sorted(largest, key=lambda one: one[1].bounds[1])
        return {change.id: _chips(pair, outline) for change, outline in downwards}


def _chips(pair: ScenePair, outline: MultiPolygon) -> tuple[bytes, bytes]:
    west, north, east, south = outline.bounds
    side = math.ceil(max(east - west, south - north, LEAST * SHARE) / SHARE)
    x, y = (west + east) / 2, (north + south) / 2
    if side > LARGEST:
        # Of a large change the middle of its largest part: all of it would be too small to see.
        side, (x, y) = LARGEST, largest_part(outline).representative_point().coords[0]
    centred = Window(round(x - side / 2), round(y - side / 2), side, side)
    window = expanded(pair, centred, 0)
    before, after = (
        _chip(date, outline, window) for date in read_reduced(pair, window, math.ceil(side / SIDE))
    )
    return before, after


def _chip(date: Image.Image, outline: MultiPolygon, window: Window) -> bytes:
    """Return one date of a window as JPEG, white where it has no data."""
    scale = SIDE / max(window.width, window.height)
    size = (max(1, round(window.width * scale)), max(1, round(window.height * scale)))
    shown = date.resize(size, Image.Resampling.BICUBIC)
    chip = Image.new("RGB", size, "white")
    chip.paste(shown, mask=shown.getchannel("A"))
    pen = ImageDraw.Draw(chip)
    # In a reduced picture lines would hide what they go around.
    for polygon in outline.geoms if scale >= 1 else ():
        for ring in (polygon.exterior, *polygon.interiors):
            corners = [((x - window.col_off) * scale, (y - window.row_off) * scale) for x, y in ring.coords]
            pen.line(corners, fill=_LINE, width=1)
    content = io.BytesIO()
    chip.save(content, "JPEG", quality=QUALITY)
    return content.getvalue()

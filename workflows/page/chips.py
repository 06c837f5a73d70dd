"""Small pictures of changes on both dates, for the map tips of a GeoPackage in QGIS."""

from __future__ import annotations

import io
import math
from pathlib import Path

from PIL import Image, ImageDraw
from shapely.geometry import MultiPolygon

from tiling import ScenePair, Window
from workflows.inspection.event import outlines_on
from workflows.options import ServerOptions
from workflows.page.imagery import QUALITY, read_reduced
from workflows.page.page import opened_scenes
from workflows.report.change import Chips
from workflows.report.report import ChangeReport
from workflows.scene.opening import Scene, grown

SIDE = 128
"""Most pixels of a chip, a side."""
MOST = 1_000
"""Changes that have chips, the largest: at some kB each, they are a few MB of a report."""
# Of the working grid: the least that is shown, a side, and how much of it the change takes at most.
LEAST, SHARE = 32, 0.75
_LINE = (255, 210, 63)


def chips_of(
    report: ChangeReport,
    source: Path,
    scenes: tuple[Scene, Scene],
    servers: ServerOptions | None = None,
) -> Chips:
    """Return JPEGs of both dates of the largest changes, by their ids; at full detail with the outline.

    Args:
        report: the changes and the run record.
        source: the file of the report, for what errors say.
        scenes: before and after, the same that were searched.
        servers: which may be asked; None: any.

    Raises:
        TilingError: a scene cannot be read, or a change does not lie on the ground that both show.
        ReportInvalid: the report is damaged where it says how the scenes were read.
    """
    with opened_scenes(report, source, scenes, servers) as pair:
        outlined = zip(report.changes, outlines_on(pair, report, source), strict=True)
        largest = sorted(outlined, key=lambda one: -one[0].area_m2)[:MOST]
        # From top to bottom, as blocks lie in a file: each is decoded once.
        downwards = sorted(largest, key=lambda one: one[1].bounds[1])
        return {change.id: _chips(pair, outline) for change, outline in downwards}


def _chips(pair: ScenePair, outline: MultiPolygon) -> tuple[bytes, bytes]:
    west, north, east, south = outline.bounds
    side = math.ceil(max(east - west, south - north, LEAST * SHARE) / SHARE)
    centred = Window(round((west + east - side) / 2), round((north + south - side) / 2), side, side)
    window = grown(pair, centred, 0)
    before, after = (
        _chip(date, outline, window) for date in read_reduced(pair, window, math.ceil(side / SIDE))
    )
    return before, after


def _chip(date: Image.Image, outline: MultiPolygon, window: Window) -> bytes:
    """Return a date of a window as JPEG, white where it has no data."""
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

"""A report in a notebook: as HTML with thumbnails, as a matplotlib plot, and as a map with both dates."""

from __future__ import annotations

import textwrap
from base64 import b64encode
from contextlib import suppress
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from rscc.errors import ExtraNotInstalled
from tiling import ScenePair, TilingError, Window
from workflows.errors import WorkflowError
from workflows.report.change import Change, Chips
from workflows.report.geojson import CRS
from workflows.report.looked_at import area_in_words
from workflows.report.page.chips import chips_of
from workflows.report.page.imagery import read_reduced
from workflows.report.page.page import shown_report
from workflows.report.scenes import Pictured, open_scenes, window_ground

if TYPE_CHECKING:
    from folium import Map
    from matplotlib.axes import Axes


OUTLINE = "#d1495b"
"""Colour of the outlines."""
_MOST_ROWS, _TITLE_WIDTH = 20, 72
# Longer side of the imagery below a plot or a map, in pixels.
_SIDE = 1200


def report_html(report: Pictured) -> str:
    """Return the summary and the largest changes as a table, with both dates where the scenes can be read."""
    largest = sorted(report.changes, key=lambda change: -change.area_m2)[:_MOST_ROWS]
    chips: Chips = {}
    if report.scenes is not None and largest:
        with suppress(TilingError, WorkflowError):  # scenes that cannot be read
            chips = chips_of(report, largest)
    head = ("id", *(("before", "after") if chips else ()), "caption", "count", "area")
    rows = "".join(_row(change, chips) for change in largest)
    more = len(report.changes) - len(largest)
    return (
        f"<p>{escape(report.summary.text)}</p>"
        f"<table><tr>{''.join(f'<th>{name}</th>' for name in head)}</tr>{rows}</table>"
        + (f"<p>and {more:,} smaller</p>" if more else "")
    )


def _row(change: Change, chips: Chips) -> str:
    pictures = [
        f'<img alt="{role}" src="data:image/jpeg;base64,{b64encode(picture).decode()}">'
        for role, picture in zip(("before", "after"), chips.get(change.id, ()), strict=False)
    ]
    cells = [escape(text) for text in (change.caption, str(change.count), area_in_words(change.area_m2))]
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in (change.id, *pictures, *cells)) + "</tr>"


def plot_report(report: Pictured, axes: Axes | None = None) -> Axes:
    """Draw the outlines of the changes with their ids over the scene after; return the axes.

    The axes are those of the working grid; without imagery they are degrees.
    """
    try:
        from matplotlib import pyplot
    except ModuleNotFoundError as error:
        raise ExtraNotInstalled("plot() draws with matplotlib; install rscc[notebook]") from error
    axes = axes or pyplot.subplots()[1]
    crs = CRS
    if report.scenes is not None:
        with suppress(TilingError, WorkflowError), open_scenes(report) as pair:
            window, (_, after) = _pictures(report, pair)
            transform, own = pair.grid.transform, str(pair.grid.crs)
            west, north = transform * (window.col_off, window.row_off)
            east, south = transform * (window.col_end, window.row_end)
            if own.startswith("EPSG:"):
                axes.imshow(np.asarray(after), extent=(west, east, south, north))
                crs = own
    if report.changes:
        frame = report.to_geodataframe().to_crs(crs)
        frame.boundary.plot(ax=axes, color=OUTLINE, linewidth=1)
        for number, point in zip(frame["id"], frame.representative_point(), strict=True):
            axes.annotate(
                str(number), (point.x, point.y), ha="center", va="center", fontsize=8, color=OUTLINE
            )
    names = ("longitude", "latitude") if crs == CRS else ("easting (m)", "northing (m)")
    axes.set(title=textwrap.fill(report.summary.text, _TITLE_WIDTH), xlabel=names[0], ylabel=names[1])
    axes.ticklabel_format(useOffset=False, style="plain")
    axes.tick_params(axis="x", rotation=30)
    return axes


def _pictures(report: Pictured, pair: ScenePair) -> tuple[Window, tuple[Image.Image, Image.Image]]:
    window = shown_report(report, pair)[0]
    by = -(-max(window.width, window.height) // _SIDE)
    return window, read_reduced(pair, window, by)


def explore_report(report: Pictured) -> Map:
    """Return a map of the changes with both dates as layers, and a swipe between them."""
    try:
        import folium
        from folium.plugins import SideBySideLayers
    except ModuleNotFoundError as error:
        raise ExtraNotInstalled("explore() draws with folium; install rscc[notebook]") from error
    shown: Any = folium.Map(tiles=None)
    if report.scenes is not None:
        with open_scenes(report) as pair:
            window, dates = _pictures(report, pair)
            west, south, east, north = window_ground(pair, window).bounds
        corners = [[south, west], [north, east]]
        layers = [
            folium.raster_layers.ImageOverlay(np.asarray(picture), corners, name=name).add_to(shown)
            for name, picture in zip(("before", "after"), dates, strict=True)
        ]
        SideBySideLayers(*layers).add_to(shown)
        shown.fit_bounds(corners)
    if report.changes:
        fields = ["id", "caption", "count", "area_m2", "score"]
        outlines = folium.GeoJson(
            report.to_geodataframe()[[*fields, "geometry"]].to_json(),
            name="changes",
            style_function=lambda _: {"color": OUTLINE, "weight": 2, "fillOpacity": 0.05},
            tooltip=folium.GeoJsonTooltip(fields),
        ).add_to(shown)
        if report.scenes is None:
            shown.fit_bounds(outlines.get_bounds())
    return shown

"""A report in a notebook: as HTML with thumbnails, as a matplotlib plot, and as a map with both dates."""

from __future__ import annotations

import io
import textwrap
from base64 import b64encode
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from PIL import Image

from rscc.errors import ExtraNotInstalled
from tiling import ScenePair, TilingError, Window, transformer
from workflows.errors import WorkflowError
from workflows.report.change import Change, Chips
from workflows.report.geojson import CRS
from workflows.report.looked_at import area_in_words
from workflows.report.page.chips import chips_of
from workflows.report.page.imagery import read_reduced
from workflows.report.page.page import shown_report
from workflows.report.scenes import Pictured, open_scenes

if TYPE_CHECKING:
    from folium import Map
    from geopandas import GeoDataFrame
    from matplotlib.axes import Axes

    from workflows.report.summary import SceneSummary

OUTLINE = "#d1495b"
"""Colour of the outlines."""
_MOST_ROWS, _TITLE_WIDTH = 20, 72
# Longer side of the imagery below a plot or a map, in pixels.
_SIDE = 1200


class Shown(Pictured, Protocol):
    """What a notebook takes of a report."""

    @property
    def summary(self) -> SceneSummary: ...  # noqa: D102
    def to_geodataframe(self) -> GeoDataFrame: ...  # noqa: D102


def report_html(report: Shown) -> str:
    """Return the summary and the largest changes as a table, with both dates where the scenes can be read."""
    largest = sorted(report.changes, key=lambda change: -change.area_m2)[:_MOST_ROWS]
    chips = _chips(report, largest)
    head = ("id", *(("before", "after") if chips else ()), "caption", "count", "area")
    rows = "".join(_row(change, chips) for change in largest)
    more = len(report.changes) - len(largest)
    return (
        f"<p>{escape(report.summary.text)}</p>"
        f"<table><tr>{''.join(f'<th>{name}</th>' for name in head)}</tr>{rows}</table>"
        + (f"<p>and {more:,} smaller</p>" if more else "")
    )


def _chips(report: Shown, changes: Sequence[Change]) -> Chips:
    """Return thumbnails of changes; none where the scenes were not given or cannot be read."""
    if report.scenes is None or not changes:
        return {}
    try:
        return chips_of(report, changes)
    except (TilingError, WorkflowError):
        return {}


def _row(change: Change, chips: Chips) -> str:
    pictures = [
        f'<img alt="{role}" src="data:image/jpeg;base64,{b64encode(picture).decode()}">'
        for role, picture in zip(("before", "after"), chips.get(change.id, ()), strict=False)
    ]
    cells = [escape(text) for text in (change.caption, str(change.count), area_in_words(change.area_m2))]
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in (change.id, *pictures, *cells)) + "</tr>"


def plot_report(report: Shown, axes: Axes | None = None) -> Axes:
    """Draw the outlines of the changes with their ids over the scene after; return the axes.

    The axes are those of the working grid; without imagery they are degrees.
    """
    try:
        from matplotlib import pyplot
    except ModuleNotFoundError as error:
        raise ExtraNotInstalled("plot() draws with matplotlib; install rscc[notebook]") from error
    axes = axes or pyplot.subplots()[1]
    crs = _draw_scene(report, axes)
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


def _draw_scene(report: Shown, axes: Axes) -> str:
    """Draw the scene after below the outlines; return the CRS of the axes."""
    if report.scenes is None:
        return CRS
    try:
        with open_scenes(report) as pair:
            window, (_, after) = _pictures(report, pair)
            transform, crs = pair.grid.transform, str(pair.grid.crs)
    except (TilingError, WorkflowError):
        return CRS
    west, north = transform * (window.col_off, window.row_off)
    east, south = transform * (window.col_end, window.row_end)
    if transform.b or transform.d or not crs.startswith("EPSG:"):
        return CRS  # a rotated picture has no extent
    axes.imshow(np.asarray(after), extent=(west, east, south, north))
    return crs


def _pictures(report: Shown, pair: ScenePair) -> tuple[Window, tuple[Image.Image, Image.Image]]:
    window = shown_report(report, pair)[0]
    by = -(-max(window.width, window.height) // _SIDE)
    return window, read_reduced(pair, window, by)


def explore_report(report: Shown) -> Map:
    """Return a map of the changes with both dates as layers, and a swipe between them."""
    try:
        import folium
        from folium.plugins import SideBySideLayers
    except ModuleNotFoundError as error:
        raise ExtraNotInstalled("explore() draws with folium; install rscc[notebook]") from error
    shown: Any = folium.Map(tiles=None)
    layers = []
    if report.scenes is not None:
        with open_scenes(report) as pair:
            window, dates = _pictures(report, pair)
            bounds = _degrees(pair, window)
        for name, picture in zip(("before", "after"), dates, strict=True):
            layer = folium.raster_layers.ImageOverlay(_address(picture), bounds, name=name)
            layers.append(layer.add_to(shown))
        SideBySideLayers(*layers).add_to(shown)
        shown.fit_bounds(bounds)
    if report.changes:
        fields = ["id", "caption", "count", "area_m2", "score"]
        outlines = folium.GeoJson(
            report.to_geodataframe()[[*fields, "geometry"]].to_json(),
            name="changes",
            style_function=lambda _: {"color": OUTLINE, "weight": 2, "fillOpacity": 0.05},
            tooltip=folium.GeoJsonTooltip(fields),
        ).add_to(shown)
        if not layers:
            shown.fit_bounds(outlines.get_bounds())
    return shown


def _degrees(pair: ScenePair, window: Window) -> list[list[float]]:
    """Return the corners of a window as folium takes them: south-west and north-east, latitude first."""
    corners = [
        pair.grid.transform * corner
        for corner in (
            (window.col_off, window.row_off),
            (window.col_end, window.row_off),
            (window.col_off, window.row_end),
            (window.col_end, window.row_end),
        )
    ]
    lon, lat = transformer(str(pair.grid.crs), CRS).transform(*np.array(corners).T)
    return [[float(lat.min()), float(lon.min())], [float(lat.max()), float(lon.max())]]


def _address(picture: Image.Image) -> str:
    content = io.BytesIO()
    picture.save(content, "PNG")
    return f"data:image/png;base64,{b64encode(content.getvalue()).decode()}"

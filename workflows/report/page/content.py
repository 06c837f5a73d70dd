"""The content of a page: plain values, and texts without characters that steer or hide what is shown."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import shapely
from shapely.geometry import MultiPolygon, shape

from tiling import Window
from workflows.options import GROUP_DISTANCE, GROUP_PIXELS, MIN_AREA, MIN_PIXELS
from workflows.report.change import Change, feature_of
from workflows.report.edited import BY_HAND
from workflows.report.looked_at import number_in
from workflows.report.page.imagery import Picture
from workflows.report.page.template import legible
from workflows.report.record import Run, of_scenes, run_id, text_in, value_in
from workflows.report.scenes import STEPS, Pictured, largest_part
from workflows.report.summary import summary_of

VERSION = 1
# Attributes of a change that the page does not show, or shows otherwise.
_LEFT_OUT = ("date_before", "date_after", "before", "after", "model", "model_version", "outline_of")


def page_content(
    report: Pictured,
    outlines: Sequence[MultiPolygon],
    not_judged: MultiPolygon,
    window: Window,
    gsd: float,
) -> dict[str, Any]:
    """Return everything that a page shows but the pictures.

    Args:
        outlines: of the changes, in pixels of the working grid.
        not_judged: the ground that was not judged, likewise.
        window: the pixels of the grid that are shown; the page counts from its corner.
    """
    record, changes = report.run, report.changes
    names, dates = of_scenes(record, "path"), of_scenes(record, "date")
    warnings = record.get("warnings")
    content: dict[str, Any] = {
        "version": VERSION,
        # What marks belong to: the run, whatever the file is called.
        "report": run_id(record),
        "name": report.source.name,
        "scenes": {role: {"name": file_name(names[role]), "date": dates[role]} for role in names},
        "model": {key: text_in(record, "model", key) for key in ("name", "version")},
        "started": text_in(record, "started"),
        "rscc": text_in(record, "versions", "rscc"),
        "made": how_made(record),
        "warnings": [without_folders(str(one), record) for one in warnings]
        if isinstance(warnings, list)
        else [],
        "summary": summary_of(changes, record).as_dict(),
        "width": window.width,
        "height": window.height,
        "gsd": gsd,
        "steps": STEPS,
        "not_judged": rings_of(not_judged, window),
        "changes": [
            _change(change, outline, window) for change, outline in zip(changes, outlines, strict=True)
        ],
    }
    shown: dict[str, Any] = legible(content)
    return shown


def placed(picture: Picture, window: Window, before: str, after: str) -> dict[str, Any]:
    """Return what a page knows of a picture.

    Args:
        picture: the same part of the ground on both dates.
        window: the pixels of the working grid that are shown; the page counts from its corner.
        before, after: addresses of its two files.
    """
    part = picture.window
    return {
        "box": [part.col_off - window.col_off, part.row_off - window.row_off, part.width, part.height],
        "reduced": round(picture.reduced, 3),
        "before": before,
        "after": after,
    }


def _change(change: Change, outline: MultiPolygon, window: Window) -> dict[str, Any]:
    # As it is written, so that a report read from its file has the same page.
    feature = feature_of(change)
    place = shapely.normalize(shape(feature["geometry"])).representative_point()
    return {
        **{name: value for name, value in feature["properties"].items() if name not in _LEFT_OUT},
        "by_hand": change.model == BY_HAND,
        "at": _inside(outline, window),
        "lon": round(place.x, 6),
        "lat": round(place.y, 6),
        "rings": rings_of(outline, window),
    }


def _inside(outline: MultiPolygon, window: Window) -> list[float]:
    """Return x and y of a point in the largest part of a change, which a thumbnail shows."""
    point = largest_part(outline).representative_point()
    return [round(point.x - window.col_off, 1), round(point.y - window.row_off, 1)]


def rings_of(outline: MultiPolygon, window: Window) -> list[list[int]]:
    """Return for each ring x and y of the first corner, then of the steps from corner to corner.

    They are in parts of a pixel, and count from the corner of the window.
    """
    rings = []
    for polygon in outline.geoms:
        for ring in (polygon.exterior, *polygon.interiors):
            corners = np.asarray(ring.coords)[:-1] - (window.col_off, window.row_off)  # (n, 2)
            whole = np.rint(corners * STEPS).astype(int)
            rings.append([int(value) for value in np.diff(whole, axis=0, prepend=0).ravel()])
    return rings


def file_name(path: str | None) -> str | None:
    """Return the last part of a path of any system or of an address: folders are not for everybody."""
    return path and (re.split(r"[\\/]", path.rstrip("\\/"))[-1] or None)


def without_folders(text: str, run: Run) -> str:
    """Return a text that names the scenes of a record without their folders."""
    paths = filter(None, of_scenes(run, "path").values())
    for path in sorted(paths, key=len, reverse=True):
        text = text.replace(path, file_name(path) or path)
    return text


def how_made(run: Run) -> list[list[str]]:
    """Return names and values of what decided about the changes: threshold, tiles, limits."""
    return [[name, value] for name, value in _terms(run) if value]


def _terms(run: Run) -> Iterator[tuple[str, str | None]]:
    gsd, threshold = number_in(run, "tiling", "gsd"), number_in(run, "settings", "threshold")
    tile, overlap = number_in(run, "tiling", "tile"), number_in(run, "tiling", "overlap")
    yield "Threshold", f"change probability of {threshold:g}" if threshold else None
    yield "Tiles", f"{tile:,.0f} pixels, overlap {overlap:,.0f} pixels" if tile else None
    least = number_in(run, "settings", "min_area") or max(MIN_AREA, MIN_PIXELS * gsd**2)
    yield "Smallest change", f"{least:,.0f} m\u00b2" if gsd else None
    yield "Grouping", _grouping(run, gsd) if gsd else None
    limits = _limits(run)
    yield "Limits", limits and f"the model is made for {limits} m per pixel"


def _grouping(run: Run, gsd: float) -> str:
    distance = number_in(run, "settings", "group_distance")
    if value_in(run, "settings", "group_distance") is None:
        distance = max(GROUP_DISTANCE, GROUP_PIXELS * gsd)
    return f"outlines up to {distance:g} m apart are one change" if distance else "each outline is a change"


def _limits(run: Run) -> str | None:
    """Return the range of the model in metres per pixel; None where the record has none."""
    gsd_range = value_in(run, "model", "gsd_range")
    if not isinstance(gsd_range, list) or not all(type(one) in (int, float) for one in gsd_range):
        return None
    return " to ".join(f"{one:g}" for one in gsd_range) if len(gsd_range) == 2 else None

"""What a page knows of a report: plain values, and texts in which nothing steers who reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import shapely
from shapely.geometry import MultiPolygon, shape

from tiling import Window
from workflows.inspection.event import STEPS
from workflows.page.imagery import Picture
from workflows.page.template import legible
from workflows.report.change import Change, feature_of
from workflows.report.edited import BY_HAND
from workflows.report.record import of_scenes, run_id, text_in
from workflows.report.report import ChangeReport
from workflows.report.summary import summary_of

VERSION = 1
# Fields of a change that the page shows as they are.
_FIELDS = (
    "id", "caption", "alternatives", "score", "change_probability", "area_m2", "count", "count_sure",
    "direction", "came", "gone", "before_cover", "largest_m2", "median_m2", "changed_m2",
    "changed_back_m2", "changed_at_least",
    "place", "arrangement", "caption_confident", "review_status", "reviewer", "reviewer_caption",
    "reviewer_note",
)  # fmt: skip


def report_content(
    report: ChangeReport, outlines: Sequence[MultiPolygon], window: Window, gsd: float, name: str
) -> dict[str, Any]:
    """Return everything that a page shows but the pictures.

    Args:
        report: the changes and the run record.
        outlines: of the changes, in pixels of the working grid.
        window: the pixels of it that are shown; the page counts from its corner.
        gsd: metres per pixel.
        name: of the file of the report.
    """
    run = report.run
    names, dates = of_scenes(run, "path"), of_scenes(run, "date")
    warnings = run.get("warnings")
    content: dict[str, Any] = {
        "version": VERSION,
        # What marks belong to: the run, whatever the file is called.
        "report": run_id(run),
        "name": name,
        "scenes": {role: {"name": names[role], "date": dates[role]} for role in names},
        "model": {key: text_in(run, "model", key) for key in ("name", "version")},
        "started": text_in(run, "started"),
        "rscc": text_in(run, "versions", "rscc"),
        "warnings": warnings if isinstance(warnings, list) else [],
        "summary": summary_of(report.changes).as_dict(),
        "width": window.width,
        "height": window.height,
        "gsd": gsd,
        "steps": STEPS,
        "changes": [
            _change(change, outline, window) for change, outline in zip(report.changes, outlines, strict=True)
        ],
    }
    shown: dict[str, Any] = legible(content)
    return shown


def placed(picture: Picture, window: Window, before: str, after: str) -> dict[str, Any]:
    """Return what a page knows of a picture.

    Args:
        picture: the same part of the ground on both dates.
        window: the pixels of the working grid that are shown; the page counts from its corner.
        before, after: where the page finds its two files.
    """
    part = picture.window
    return {
        "box": [part.col_off - window.col_off, part.row_off - window.row_off, part.width, part.height],
        "reduced": round(picture.reduced, 3),
        "before": before,
        "after": after,
    }


def _change(change: Change, outline: MultiPolygon, window: Window) -> dict[str, Any]:
    # As it is written, so that a report that was read has the same page.
    feature = feature_of(change)
    properties = feature["properties"]
    place = shapely.normalize(shape(feature["geometry"])).representative_point()
    return {
        **{name: properties[name] for name in _FIELDS},
        "by_hand": change.model == BY_HAND,
        "lon": round(place.x, 6),
        "lat": round(place.y, 6),
        "rings": [
            _ring(ring.coords, window)
            for polygon in outline.geoms
            for ring in (polygon.exterior, *polygon.interiors)
        ],
    }


def _ring(coordinates: Any, window: Window) -> list[int]:
    """Return x and y of the first corner and then of each step to the next, in parts of a pixel."""
    corners = np.asarray(coordinates)[:-1] - (window.col_off, window.row_off)  # (n, 2)
    whole = np.rint(corners * STEPS).astype(int)
    return [int(value) for value in np.diff(whole, axis=0, prepend=0).ravel()]

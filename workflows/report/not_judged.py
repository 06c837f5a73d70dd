"""The outline of the ground that was not judged, as a run record has it."""

from __future__ import annotations

from collections.abc import Mapping

from shapely.geometry import MultiPolygon, Polygon

from workflows.report.geojson import outlines_in
from workflows.report.record import Run


def not_judged_outline(run: Run) -> Polygon | MultiPolygon | None:
    """Return the ground that was not judged, in WGS84; None without any. The record may come from anybody."""
    member = run.get("not_judged")
    return outlines_in(member.get("outline")) if isinstance(member, Mapping) else None

"""Explain the change at a place of two scenes, with the facts and the sentence that a report would have."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import rasterio
from shapely.geometry import Point, box

from tiling import Window
from workflows.errors import NoChangeThere
from workflows.options import ExplainOptions
from workflows.progress import Progress
from workflows.report.report import Report
from workflows.report.scenes import in_pixels
from workflows.scene.explain import ExplainedChange, evidence_in
from workflows.scene.group import group
from workflows.scene.opening import OpenPair, open_pair, tile_grid
from workflows.scene.pictures.explain import pixel_of
from workflows.scene.pixels import window_around
from workflows.scene.result import changes_of
from workflows.scene.run import described, detected
from workflows.scenes import Scene

if TYPE_CHECKING:
    from rscc.captioner import Captioner

_REACH = 1024
"""Pixels around the place that are processed first; four times as many while a change reaches their edge."""
_NEAR = 8
"""Pixels from a place up to which a change is meant: people point beside small outlines."""


def explain_place(
    before: Scene,
    after: Scene,
    captioner: Captioner,
    options: ExplainOptions,
    progress: Progress | None = None,
) -> ExplainedChange:
    """Return the change at the place of ``options``, and what its sentence rests on.

    Only the ground around the place is processed; stretch, offset and grid are those of the whole pair, so
    that a report of the scenes has the same change in the same words.

    Raises:
        NoChangeThere: nothing changed at the place.
    """
    reach = _REACH
    with rasterio.Env(), open_pair(before, after, captioner.card, options) as opened:
        col, row, words = pixel_of(opened.pair, options)
        whole = Window(0, 0, opened.pair.grid.width, opened.pair.grid.height)
        while True:
            area = window_around(Point(col, row).buffer(1), reach).intersection(whole)
            explained, is_cut = _explained(opened, captioner, area, Point(col, row), progress)
            if not is_cut or area == whole:
                break
            reach *= 4
    if explained is None:
        raise NoChangeThere(f"{opened.infos[1].path}: no change was found at {words}")
    return replace(explained, warnings=tuple(opened.warnings))


def _explained(
    opened: OpenPair, captioner: Captioner, area: Window, place: Point, progress: Progress | None
) -> tuple[ExplainedChange | None, bool]:
    """Return the change at a place, as far as it lies in an area, and whether it reaches its edge."""
    grid = tile_grid(opened.frame, captioner.card, opened.options, area)
    opened = replace(opened, grid=grid)
    with detected(opened, captioner, progress) as (maps, regions, network):
        changes = group(regions, maps, opened.options)
        captions, _ = described(changes, opened, maps, network, None)
        record = opened.record()
        made = changes_of(changes.found, captions, opened.ground, record, opened.options)
        report = Report(made, record, scenes=opened.infos)
        outlines = in_pixels([change.geometry for change in made], maps.frame) if made else []
        near = [(outline.distance(place), number) for number, outline in enumerate(outlines)]
        distance, number = min(near, default=(_NEAR + 1, 0))
        if distance > _NEAR:
            return None, False
        inner = box(area.col_off + 1, area.row_off + 1, area.col_end - 1, area.row_end - 1)
        is_cut = not inner.contains(outlines[number])
        if maps.rules is None:
            return ExplainedChange(report, made[number], reason="its model has no fact heads"), is_cut
        card = captioner.card
        answers = evidence_in(report, made[number], maps)
        return ExplainedChange(report, made[number], answers, None, f"{card.name} {card.version}"), is_cut

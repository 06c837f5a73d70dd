"""The land cover of each change of a scene by the bands of both dates, and the sentence that it makes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from shapely.geometry import MultiPolygon, Polygon

from rscc.facts.cover_tally import CoverTally
from rscc.facts.land_cover import CoverRules
from tiling import ScenePair, SpectralPair, TileGrid, geodesic_area_m2
from workflows.progress import Progress, report_progress
from workflows.scene.found import FoundChange
from workflows.scene.pixels import rasterize_outlines, window_around
from workflows.scene.visibility.layer import Visibility
from workflows.scene.words.location import compass_words

if TYPE_CHECKING:
    from rscc.facts.grounded_captions import GroundedCaption

_BLOCK = 512
"""Pixels a side that are read at once."""


def describe_by_cover(
    changes: Sequence[FoundChange],
    pair: ScenePair,
    ground: Polygon | MultiPolygon | None,
    layer: Visibility | None = None,
    *,
    is_box: bool = False,
    progress: Progress | None = None,
) -> tuple[list[GroundedCaption], dict[str, Any]]:
    """Return the caption of every change with its facts, and what the land cover was measured by.

    Progress is reported as the stage ``captions``.

    Args:
        ground: what was asked for, in WGS84.
        layer: what hides the ground; hidden pixels are not counted. None: nothing is hidden.
        is_box: whether that is a box, out of which changes may reach: they are no share of it.
    """
    from rscc.facts.grounded_captions import map_caption

    ground_m2 = None if ground is None or is_box else geodesic_area_m2(ground)
    captions = []
    with SpectralPair.open(pair) as spectral:
        rules = CoverRules.fit(*spectral.sample()) if spectral.parts else CoverRules({})
        measured_by = {
            "bands": dict(zip(("before", "after"), spectral.numbers, strict=True)),
            "indices": {name: index.name for name, index in rules.indices.items()},
            "moved": {name: round(value, 4) for name, value in rules.moved.items()},
        }
        for number, change in enumerate(changes, 1):
            place = compass_words(change.geometry, ground)
            facts = _tally(change, pair, spectral, rules, layer).facts(
                area_m2=change.area_m2, ground_m2=ground_m2, place=tuple(place.split("-")) if place else ()
            )
            captions.append(map_caption(facts))
            report_progress(progress, "captions", number, len(changes))
    return captions, measured_by


def _tally(
    change: FoundChange, pair: ScenePair, spectral: SpectralPair, rules: CoverRules, layer: Visibility | None
) -> CoverTally:
    """Count what the pixels of a change became; they are read block by block."""
    tally, outline, grid = CoverTally(), change.pixels, pair.grid
    if not rules.indices:
        return tally
    for tile in TileGrid(grid.width, grid.height, _BLOCK, 0, area=window_around(outline)):
        if tile.core and (region := rasterize_outlines([outline], tile.core, all_touched=False)).any():
            before, after, valid = spectral.read(tile.core)
            if layer is not None:
                valid = valid & ~layer.classes(tile.core).any(axis=0)
            tally.add(region, valid, rules.decide(before, after), rules.burnt(before, after))
    return tally

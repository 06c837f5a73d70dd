"""The land cover of each change of a scene by the bands of both dates, and the sentence that it makes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rscc.inference.cover_facts import CoverTally
from rscc.land_cover import CoverRules
from tiling import SpectralPair, TileGrid, geodesic_area_m2
from workflows.progress import tell
from workflows.scene.carrier import OpenRun
from workflows.scene.crops import burnt
from workflows.scene.events import Event, window_around
from workflows.scene.layout import compass_words

if TYPE_CHECKING:
    from rscc.inference.facts import GroundedCaption

# Pixels a side that are read at once.
_BLOCK = 512


def describe_by_cover(run: OpenRun, events: Sequence[Event]) -> list[GroundedCaption]:
    """Return the caption of every event, with the facts that it states.

    What it was measured by is kept as ``run.land_cover``. Progress is reported as the stage ``captions``.
    """
    from rscc.inference.facts import map_caption

    # A change that reaches beyond a box is told of whole, and is no share of the box.
    ground_m2 = None if run.ground is None or run.options.bounds else geodesic_area_m2(run.ground)
    captions = []
    with SpectralPair.open(run.pair) as spectral:
        rules = CoverRules.fit(*spectral.sample()) if spectral.parts else CoverRules({})
        run.land_cover = {
            "bands": dict(zip(("before", "after"), spectral.numbers, strict=True)),
            "indices": {name: index.name for name, index in rules.indices.items()},
            "moved": {name: round(value, 4) for name, value in rules.moved.items()},
        }
        for number, event in enumerate(events, 1):
            place = compass_words(event.geometry, run.ground)
            facts = _tally(run, event, spectral, rules).facts(
                area_m2=event.area_m2, ground_m2=ground_m2, place=tuple(place.split("-")) if place else ()
            )
            captions.append(map_caption(facts))
            tell(run.progress, "captions", number, len(events))
    return captions


def _tally(run: OpenRun, event: Event, spectral: SpectralPair, rules: CoverRules) -> CoverTally:
    """Count how the pixels of an event are decided; its windows are read block by block."""
    tally, outline, grid = CoverTally(), event.outline, run.pair.grid
    if not rules.indices:
        return tally
    for tile in TileGrid(grid.width, grid.height, _BLOCK, 0, area=window_around(outline)):
        if tile.core and (region := burnt([outline], tile.core, all_touched=False)).any():
            before, after, valid = spectral.read(tile.core)
            tally.add(region, valid, rules.decide(before, after), rules.burnt(before, after))
    return tally

"""The facts of each change of a scene, and the sentence that they make; from the maps alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from shapely.geometry import MultiPolygon, Polygon

from rscc.facts.unfamiliar import is_familiar
from rscc.text.change_facts import building_size
from workflows.progress import Progress, report_progress
from workflows.report.change import GIVEN
from workflows.scene.evidence import ROAD_REACH, evidence_of
from workflows.scene.found import Changes
from workflows.scene.maps import ChangeMaps
from workflows.scene.words.location import compass_words

if TYPE_CHECKING:
    from rscc.facts.grounded_captions import GroundedCaption

_NO_BUILDING = frozenset({"came building", "gone building", "came parking lot", "gone road"})
IMPOSSIBLE_ANSWERS = {
    "change": frozenset[str](),
    "given": frozenset[str](),
    "road": _NO_BUILDING,
    "clearing": _NO_BUILDING | {"came trees"},
}
"""Answers that cannot be true of each kind of change, whatever their probability."""

UNSEEN_ANSWERS = frozenset({"came building", "gone building", "came parking lot"})
"""Answers that cannot be true where the change head, which knows buildings, sees no change."""


def describe_by_facts(
    changes: Changes,
    maps: ChangeMaps,
    ground: Polygon | MultiPolygon | None,
    progress: Progress | None = None,
) -> list[GroundedCaption]:
    """Return the caption of every change, with the facts that it states.

    Progress is reported as the stage ``captions``.
    """
    from rscc.facts.grounded_captions import map_caption

    assert maps.rules is not None
    found = changes.found
    numbers = range(len(found))
    outlines = [change.pixels for change in (*found, *changes.others)]
    roads_alone = [change.pixels for change in found if change.kind == "road"]
    # Where a given outline is not seen as changed, what is beside it says nothing about it.
    unseen = {number for number in numbers if found[number].kind == GIVEN and not found[number].is_seen}
    of_changes = evidence_of(outlines, maps, numbers, with_roads=True, bare=unseen)
    captions = []
    for number, (change, evidence) in enumerate(zip(found, of_changes, strict=True)):
        absent = IMPOSSIBLE_ANSWERS[change.kind] | (UNSEEN_ANSWERS if number in unseen else frozenset())
        if evidence.roads is not None and change.kind != "road":  # the road head found that one
            absent |= evidence.roads.absent
        if change.kind == "clearing" and any(change.pixels.dwithin(road, ROAD_REACH) for road in roads_alone):
            absent |= {"came road"}  # the road has its own sentence
        facts = maps.rules.facts(evidence.logits, known=change.is_seen, absent=absent, covers=evidence.covers)
        place = compass_words(change.geometry, ground)
        is_counted = change.kind in ("change", "given")
        facts = replace(
            facts,
            count=change.count if is_counted else None,
            sure=change.sure if is_counted else None,
            place=tuple(place.split("-")) if place else (),
            cleared=evidence.cleared and is_familiar(change.familiarity),
            size=building_size(sum(change.objects_m2), change.largest_m2, change.median_m2, change.sure),
        )
        # Where an object is sure, so is the change.
        captions.append(map_caption(facts, change.probability if facts.sure == 0 else 1.0))
        report_progress(progress, "captions", len(captions), len(found))
    return captions

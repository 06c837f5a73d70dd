"""Outlines of somebody else become changes by our maps: counted, judged, kept as they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import shapely
from captioners import FactCaptioner, kept
from scene_pairs import make_pair
from shapely.affinity import translate
from shapely.geometry import MultiPolygon, box

from rscc.facts.answers import ANSWERS
from workflows import SceneOptions
from workflows.scene.given.judge import NOTHING, given_changes, judged_of, with_unjudged
from workflows.scene.given.layer import GivenOutline
from workflows.scene.maps import read_maps
from workflows.scene.outline import outline
from workflows.scene.words.facts import describe_by_facts
from workflows.scene.words.location import ground_of

SPOTS = [(30, 30, 20, 20, 250), (30, 60, 20, 20, 250), (100, 30, 20, 20, 240)]


class Local(FactCaptioner):
    """Sees houses come where the dates differ, and nothing anywhere else."""

    def survey(self, before, after):
        found, logits = super().survey(before, after)
        cell = self.card.position_size
        changed = found.reshape(len(found), logits.shape[2], cell, logits.shape[3], cell).max((2, 4)) > 0.5
        logits[:] = -9.0
        logits[:, ANSWERS.index("came building")] = np.where(changed, 9.0, -9.0)
        return found, logits


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """A report on three changes, and its maps."""
    folder = tmp_path_factory.mktemp("found")
    report, _ = kept(make_pair(folder, SPOTS), folder, Local(), group_distance=0)
    opened = read_maps(Path(report.run["maps"]))
    yield report, opened
    opened.close()


def judged(found, *geometries, **options):
    """Return given outlines as changes and their captions, in the order of the changes."""
    _, maps = found
    options = SceneOptions(**options)
    own = outline(maps.bands(), maps.about["settings"]["threshold"], maps.frame.grid, options)
    given = [
        GivenOutline(one, str(number), {"by": "me", "year": 2020, "floors": number + 1})
        for number, one in enumerate(geometries)
    ]
    changes = given_changes(given, own, maps, options)
    ground = ground_of(maps.frame)
    captions = describe_by_facts(judged_of(changes), maps, ground)
    return changes.found, with_unjudged(changes, captions)


def test_an_outline_of_an_object_stays_as_it_is_and_counts_as_one(found):
    report, _ = found
    shape = shapely.transform(report.changes[0].geometry, lambda xy: xy + 1e-9 * np.pi)
    (change,), (caption,) = judged(found, shape)
    assert change.geometry.equals_exact(shape, 0)
    assert (change.count, change.given.supported, change.given.not_judged) == (1, 1.0, None)
    assert caption.text.startswith("A house was built")


def test_a_frame_counts_the_objects_in_it(found):
    report, _ = found
    frame = box(*shapely.total_bounds([change.geometry for change in report.changes]))
    (change,), (caption,) = judged(found, frame)
    assert change.count == 3 and 0 < change.given.supported < 0.5
    assert change.geometry.equals(frame)
    assert caption.text.startswith("Three houses were built")


def test_the_parts_of_a_multipolygon_count_unless_they_touch(found):
    report, _ = found
    one, two, _ = (change.geometry for change in report.changes)
    (change,), (caption,) = judged(found, MultiPolygon([one, two]))
    assert change.count == 2 and caption.text.startswith("Two houses were built")
    left, low, right, top = one.bounds
    halves = [box(left, low, (left + right) / 2, top), box((left + right) / 2, low, right, top)]
    (change,), _ = judged(found, MultiPolygon(halves[:1]).union(halves[1].buffer(-1e-9)))
    assert change.count == 1


def test_an_outline_of_unchanged_ground_claims_no_change(found):
    report, _ = found
    one = report.changes[0].geometry
    (change,), (caption,) = judged(found, translate(one, 6 * (one.bounds[2] - one.bounds[0]), 0))
    assert change.given.supported == 0 and (caption.text, caption.score) == (NOTHING, 0.0)


@pytest.mark.parametrize(("inside", "reason"), [(0.6, None), (0.4, "outside the scenes")])
def test_an_outline_that_reaches_beyond_the_scenes_is_cut_and_judged_where_most_of_it_lies_inside(
    found, inside, reason
):
    west, south, east, north = ground_of(found[1].frame).bounds
    width, height = (east - west) / 4, (north - south) / 4
    start = west - (1 - inside) * width
    (change,), _ = judged(found, box(start, south + height, start + width, south + 2 * height))
    assert change.given.not_judged == reason and change.cut_by_edge


def test_what_is_seen_of_outlines_in_one_group_counts_by_their_area(found):
    report, _ = found
    house = report.changes[0].geometry
    west, south, east, north = house.bounds
    yard = box(2 * west - east, north, east, north + 1.25 * (north - south))
    (change,), _ = judged(found, house, yard, group_distance=5)
    assert change.given.supported == pytest.approx(1 / (1 + 2.5), abs=0.03)


def test_they_are_grouped_only_where_that_is_asked_for(found):
    report, _ = found
    shapes = [change.geometry for change in report.changes]
    assert len(judged(found, *shapes)[0]) == 3
    changes, captions = judged(found, *shapes, group_distance=6.0)
    assert [(change.count, change.given.source_id) for change in changes] == [(2, "0; 1"), (1, "2")]
    assert changes[0].given.attributes == {"by": "me", "year": 2020, "floors": "1; 2"}
    assert captions[0].text.startswith("Two houses were built")

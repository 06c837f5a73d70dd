"""Buildings that came and others that are gone, close together, are changes of their own."""

import pytest
from captioners import CELL, FactCaptioner, captioned, kept
from scene_pairs import make_pair

from rscc.facts.answers import ANSWERS
from workflows import SceneOptions
from workflows.scene.explain import explain_change
from workflows.scene.remake import remake

CAME, GONE = ANSWERS.index("came building"), ANSWERS.index("gone building")
# Row, column, height, width, brightness after; 26 m lie between one and the next.
ROW = [(16, 16 + 80 * number, 28, 28, 220) for number in range(4)]


class Sides(FactCaptioner):
    """Says of each outline of :data:`ROW`, by ``ways``, that it came, is gone, both or neither."""

    def __init__(self, *ways):
        super().__init__(tile_size=320)
        self.ways = ways

    def survey(self, before, after):
        found, logits = super().survey(before, after)
        logits[:, [CAME, GONE, ANSWERS.index("came road")]] = -9.0
        for number, way in enumerate(self.ways):
            columns = slice(80 * number // CELL, (80 * number + 64) // CELL)
            for answer in {"came": [CAME], "gone": [GONE], "both": [CAME, GONE]}.get(way, []):
                logits[:, answer, : 64 // CELL, columns] = 5.0
        return found, logits


def plain(report):
    return [change.properties() for change in report.changes]


@pytest.fixture
def pair(tmp_path):
    return make_pair(tmp_path, ROW, size=(112, 320))


@pytest.mark.parametrize(
    ("ways", "told"),
    [
        (("came", "came", "gone", "gone"), {("came", 2), ("gone", 2)}),
        (("came", "gone", "came", "gone"), {("came", 1), ("gone", 1)}),  # none is beside its like
        (("came", "came", "came", "gone"), {("came", 3), ("gone", 1)}),
        (("came", "came", "came", "both"), {("came", 3), ("both", 1)}),
        (("both", "both", "both", "both"), {("both", 4)}),
        (("came", "neither", "came", "gone"), {("came", 3), ("gone", 1)}),
    ],
)
def test_each_direction_has_its_own_number(pair, ways, told):
    changes = captioned(pair, Sides(*ways)).changes
    directions = {"appeared": "came", "disappeared": "gone", "replaced": "both"}
    assert {(directions[change.direction], change.count) for change in changes} == told
    assert sum(change.count for change in changes) == len(ROW)
    for change in changes:
        assert ("former" in change.caption) == (change.direction == "replaced")


def test_a_part_outside_of_what_was_asked_for_is_left_out(pair, tmp_path):
    came, gone = captioned(pair, captioner := Sides("came", "came", "gone", "gone")).changes
    west, south, east, north = came.geometry.bounds
    bounds = (west, south, west + 0.3 * (east - west), north)
    report, _ = kept(pair, tmp_path, captioner, bounds=bounds)
    (asked,) = report.changes
    assert (asked.direction, asked.count, gone.count) == ("appeared", 2, 2)
    assert plain(remake(report, SceneOptions(min_area=25.0))) == plain(report)


@pytest.mark.slow
def test_parted_changes_are_explained_and_remade_as_they_are(pair, tmp_path):
    captioner = Sides("came", "came", "gone", "gone")
    report, _ = kept(pair, tmp_path, captioner, regularize=True)
    assert len(report.changes) == 2
    assert plain(remake(report, SceneOptions(min_area=25.0))) == plain(report)
    (first, second) = remake(report, SceneOptions(group_distance=30.0)).changes
    assert (first.count, second.count) == (2, 2)
    for change in report.changes:
        explained = explain_change(report, change.id)
        assert explained.answers is not None
        stated = {f"{answer.kind} {answer.name}" for answer in explained.answers if answer.stated}
        assert stated >= {"came building" if change.came else "gone building"}
        assert not {"came building", "gone building"} <= stated

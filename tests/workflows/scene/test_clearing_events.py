"""Where trees are gone and nothing was built, the clearing is a change of its own."""

from dataclasses import replace

import numpy as np
import pytest
import shapely
from captioned import captioned
from fact_captioner import CELL
from lone_captioners import CLEARING_BRIGHTNESS, ClearingCaptioner
from scene_pairs import make_pair

from rscc.inference.fact_heads import ANSWERS, FactRules
from rscc.inference.lone_changes import CLEARING
from tiling import geodesic_area_m2, to_wgs84
from workflows import SceneOptions, caption_scene
from workflows.inspection.event import read_event, read_report
from workflows.inspection.evidence import explain_event
from workflows.inspection.remake import remade
from workflows.report.report import ChangeReport
from workflows.report.summary import summary_of

# Row, column, height, width, brightness after: a house in the north-west, a clearing of 96 x 32 m.
HOUSE, CLEARED = (20, 20, 20, 24, 220), (224, 96, 64, 192, CLEARING_BRIGHTNESS)
SIZE = (304, 420)


def clearings_of(report):
    return [change for change in report.changes if change.outline_of == "clearing"]


def logit_of(probability):
    return float(np.log(probability / (1 - probability)))


@pytest.fixture
def pair(tmp_path):
    return make_pair(tmp_path, [HOUSE, CLEARED], size=SIZE)


def test_a_clearing_is_a_change_that_says_so(pair):
    captioner = ClearingCaptioner()
    house, clearing = captioned(pair, captioner).changes
    assert (house.outline_of, clearing.outline_of) == ("change", "clearing")
    assert house.caption.startswith("a house is built") and house.gone == ()
    assert (clearing.caption, clearing.came, clearing.gone) == (
        "trees are removed in the south",
        (),
        ("trees",),
    )
    assert (clearing.direction, clearing.count, clearing.place) == ("disappeared", 1, "south")
    assert clearing.caption_confident
    assert clearing.change_probability >= CLEARING.least_mean
    assert captioner.surveyed == captioner.seen, "no tile is looked at twice"
    # It crosses several tiles, and is one outline to within half a position.
    truth = to_wgs84(pair.truth[1], "EPSG:32633")
    shared = shapely.intersection(clearing.geometry, truth).area
    assert shared / truth.area > 0.9 and shared / clearing.geometry.area > 0.8


def test_a_clearing_around_a_house_is_told_by_the_house(tmp_path):
    pair = make_pair(tmp_path, [(8, 8, 64, 64, CLEARING_BRIGHTNESS), HOUSE], size=SIZE)
    (house,) = captioned(pair, ClearingCaptioner()).changes
    assert house.outline_of == "change" and set(house.gone) == {"trees"}


def test_a_road_through_woods_is_one_change(tmp_path):
    pair = make_pair(tmp_path, [(240, 48, 16, 320, CLEARING_BRIGHTNESS)], size=SIZE)
    (road,) = captioned(pair, ClearingCaptioner(logit=5.0)).changes
    assert (road.outline_of, road.came, road.gone) == ("road", ("road",), ("trees",))


def test_a_road_beside_a_clearing_is_told_once(tmp_path):
    class Apart(ClearingCaptioner):
        """The darker of both is a road, trees are gone in both; the heads say "road" of either."""

        def survey(self, before, after):
            found, logits = super().survey(before, after)
            cells = logits.shape[2:]
            light = after.mean(1).reshape(len(after), cells[0], CELL, cells[1], CELL).mean((2, 4))
            logits[:, -1] = np.where((light > 125) & (light < 138), 5.0, -5.0)
            logits[:, ANSWERS.index("gone trees")] = np.where(light > 125, 3.0, -5.0)
            return found, logits

    pair = make_pair(tmp_path, [(128, 80, 16, 224, 130), (144, 96, 144, 192, 145)], size=SIZE)
    report = captioned(pair, Apart())
    road, clearing = report.changes
    assert (road.outline_of, road.came) == ("road", ("road",))
    assert (clearing.outline_of, clearing.came, clearing.gone) == ("clearing", (), ("trees",))
    # Ground of both is the road's alone: the areas add up.
    together = geodesic_area_m2(road.geometry.union(clearing.geometry))
    assert road.area_m2 + clearing.area_m2 == pytest.approx(together, abs=1.0)


@pytest.mark.parametrize(
    ("height", "width", "brightness"),
    [(32, 48, CLEARING_BRIGHTNESS), (64, 192, 110), (4, 320, CLEARING_BRIGHTNESS)],
)
def test_what_is_too_little_is_no_clearing(tmp_path, height, width, brightness):
    pair = make_pair(tmp_path, [(224, 96, height, width, brightness)], size=SIZE)
    assert captioned(pair, ClearingCaptioner()).changes == []


@pytest.mark.parametrize(("probability", "count"), [(0.72, 0), (0.95, 1)])
def test_a_clearing_is_sure_as_a_whole(pair, probability, count):
    assert len(clearings_of(captioned(pair, ClearingCaptioner(cleared=logit_of(probability))))) == count


def test_a_model_that_never_learnt_of_trees_finds_no_clearing(pair):
    captioner = ClearingCaptioner()
    unlearnt = ANSWERS.index("gone trees")
    slopes = tuple(0.0 if number == unlearnt else 1.0 for number in range(len(ANSWERS)))
    captioner.facts.rules = FactRules(slopes, tuple(9.0 * (slope == 0) for slope in slopes))
    assert clearings_of(captioned(pair, captioner)) == []


@pytest.mark.parametrize(("options", "count"), [({"min_area": 2000.0}, 1), ({"min_area": 5000.0}, 0)])
def test_the_smallest_area_is_that_of_clearings_too(pair, options, count):
    assert len(clearings_of(captioned(pair, ClearingCaptioner(), **options))) == count


def test_a_clearing_outside_of_what_was_asked_for_is_left_out(pair):
    house, clearing = captioned(pair, ClearingCaptioner()).changes
    assert not clearings_of(captioned(pair, ClearingCaptioner(), bounds=house.geometry.bounds))
    assert clearings_of(captioned(pair, ClearingCaptioner(), bounds=clearing.geometry.bounds))


def test_changes_made_anew_keep_their_clearings(pair, tmp_path):
    made = caption_scene(
        pair.before, pair.after, ClearingCaptioner(), SceneOptions(), probability=tmp_path / "change.tif"
    )
    source = made.write(tmp_path / "r.geojson")
    report = read_report(source)
    assert clearings_of(remade(report, source, {"threshold": 0.95})) == clearings_of(report) != []
    marked = [replace(change, review_status="confirmed") for change in report.changes]
    few = remade(ChangeReport(marked, report.run), source, {"min_area": 5000.0})
    assert few.changes == [] and few.run["warnings"][-1].startswith("2 reviewed changes are not there")


def test_a_clearing_is_explained_and_summed_up(pair, tmp_path):
    report = captioned(pair, ClearingCaptioner())
    explained = explain_event(read_event(report.write(tmp_path / "r.geojson"), 2), ClearingCaptioner())
    assert explained.answers is not None
    (gone,) = (answer for answer in explained.answers if (answer.kind, answer.name) == ("gone", "trees"))
    assert gone.stated and gone.probability >= 0.7
    assert summary_of(report.changes).text.endswith("1 house was built; trees are gone.")


def test_a_position_is_judged_with_those_around_it():
    gone = ANSWERS.index("gone trees")
    answers = np.full((len(ANSWERS), 6, 6), -9.0, np.float16)
    answers[gone, 1:4, 1:4] = logit_of(0.9)
    rules = FactRules((1.0,) * len(ANSWERS), (0.0,) * len(ANSWERS))
    found = CLEARING.in_tile(answers, rules)
    assert found is not None and found[2, 2] == pytest.approx(0.9, abs=1e-3)
    assert found[2, 3] == pytest.approx(0.6, abs=1e-3) and found[5, 5] < 1e-3
    answers[gone, 2, 1:4] = -9.0
    assert CLEARING.in_tile(answers, rules) is not None, "two of three rows"
    answers[gone, 3] = -9.0
    assert CLEARING.in_tile(answers, rules) is None

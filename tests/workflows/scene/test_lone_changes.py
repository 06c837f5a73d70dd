"""New roads away from all buildings, and clearings where nothing was built, are changes of their own."""

import numpy as np
import pytest
import shapely
from captioners import (
    CELL,
    CLEARING_BRIGHTNESS,
    LOGITS,
    ROAD_BRIGHTNESS,
    ClearingCaptioner,
    RoadCaptioner,
    captioned,
    kept,
)
from scene_pairs import make_pair

from rscc.facts.answers import ANSWERS
from rscc.facts.lone_changes import CLEARING, ROAD
from rscc.facts.rules import FactRules
from tiling import geodesic_area_m2, to_wgs84
from workflows import SceneOptions, caption_scene
from workflows.scene.remake import remake

# Row, column, height, width, brightness after: a house in the north-west; in the south a road of 160 m, or a
# clearing of 96 x 32 m.
HOUSE = (20, 20, 20, 24, 220)
PLACES = {"road": (240, 48, 16, 320, ROAD_BRIGHTNESS), "clearing": (224, 96, 64, 192, CLEARING_BRIGHTNESS)}
FINDERS = {"road": RoadCaptioner, "clearing": ClearingCaptioner}
SIZE = (304, 420)


def logit_of(probability):
    return float(np.log(probability / (1 - probability)))


def made(folder, *places):
    return make_pair(folder, [*places], size=SIZE)


def alone(kind, report):
    """The changes of a kind, by itself."""
    return [change for change in report.changes if change.outline_of == kind]


@pytest.fixture(params=PLACES)
def kind(request):
    return request.param


@pytest.fixture
def pair(tmp_path, kind):
    """A house, and far from it a road or a clearing."""
    return made(tmp_path, HOUSE, PLACES[kind])


ROADS, CLEARINGS = (pytest.mark.parametrize("kind", [one], indirect=True) for one in PLACES)


TOLD = {
    "road": ("A road was built in the south", ("road",), (), "appeared"),
    "clearing": ("Trees were removed in the south", (), ("trees",), "disappeared"),
}


def test_it_is_a_change_that_says_so(pair, kind):
    captioner = FINDERS[kind]()
    house, lone = captioned(pair, captioner).changes
    assert (house.outline_of, lone.outline_of) == ("change", kind)
    assert house.caption.startswith("A house was built") and "road" not in house.came and house.gone == ()
    assert (lone.caption, lone.came, lone.gone, lone.direction) == TOLD[kind]
    assert (lone.count, lone.place, lone.caption_confident) == (1, "south", True)
    assert lone.change_probability >= {"road": ROAD, "clearing": CLEARING}[kind].least_mean
    assert captioner.surveyed == captioner.seen, "no tile is looked at twice"
    # It crosses several tiles, and is one outline to within half a position.
    truth = to_wgs84(pair.truth[1], "EPSG:32633")
    assert lone.geometry.geom_type == "Polygon"
    shared = shapely.intersection(lone.geometry, truth).area
    assert shared / truth.area > 0.9
    assert shared / lone.geometry.area > {"road": 0.6, "clearing": 0.8}[kind]


@pytest.mark.parametrize(
    ("captioner", "brightness", "places"),
    [
        (RoadCaptioner, ROAD_BRIGHTNESS, [(32, 48, 16, 48), (240, 48, 2, 320)]),
        (ClearingCaptioner, CLEARING_BRIGHTNESS, [(32, 96, 32, 48), (240, 96, 4, 320)]),
    ],
)
def test_what_is_too_little_is_none(tmp_path, captioner, brightness, places):
    too_dark = (112, 48, 64, 320, 110)
    pair = made(tmp_path, too_dark, *((*place, brightness) for place in places))
    assert captioned(pair, captioner()).changes == []


@pytest.mark.slow
def test_what_lies_outside_of_what_was_asked_for_is_left_out(pair, kind):
    house, lone = captioned(pair, FINDERS[kind]()).changes
    within = captioned(pair, FINDERS[kind](), bounds=house.geometry.bounds)
    assert within.changes[0].geometry == house.geometry and not alone(kind, within)
    assert alone(kind, captioned(pair, FINDERS[kind](), bounds=lone.geometry.bounds))


@pytest.mark.slow
def test_a_remade_report_has_them(pair, kind, tmp_path):
    report, _ = kept(pair, tmp_path, FINDERS[kind]())
    (lone,) = alone(kind, report)
    higher = remake(report, SceneOptions(threshold=0.95))
    assert [(one.id, one.outline_of) for one in higher.changes] == [(1, "change"), (2, kind)]
    assert [one.properties() for one in alone(kind, higher)] == [lone.properties()]
    assert remake(report, SceneOptions(min_area=lone.area_m2 + 1)).changes == []


@pytest.mark.slow
def test_a_road_beside_a_house_is_told_by_the_house(tmp_path):
    pair = made(tmp_path, HOUSE, (48, 0, 16, 128, ROAD_BRIGHTNESS))
    (house,) = captioned(pair, RoadCaptioner()).changes
    assert house.caption.startswith("A house and a road were built") and house.outline_of == "change"
    assert house.area_m2 == pytest.approx(20 * 24 * 0.25, rel=0.02)
    # Beside a house the road head is asked by itself.
    for new, told in ((0.25, False), (0.35, True)):
        (house,) = captioned(pair, RoadCaptioner(logit=logit_of(new))).changes
        assert ("road" in house.came) == told


@pytest.mark.slow
@ROADS
def test_a_road_that_the_fact_heads_doubt_is_none(pair, monkeypatch):
    for logit, count in ((0.8, 0), (0.9, 1)):  # 0.69 and 0.71
        monkeypatch.setitem(LOGITS, "came road", logit)
        assert len(alone("road", captioned(pair, RoadCaptioner()))) == count


@ROADS
@pytest.mark.parametrize(("new", "count"), [(0.09, 0), (0.2, 1)])
def test_a_road_is_as_sure_as_both_heads_together(pair, new, count):
    # The fact heads say 0.953.
    roads = alone("road", captioned(pair, RoadCaptioner(logit=logit_of(new))))
    assert len(roads) == count
    for road in roads:
        assert road.change_probability == pytest.approx(np.sqrt(new * 0.953), abs=0.08)
        assert road.change_probability >= ROAD.least_mean
        assert road.caption == "A road was built in the south"


def test_a_road_has_been_there_where_it_was_before(tmp_path):
    (tmp_path / "later").mkdir()
    pair, again = (made(folder, PLACES["road"]) for folder in (tmp_path, tmp_path / "later"))
    assert caption_scene(pair.after, again.after, RoadCaptioner(), SceneOptions()).changes == []


def test_a_clearing_around_a_house_is_told_by_the_house(tmp_path):
    pair = made(tmp_path, (8, 8, 64, 64, CLEARING_BRIGHTNESS), HOUSE)
    (house,) = captioned(pair, ClearingCaptioner()).changes
    assert house.outline_of == "change" and set(house.gone) == {"trees"}


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

    pair = made(tmp_path, (128, 80, 16, 224, 130), (144, 96, 144, 192, 145))
    road, clearing = captioned(pair, Apart()).changes
    assert (road.outline_of, road.came) == ("road", ("road",))
    assert (clearing.outline_of, clearing.came, clearing.gone) == ("clearing", (), ("trees",))
    # Ground of both is the road's alone: the areas add up.
    together = geodesic_area_m2(road.geometry.union(clearing.geometry))
    assert road.area_m2 + clearing.area_m2 == pytest.approx(together, abs=1.0)


@CLEARINGS
@pytest.mark.parametrize(("probability", "count"), [(0.72, 0), (0.95, 1)])
def test_a_clearing_is_sure_as_a_whole(pair, probability, count):
    captioner = ClearingCaptioner(cleared=logit_of(probability))
    assert len(alone("clearing", captioned(pair, captioner))) == count


@CLEARINGS
def test_a_model_that_never_learnt_of_trees_finds_no_clearing(pair):
    captioner = ClearingCaptioner()
    unlearnt = ANSWERS.index("gone trees")
    slopes = tuple(0.0 if number == unlearnt else 1.0 for number in range(len(ANSWERS)))
    captioner.facts.rules = FactRules(slopes, tuple(9.0 * (slope == 0) for slope in slopes))
    assert alone("clearing", captioned(pair, captioner)) == []


@ROADS
@pytest.mark.parametrize(("distance", "outlines"), [(None, [2]), (15.0, [1, 1])])
def test_parts_of_a_road_are_grouped_by_metres(tmp_path, kind, distance, outlines):
    pair = made(tmp_path, (240, 20, 16, 160, ROAD_BRIGHTNESS), (240, 224, 16, 160, ROAD_BRIGHTNESS))
    found = alone(kind, captioned(pair, RoadCaptioner(), group_distance=distance))
    assert [len(shapely.get_parts(change.geometry)) for change in found] == outlines

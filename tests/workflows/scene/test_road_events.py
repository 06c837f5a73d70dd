"""New roads away from all buildings are changes of their own."""

import numpy as np
import pytest
import shapely
from captioned import captioned
from fact_captioner import LOGITS
from lone_captioners import ROAD_BRIGHTNESS, RoadCaptioner
from scene_pairs import make_pair

from rscc.inference.lone_changes import ROAD as ROAD_KIND
from tiling import to_wgs84
from workflows import SceneOptions, caption_scene
from workflows.inspection.event import read_event, read_report
from workflows.inspection.event_text import event_text
from workflows.inspection.evidence import explain_event
from workflows.inspection.remake import remade
from workflows.report.summary import summary_of

# Row, column, height, width, brightness after: a house in the north-west, a road of 160 m in the south.
HOUSE, ROAD = (20, 20, 20, 24, 220), (240, 48, 16, 320, ROAD_BRIGHTNESS)
SIZE = (304, 420)


def roads_of(report):
    return [change for change in report.changes if change.outline_of == "road"]


@pytest.fixture
def pair(tmp_path):
    return make_pair(tmp_path, [HOUSE, ROAD], size=SIZE)


def test_a_road_alone_is_a_change_that_says_so(pair):
    captioner = RoadCaptioner()
    house, road = captioned(pair, captioner).changes
    assert (house.outline_of, road.outline_of) == ("change", "road")
    assert house.caption.startswith("a house is built") and "road" not in house.came
    assert (road.caption, road.came, road.gone) == ("a road is built in the south", ("road",), ())
    assert (road.direction, road.count, road.place, road.caption_confident) == ("appeared", 1, "south", True)
    assert road.score == pytest.approx(1 / (1 + np.exp(-3)), abs=1e-3)
    assert captioner.surveyed == sum(shape[0] for shape in captioner.shapes), "no tile is looked at twice"
    # It crosses several tiles, and is one outline to within half a position.
    truth = to_wgs84(pair.truth[1], "EPSG:32633")
    assert road.geometry.geom_type == "Polygon"
    shared = shapely.intersection(road.geometry, truth).area
    assert shared / truth.area > 0.9 and shared / road.geometry.area > 0.6


def test_a_road_beside_a_house_is_told_by_the_house(tmp_path):
    pair = make_pair(tmp_path, [HOUSE, (48, 0, 16, 128, ROAD_BRIGHTNESS)], size=SIZE)
    (house,) = captioned(pair, RoadCaptioner()).changes
    assert house.caption.startswith("a house and a road are built") and house.outline_of == "change"
    assert house.area_m2 == pytest.approx(20 * 24 * 0.25, rel=0.02)


def test_a_long_road_is_a_change_though_a_house_stands_at_its_end(tmp_path):
    pair = make_pair(tmp_path, [HOUSE, (48, 0, 16, 400, ROAD_BRIGHTNESS)], size=SIZE)
    road, house = sorted(
        captioned(pair, RoadCaptioner()).changes, key=lambda change: change.outline_of, reverse=True
    )
    assert (road.outline_of, road.came, set(house.came)) == ("road", ("road",), {"building", "road"})


@pytest.mark.parametrize(
    ("height", "width", "brightness"), [(16, 48, ROAD_BRIGHTNESS), (16, 320, 110), (2, 320, ROAD_BRIGHTNESS)]
)
def test_what_is_too_little_is_no_road(tmp_path, height, width, brightness):
    pair = make_pair(tmp_path, [(240, 48, height, width, brightness)], size=SIZE)
    assert captioned(pair, RoadCaptioner()).changes == []


def test_a_road_that_the_fact_heads_doubt_is_none(pair, monkeypatch):
    monkeypatch.setitem(LOGITS, "came road", 0.8)  # 0.69
    assert roads_of(captioned(pair, RoadCaptioner())) == []
    monkeypatch.setitem(LOGITS, "came road", 0.9)  # 0.71
    assert len(roads_of(captioned(pair, RoadCaptioner()))) == 1


@pytest.mark.parametrize(("new", "count"), [(0.09, 0), (0.2, 1)])
def test_a_road_is_as_sure_as_both_heads_together(pair, new, count):
    captioner = RoadCaptioner(logit=float(np.log(new / (1 - new))))
    roads = roads_of(captioned(pair, captioner))  # the fact heads say 0.953
    assert len(roads) == count
    for road in roads:
        assert road.change_probability == pytest.approx(np.sqrt(new * 0.953), abs=0.08)
        assert road.change_probability >= ROAD_KIND.least_mean
        assert road.caption == "a road is built in the south"


def test_beside_a_house_the_road_head_is_asked_by_itself(tmp_path):
    beside = make_pair(tmp_path, [HOUSE, (48, 0, 16, 128, ROAD_BRIGHTNESS)], size=SIZE)
    for new, told in ((0.25, False), (0.35, True)):
        (house,) = captioned(beside, RoadCaptioner(logit=float(np.log(new / (1 - new))))).changes
        assert ("road" in house.came) == told


def test_a_road_has_been_there_where_it_was_before(tmp_path):
    pair = make_pair(tmp_path, [ROAD], size=SIZE)
    (later,) = [tmp_path / "later"]
    later.mkdir()
    again = make_pair(later, [ROAD], size=SIZE)
    assert caption_scene(pair.after, again.after, RoadCaptioner(), SceneOptions()).changes == []


@pytest.mark.parametrize(("options", "count"), [({"min_area": 100.0}, 1), ({"min_area": 4000.0}, 0)])
def test_the_smallest_area_is_that_of_roads_too(pair, options, count):
    assert len(roads_of(captioned(pair, RoadCaptioner(), **options))) == count


def test_a_road_outside_of_what_was_asked_for_is_left_out(pair):
    house, road = captioned(pair, RoadCaptioner()).changes
    assert (
        captioned(pair, RoadCaptioner(), bounds=house.geometry.bounds).changes[0].geometry == house.geometry
    )
    assert not roads_of(captioned(pair, RoadCaptioner(), bounds=house.geometry.bounds))
    assert roads_of(captioned(pair, RoadCaptioner(), bounds=road.geometry.bounds))


def test_finished_tiles_keep_their_roads(pair, tmp_path):
    class Stopped(Exception):
        pass

    class Stopping(RoadCaptioner):
        def survey(self, before, after):
            if self.surveyed > 40:
                raise Stopped
            return super().survey(before, after)

    options = {"tile_cache": tmp_path / "cache", "batch_size": 4}
    with pytest.raises(Stopped):
        captioned(pair, Stopping(), **options)
    report, whole = (
        captioned(pair, RoadCaptioner(), **options),
        captioned(pair, RoadCaptioner(), batch_size=4),
    )
    assert report.changes == whole.changes and len(roads_of(whole)) == 1
    assert report.run["resumed_tiles"] > 0


def test_changes_made_anew_keep_their_roads(pair, tmp_path):
    made = caption_scene(
        pair.before, pair.after, RoadCaptioner(), SceneOptions(), probability=tmp_path / "change.tif"
    )
    source = made.write(tmp_path / "r.geojson")
    report = read_report(source)
    (road,) = roads_of(report)
    higher = remade(report, source, {"threshold": 0.95})
    assert [(one.id, one.outline_of) for one in higher.changes] == [(1, "change"), (2, "road")]
    assert roads_of(higher) == [road] and higher.run["remade"]["kept_words"] == len(higher.changes)
    assert roads_of(remade(report, source, {"min_area": road.area_m2 + 1})) == []


def test_a_road_is_explained_and_summed_up(pair, tmp_path):
    report = captioned(pair, RoadCaptioner())
    source = report.write(tmp_path / "r.geojson")
    explained = explain_event(read_event(source, 2), RoadCaptioner())
    assert explained.answers is not None
    came = {(one.kind, one.name): one.stated for one in explained.answers}
    assert came["came", "road"] and ("new near", "road") not in came, "it tells of roads beside a change"
    assert "is new near" not in event_text(explained.as_dict())
    assert "road" in str(summary_of(report.changes))

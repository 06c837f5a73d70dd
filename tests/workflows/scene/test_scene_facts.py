"""The words of a scene's changes state what the map and the fact heads measure."""

import numpy as np
import pytest
from captioned import captioned
from fact_captioner import CELL, FactCaptioner
from lone_captioners import ROAD_BRIGHTNESS, RoadCaptioner
from scene_pairs import make_pair
from scipy import ndimage
from shapely.geometry import MultiPolygon, box

from rscc.inference.fact_heads import ANSWERS
from rscc.inference.roads import NEW
from tiling import TileGrid, Window
from workflows import SceneOptions
from workflows.scene.captions import Neighbours
from workflows.scene.crops import SURROUNDINGS, burnt
from workflows.scene.facts import ROAD_REACH, fact_answers, regions_of, roads_near, views_of
from workflows.scene.run import SceneRun

# Row, column, height, width, brightness after: two in the north-west, one in the south-east.
PLACES = [(20, 20, 20, 24, 220), (50, 20, 20, 24, 220), (260, 380, 20, 24, 220)]
ROAD = ANSWERS.index("around road")


@pytest.fixture
def pair(tmp_path):
    return make_pair(tmp_path, PLACES, size=(300, 420))


def test_a_sentence_counts_the_outlines_and_names_the_part_of_the_map(pair):
    two, one = captioned(pair, FactCaptioner()).changes
    assert (two.count, two.place, one.count, one.place) == (2, "north-west", 1, "south-east")
    assert two.caption.startswith("two houses and a road are built") and "in the north-west" in two.caption
    assert one.caption.startswith("a house and a road are built") and "in the south-east" in one.caption
    assert {change.direction for change in (two, one)} == {"appeared"}
    assert set(two.came) == {"building", "road"} and two.caption_confident


def test_tiles_are_cut_to_whole_positions(pair):
    fine, coarse = (
        captioned(pair, FactCaptioner(tile_size=64, search_size=512, position_size=size, roads=(9.0, 9.0)))
        for size in (16, 32)
    )
    assert [change.caption for change in coarse.changes] == [change.caption for change in fine.changes]
    assert [change.came for change in coarse.changes] == [("building",)] * 2


def test_a_number_that_is_not_sure_is_a_range(tmp_path):
    faint = [*PLACES[:1], (50, 20, 20, 24, 185), *PLACES[2:]]
    two, one = captioned(make_pair(tmp_path, faint, size=(300, 420)), FactCaptioner()).changes
    assert (two.count, two.count_sure, one.count, one.count_sure) == (2, 1, 1, 1)
    assert two.caption.startswith("one or two houses and a road are built")
    assert all("one or two houses" in sentence for sentence in two.alternatives)


class Grounds(FactCaptioner):
    """Positions before ``column`` were open ground; ``trees`` is the logit that they are gone from others."""

    def __init__(self, column, trees):
        super().__init__(tile_size=512)
        self.column, self.trees = column, trees

    def survey(self, before, after):
        found, logits = super().survey(before, after)
        bare, gone, around = (
            ANSWERS.index(name) for name in ("around bare ground", "gone trees", "around trees")
        )
        logits[:, bare, :, : self.column] = 9.0
        logits[:, gone, :, self.column :] = self.trees
        logits[:, around] = 9.0
        return found, logits


@pytest.mark.parametrize(
    ("column", "trees", "caption", "covers"),
    [
        (0, 0.0, "{} in the north-west where there were trees", ["trees"]),
        (0, -0.6, "{} in the north-west where there were trees", ["trees"]),  # 0.35 of the ground
        (0, -0.8, "{} near trees in the north-west", []),  # 0.31: the others still stand
        (9, 0.0, "{} near trees in the north-west where there was open ground", ["open ground"]),
        (2, 0.3, "{} in the north-west where there was open ground and trees", ["open ground", "trees"]),
    ],
)
def test_the_ground_of_the_outlines_tells_what_covered_it(tmp_path, column, trees, caption, covers):
    # 10 columns in the second of the positions, which have 16 pixels, 18 in the third and the fourth.
    made = make_pair(tmp_path, [(20, 22, 20, 28, 220)], size=(300, 420))
    (change,) = captioned(made, Grounds(column, trees)).changes
    assert change.caption == caption.format("a house and a road are built")
    assert list(change.before_cover) == covers


@pytest.mark.parametrize(
    ("roads", "words"),
    [
        ((-5.0, 5.0), "a house and a road are built"),
        ((5.0, 5.0), "a house is built beside the road"),
        ((-5.0, -5.0), "a house is built"),
        ((5.0, -5.0), "a house is built"),
    ],
)
def test_a_road_is_stated_where_one_is_found(pair, roads, words):
    captioner = FactCaptioner(roads=roads)
    two, one = (each for each in captioned(pair, captioner).changes if each.outline_of == "change")
    assert one.caption.startswith(f"{words} in the south-east")
    assert ("road" in one.came) == ("road" in two.came) == (roads == (-5.0, 5.0))
    assert captioner.surveyed == captioner.seen


def test_roads_are_looked_for_near_a_change_alone(pair):
    class Banded(FactCaptioner):
        def survey(self, before, after):
            found, logits = super().survey(before, after)
            logits[:, -1, :, : logits.shape[-1] // 2] = -5.0
            return found, logits

    captioner = Banded(roads=(-5.0, 5.0), tile_size=256)
    with SceneRun.open(pair.before, pair.after, captioner, SceneOptions()) as run:
        (tile,) = [each.window for each in run.grid][:1]
        middle = tile.col_off + tile.width // 2
        near, far = (
            MultiPolygon([box(right - 20, 20, right, 40)])
            for right in (middle - ROAD_REACH / 2, middle - 2 * ROAD_REACH)
        )
        found = roads_near(run, [near, far])
    assert [one.standing > 0.9 for one in found] == [True, False]
    assert found[1].new < NEW


def test_without_facts_the_decoder_speaks_and_their_fields_stay_empty(pair):
    for change in captioned(pair, FactCaptioner(), ground=False).changes:
        assert change.caption.startswith("brightness") and change.direction is None and change.came == ()


def test_words_cost_no_tile_that_the_search_has_not_seen(pair):
    captioner = FactCaptioner()
    report = captioned(pair, captioner)
    shown = captioner.seen
    assert captioner.surveyed == shown == report.run["tiling"]["tiles"]
    assert not captioner.crops, "no crop is described"


def test_a_change_without_a_sure_object_has_a_lower_score(pair, monkeypatch):
    sure = captioned(pair, FactCaptioner()).changes
    monkeypatch.setattr("workflows.scene.events.SURE", 2.0)
    monkeypatch.setattr("workflows.scene.events.Event.probability", property(lambda event: 0.8))
    doubtful = captioned(pair, FactCaptioner()).changes
    assert {one.count_sure for one in doubtful} == {0} and all(one.count_sure for one in sure)
    for one, other in zip(sure, doubtful, strict=True):
        assert other.score == pytest.approx(0.8 * one.score, abs=1e-3) and one.score > 0.1


def test_tiles_that_were_finished_without_facts_are_asked_anew(pair, tmp_path):
    first, second, third = (
        captioned(pair, FactCaptioner(), tile_cache=tmp_path / "cache", ground=ground).run["resumed_tiles"]
        for ground in (False, True, True)
    )
    assert first == second == 0 < third


@pytest.mark.parametrize("kind", [FactCaptioner, RoadCaptioner])
def test_finished_tiles_keep_their_facts_and_roads(tmp_path, kind):
    class Stopped(Exception):
        pass

    class Stopping(kind):
        def survey(self, before, after):
            if self.surveyed > 20:
                raise Stopped
            return super().survey(before, after)

    pair = make_pair(tmp_path, [*PLACES, (150, 48, 16, 320, ROAD_BRIGHTNESS)], size=(300, 420))
    options = {"tile_cache": tmp_path / "cache", "batch_size": 4}
    with pytest.raises(Stopped):
        captioned(pair, Stopping(), **options)
    resumed, whole = kind(), kind()
    report, expected = captioned(pair, resumed, **options), captioned(pair, whole, batch_size=4)
    assert report.changes == expected.changes
    assert any(change.outline_of == "road" for change in report.changes) == (kind is RoadCaptioner)
    assert {change.arrangement for change in report.changes if change.outline_of == "road"} <= {None}
    assert 0 < report.run["resumed_tiles"] == whole.surveyed - resumed.surveyed


def test_what_is_asked_about_is_the_change_and_its_surroundings_without_other_changes():
    own, other = box(100, 40, 120, 52), box(110, 60, 124, 74)
    neighbours = Neighbours([MultiPolygon([own]), MultiPolygon([other])])
    window = Window(64, 0, 96, 96)
    away = ndimage.distance_transform_edt(~burnt([own], window))
    expected = (away <= SURROUNDINGS) & ~burnt([other], window), away == 0
    np.testing.assert_array_equal(regions_of(neighbours, 0, window), expected)
    assert not regions_of(neighbours, 0, Window(500, 500, 32, 32)).any()


@pytest.mark.parametrize(
    "outline", [box(100, 40, 120, 52), box(5, 5, 295, 215), box(0, 60, 9, 61), box(55, 3, 200, 8)]
)
def test_every_pixel_around_a_change_is_answered_for_by_one_tile_that_sees_it(outline):
    grid = TileGrid(300, 220, tile=64, overlap=16, anchor=(7, 3))
    tiles = {tile.window for tile in grid}
    answered = np.zeros((220, 300), int)
    views = list(views_of(grid, MultiPolygon([outline])))
    for tile, part in views:
        assert tile in tiles and part.intersection(tile) == part
        answered[part.slices(Window(0, 0, 300, 220))] += 1
    left, top, right, bottom = outline.buffer(SURROUNDINGS, join_style="mitre").bounds
    expected = np.zeros_like(answered)
    expected[max(0, int(top)) : int(bottom), max(0, int(left)) : int(right)] = 1
    np.testing.assert_array_equal(answered, expected)
    small = max(right - left, bottom - top) <= 48
    assert (len(views) == 1) == small


def test_a_region_has_the_mean_that_leans_to_the_largest_of_its_positions(pair):
    # As large as no tile, on ground of the brightness that the pair has.
    outline = MultiPolygon([box(150, 100, 330, 240)])
    captioner = FactCaptioner()
    with SceneRun.open(pair.before, pair.after, captioner, SceneOptions()) as run:
        ((logits, _),) = fact_answers(run, [outline], [])
        after = run.pair.read(Window(96, 48, 288, 240))[1]
    assert captioner.surveyed > 1
    cells = after.mean(0).reshape(15, CELL, 18, CELL).mean((1, 3)) / 100
    assert cells.min() < logits[ROAD] < cells.max() and logits[ROAD] == pytest.approx(1.01, abs=0.01)

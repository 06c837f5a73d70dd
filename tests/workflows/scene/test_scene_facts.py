"""The words of a scene's changes state what the map and the fact heads measure."""

from contextlib import contextmanager

import pytest
from captioners import CELL, FactCaptioner, captioned
from scene_pairs import make_pair
from shapely.geometry import MultiPolygon, box

from rscc.facts.answers import ANSWERS
from rscc.facts.road_head import NEW
from tiling import Window
from workflows import SceneOptions
from workflows.scene.evidence import ROAD_REACH, evidence_of
from workflows.scene.opening import open_pair
from workflows.scene.pixels import Neighbours
from workflows.scene.run import detected

# Row, column, height, width, brightness after: two in the north-west, one in the south-east.
PLACES = [(20, 20, 20, 24, 220), (50, 20, 20, 24, 220), (260, 380, 20, 24, 220)]
ROAD = ANSWERS.index("around road")


@contextmanager
def maps_of_pair(pair, model):
    with (
        open_pair(pair.before, pair.after, model.card, SceneOptions()) as opened,
        detected(opened, model) as (maps, _, _),
    ):
        yield maps, opened


@pytest.fixture
def pair(tmp_path):
    return make_pair(tmp_path, PLACES, size=(300, 420))


def test_a_sentence_counts_the_outlines_and_names_the_part_of_the_map(pair):
    two, one = captioned(pair, FactCaptioner()).changes
    assert (two.count, two.place, one.count, one.place) == (2, "north-west", 1, "south-east")
    assert two.caption.startswith("Two houses and a road were built") and "in the north-west" in two.caption
    assert one.caption.startswith("A house and a road were built") and "in the south-east" in one.caption
    assert {change.direction for change in (two, one)} == {"appeared"}
    assert set(two.came) == {"building", "road"} and two.caption_confident


@pytest.mark.slow
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
    assert two.caption.startswith("One or two houses and a road were built")
    assert all("one or two houses" in sentence.lower() for sentence in two.alternatives)


class Grounds(FactCaptioner):
    """Positions before ``column`` were open ground; ``trees`` is the logit that they are gone from others."""

    def __init__(self, column, trees):
        super().__init__(tile_size=128)
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
    made = make_pair(tmp_path, [(20, 22, 20, 28, 220)], size=(112, 128))
    (change,) = captioned(made, Grounds(column, trees)).changes
    assert change.caption == caption.format("A house and a road were built")
    assert list(change.before_cover) == covers


@pytest.mark.slow
@pytest.mark.parametrize(
    ("roads", "words"),
    [
        ((-5.0, 5.0), "A house and a road were built"),
        ((5.0, 5.0), "A house was built beside the road"),
        ((-5.0, -5.0), "A house was built"),
        ((5.0, -5.0), "A house was built"),
    ],
)
def test_a_road_is_stated_where_one_is_found(pair, roads, words):
    captioner = FactCaptioner(roads=roads)
    two, one = (each for each in captioned(pair, captioner).changes if each.outline_of == "change")
    assert one.caption.startswith(f"{words} in the south-east")
    assert ("road" in one.came) == ("road" in two.came) == (roads == (-5.0, 5.0))
    assert captioner.surveyed == captioner.seen


@pytest.mark.slow
def test_roads_are_looked_for_near_a_change_alone(pair):
    class Banded(FactCaptioner):
        def survey(self, before, after):
            found, logits = super().survey(before, after)
            logits[:, -1, :, : logits.shape[-1] // 2] = -5.0
            return found, logits

    captioner = Banded(roads=(-5.0, 5.0), tile_size=256)
    with maps_of_pair(pair, captioner) as (maps, opened):
        (tile,) = [each.window for each in opened.grid][:1]
        middle = tile.col_off + tile.width // 2
        outlines = [
            MultiPolygon([box(right - 20, 20, right, 40)])
            for right in (middle - ROAD_REACH / 2, middle - 2 * ROAD_REACH)
        ]
        found = [one.roads for one in evidence_of(outlines, maps, [0, 1], with_roads=True)]
    assert [one.standing > 0.9 for one in found] == [True, False]
    assert found[1].new < NEW


@pytest.mark.slow
def test_a_change_without_a_sure_object_has_a_lower_score(pair, monkeypatch):
    sure = captioned(pair, FactCaptioner()).changes
    monkeypatch.setattr("workflows.scene.found.SURE", 2.0)
    monkeypatch.setattr("workflows.scene.found.FoundChange.probability", property(lambda event: 0.8))
    doubtful = captioned(pair, FactCaptioner()).changes
    assert {one.count_sure for one in doubtful} == {0} and all(one.count_sure for one in sure)
    for one, other in zip(sure, doubtful, strict=True):
        assert other.score == pytest.approx(0.8 * one.score, abs=1e-3) and one.score > 0.1


@pytest.mark.slow
def test_a_region_has_the_mean_that_leans_to_the_largest_of_its_positions(pair):
    # As large as no tile, on ground of the brightness that the pair has.
    outline = MultiPolygon([box(150, 100, 330, 240)])
    with maps_of_pair(pair, FactCaptioner()) as (maps, opened):
        (found,) = evidence_of([outline], maps, [0])
        after = opened.pair.read(Window(96, 48, 288, 240))[1]
    cells = after.mean(0).reshape(15, CELL, 18, CELL).mean((1, 3)) / 100
    assert cells.min() < found.logits[ROAD] < cells.max()
    assert found.logits[ROAD] == pytest.approx(1.01, abs=0.01)


def test_other_changes_are_no_surroundings(pair):
    own, other = (MultiPolygon([box(*edges)]) for edges in ((20, 20, 44, 40), (20, 50, 44, 70)))
    with maps_of_pair(pair, FactCaptioner()) as (maps, _):
        alone, beside = (next(evidence_of(some, maps, [0])) for some in ([own], [own, other]))
    assert beside.logits[ROAD] < alone.logits[ROAD]
    assert beside.covers == alone.covers


class Hall(FactCaptioner):
    """A building came at the positions within the first ``side`` rows and columns, whatever is outlined."""

    def __init__(self, side):
        super().__init__(tile_size=128)
        self.side = side

    def survey(self, before, after):
        found, logits = super().survey(before, after)
        logits[:, ANSWERS.index("came building"), : self.side, : self.side] = 3.0
        return found, logits


@pytest.mark.parametrize(
    ("side", "count", "noun"),
    [(3, 2, "Two houses"), (5, 1, "A building"), (8, 1, "A large building")],
)
def test_fragments_of_one_roof_are_one_building_of_its_size(tmp_path, side, count, noun):
    fragments = make_pair(tmp_path, [(20, 20, 16, 20, 240), (20, 44, 16, 20, 240)], size=(128, 128))
    (change,) = captioned(fragments, Hall(side)).changes
    assert (change.count, change.count_sure) == (count, count)
    assert change.caption.startswith(noun)


def test_a_pixel_that_two_outlines_touch_belongs_to_the_one_that_is_asked_about():
    outlines = [MultiPolygon([box(0, 0, 4.5, 4)]), MultiPolygon([box(4.5, 0, 9, 4)])]
    for number, width in ((0, 5), (1, 5)):
        own, others = Neighbours(outlines).masks(number, Window(0, 0, 9, 4))
        assert not (own & others).any() and (own | others).all() and own[0].sum() == width

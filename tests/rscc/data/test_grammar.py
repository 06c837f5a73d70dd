import numpy as np
import pytest
from synthesis_fixture import NUMBERS, number_word

from rscc.data.pairs import flip_array, flip_words
from rscc.data.synthesis.grammar import NOUNS, Grammar, describe_mask
from rscc.errors import DatasetLayoutInvalid

CAPTIONS = (
    "a house appears in the upper left corner of the scene",
    "a house is built on the left",
    "a large building has been built at the top of the scene",
    "two villas are constructed at the bottom",
    "some houses are built in the middle of the scene",
    "many houses appear",
    "a row of villas are built on the right side",
    "several small buildings show up",
    "the trees disappear and a shed is removed",
    "many trees are removed in the corner of the scene",
)


def said(grammar: Grammar, buildings, seeds: int, **values) -> list[str]:
    return [s for i in range(seeds) for s in grammar.sentences(buildings, np.random.default_rng(i), **values)]


@pytest.fixture(scope="module")
def grammar() -> Grammar:
    return Grammar.learn(CAPTIONS)


def squares(*places: tuple[int, int], side: int = 20, size: int = 256) -> np.ndarray:
    mask = np.zeros((size, size), bool)
    for top, left in places:
        mask[top : top + side, left : left + side] = True
    return mask


def scattered(number: int) -> np.ndarray:
    rng = np.random.default_rng(number)
    cells = rng.permutation(36)[:number]
    return squares(*((8 + 41 * int(c // 6), 8 + 41 * int(c % 6)) for c in cells))


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5, 7, 9, 12, 20, 30])
@pytest.mark.parametrize("removed", [False, True])
def test_sentences_agree_with_the_number(grammar: Grammar, number: int, removed: bool) -> None:
    buildings = describe_mask(scattered(number))
    assert buildings.count == number
    for sentence in said(grammar, buildings, 8, removed=removed):
        least, most = NUMBERS[number_word(sentence)]
        assert least <= number <= most, sentence
        nouns = set(NOUNS if number == 1 else NOUNS.values())
        assert nouns & set(sentence.split()), sentence
        assert any(word in sentence for word in ("removed", "disappear")) == removed, sentence
        assert not {"is", "appears", "has"} & set(sentence.split()) or number == 1, sentence


@pytest.mark.parametrize(
    ("place", "regions"),
    [
        ((10, 10), ("top", "left", "top left", "corner")),
        ((10, 220), ("top", "right", "top right", "corner")),
        ((220, 118), ("bottom",)),
        ((118, 5), ("left",)),
        ((118, 118), ("center",)),
        ((118, 150), ()),
    ],
)
def test_places_are_said_only_when_all_is_there(grammar: Grammar, place, regions) -> None:
    buildings = describe_mask(squares(place))
    assert buildings.regions == regions
    words = {word for s in said(grammar, buildings, 40) for word in s.replace("-", " ").split()}
    named = words & {"top", "bottom", "left", "right", "upper", "lower", "middle", "corner"}
    allowed = {word for region in regions for word in region.split()}
    allowed |= {"upper"} if "top" in allowed else set()
    allowed |= {"lower"} if "bottom" in allowed else set()
    allowed |= {"middle"} if "center" in allowed else set()
    assert named <= allowed
    assert bool(named) == bool(regions)


def test_a_building_far_from_the_others_takes_the_place_away() -> None:
    assert describe_mask(squares((10, 10), (12, 60))).regions[:1] == ("top",)
    assert describe_mask(squares((10, 10), (220, 220))).regions == ()


def test_regions_turn_with_the_image() -> None:
    mask = squares((10, 20), (40, 30), (20, 60))
    for flip in ("horizontal", "vertical", "both"):
        turned = tuple(flip_words(region, flip) for region in describe_mask(mask).regions)
        assert set(describe_mask(flip_array(mask, flip)).regions) == set(turned)


def test_slivers_do_not_count_and_corners_touch() -> None:
    mask = squares((40, 40))
    mask[100:104, 100:104] = True
    mask[60:80, 60:80] = True  # touches the first at a corner
    found = describe_mask(mask)
    assert (found.count, found.areas) == (1, (800.0,))
    assert describe_mask(np.zeros((64, 64), bool)).count == 0


def test_a_row_asks_for_a_line(grammar: Grammar) -> None:
    line = describe_mask(squares(*((100, 10 + 40 * i) for i in range(5))))
    bend = describe_mask(squares((10, 10), (100, 50), (10, 90), (100, 130), (10, 170)))
    assert line.in_line and not bend.in_line

    def rows(buildings):
        return any(s.startswith("a row") for s in said(grammar, buildings, 30))

    assert rows(line) and not rows(bend)


def test_sizes_are_said_of_what_has_them(grammar: Grammar) -> None:
    def words(side: int) -> set[str]:
        buildings = describe_mask(squares((90, 90), side=side))
        return {word for s in said(grammar, buildings, 40) for word in s.split()}

    assert "large" in words(80) and not {"small", "house", "villa"} & words(80)
    assert "small" in words(12) and "large" not in words(12)
    assert not {"small", "large"} & words(25)


def test_frequencies_and_place_phrases_in_every_turn_come_from_the_captions(grammar: Grammar) -> None:
    assert "in the lower right corner of the scene" in grammar.places["bottom right"]
    assert grammar.place_share["one"] == 1.0
    often = Grammar.learn(CAPTIONS + ("two villas are erected",) * 50)
    assert often.nouns["villa"] == 52
    sentences = said(often, describe_mask(scattered(2)), 20)
    assert np.mean(["villas" in s for s in sentences]) > 0.5
    assert any("erected" in s for s in sentences)
    # A corner that is not told which one is true of every corner, a side corner of none that can be checked.
    corner = Grammar.learn((*CAPTIONS, "a house appears at the top corner"))
    assert corner.places["top"].keys() == {"at the top of the scene", "at the top"}


def test_sentences_differ_and_repeat_with_the_seed(grammar: Grammar) -> None:
    buildings = describe_mask(scattered(4))
    first = grammar.sentences(buildings, np.random.default_rng(3))
    assert len(first) == len(set(first)) == 5
    assert first == grammar.sentences(buildings, np.random.default_rng(3))


def test_captions_without_buildings_teach_nothing() -> None:
    with pytest.raises(DatasetLayoutInvalid, match="too few sentences"):
        Grammar.learn(("the lake dries up", "a house appears"))
    assert not Grammar.learn(("a house appears", "two houses appear")).can_remove()

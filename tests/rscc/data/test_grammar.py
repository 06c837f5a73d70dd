import numpy as np
import pytest
from datasets import NUMBERS, number_word

from rscc.data.synthesis.grammar import LARGE, NOUNS, Grammar, describe_mask

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


def squares(*places: tuple[int, int]) -> np.ndarray:
    mask = np.zeros((256, 256), bool)
    for top, left in places:
        mask[top : top + 20, left : left + 20] = True
    return mask


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5, 7, 9, 12, 20, 30])
@pytest.mark.parametrize("removed", [False, True])
def test_sentences_agree_with_the_number(grammar: Grammar, number: int, removed: bool) -> None:
    cells = np.random.default_rng(number).permutation(36)[:number]
    buildings = describe_mask(squares(*((8 + 41 * int(c // 6), 8 + 41 * int(c % 6)) for c in cells)))
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


def test_several_buildings_are_large_where_all_of_them_are(grammar: Grammar) -> None:
    one, few = np.zeros((256, 256), bool), squares((150, 20), (150, 120), (220, 60))
    one[10:120, 10:120] = True
    for mask, are_large in ((one, True), (one | few, False)):
        words = " ".join(said(grammar, describe_mask(mask), 60)).split()
        assert LARGE.isdisjoint(words) is not are_large

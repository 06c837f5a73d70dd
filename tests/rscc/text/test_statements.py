"""What sentences state: what came and is gone, how many buildings, where in the picture."""

import pytest

from rscc.text.statements import read_statement, without_place

CASES = [
    # sentence, came, gone, number, places
    ("a bungalow has been built on the meadow", "building", "", "one", ""),
    ("another cottage appears beside two large mansions", "building", "", "one", ""),
    ("two sheds are put up behind the factory", "building", "", "two", ""),
    ("a pair of cabins are built in the forest", "building", "", "two", ""),
    ("seven bungalows are erected along the lane", "building", "", "some", ""),
    ("a small group of houses has appeared on the bareland", "building", "", "some", ""),
    ("a number of mansions have been built", "building", "", "some", ""),
    ("a dozen cottages are built around a new square", "building", "", "many", ""),
    ("three neat rows of bungalows are constructed", "building", "", "many", ""),
    ("about 110 houses and a road are built where there was woodland", "building road", "", "many", ""),
    ("4 villas appear", "building", "", "some", ""),
    ("mansions are built on the hill", "building", "", None, ""),
    ("some part of a hall and part of a house show up", "building", "", "one", ""),
    ("a lane with five cottages beside it is built", "building road", "", "some", ""),
    ("a parking lot beside the building is completed", "parking lot", "", None, ""),
    ("a footpath is laid near some houses", "road", "", None, ""),
    ("the old cottage is pulled down", "", "building", "one", ""),
    ("three of the huts have been demolished", "", "building", "some", ""),
    ("one of the mansions in the corner is torn down", "", "building", "one", "corner"),
    ("one neat row of villas is constructed", "building", "", "some", ""),
    ("one cottage is demolished and many villas are built to replace it", "building", "building", "many", ""),
    ("the woods are replaced by a highway", "road", "trees", None, ""),
    ("four villas replace the brushwood", "building", "trees", "some", ""),
    ("a running track appears in place of the orchard", "playground", "farmland", None, ""),
    ("the shrubs turn into bare ground", "bare ground", "trees", None, ""),
    ("most of the trees are felled", "", "trees", None, ""),
    ("bushes are planted around the villas", "trees", "", None, ""),
    ("a bridge is built in the lower part of the picture", "road", "", None, "bottom"),
    ("a warehouse appears in the upper right corner", "building", "", "one", "top right corner"),
    ("two mansions are built on the left edge of the scene", "building", "", "two", "left edge"),
    ("in the centre a pond appears and a barn stands on the left", "water", "", None, "middle left"),
    ("a shed appears on the lawn below", "building", "", "one", "bottom"),
    ("a shed appears below the crossroad", "building", "", "one", ""),
    ("a lane with a right angle and a hut are built", "building road", "", "one", ""),
    ("a villa is built on the right side of the road", "building", "", "one", ""),
    ("cottages are built at the corner of the street", "building", "", None, ""),
    ("a cabin is built in the middle of the forest", "building", "", "one", ""),
    ("nothing has changed", "", "", None, ""),
    ("the scene looks the same as before", "", "", None, ""),
]


def words(text: str) -> set[str]:
    """Split names at spaces; those of two words stand in the table as they are."""
    for name in ("parking lot", "bare ground"):
        if name in text:
            return {name, *text.replace(name, "").split()}
    return set(text.split())


@pytest.mark.parametrize(("sentence", "came", "gone", "number", "places"), CASES)
def test_a_sentence_is_read(sentence, came, gone, number, places) -> None:
    found = read_statement(sentence)
    assert (found.came, found.gone) == (words(came), words(gone))
    assert found.number == number
    assert found.places == words(places)


@pytest.mark.parametrize(
    ("sentence", "rest"),
    [
        ("a shed is built at the top right corner of the scene", "a shed is built"),
        ("two cottages appear beside the lane on the left", "two cottages appear beside the lane"),
        ("an orchard is cleared in the lower-left part of the image", "an orchard is cleared"),
        ("some barns appear in the top and the bottom of the picture", "some barns appear"),
        ("a barn is built, at the centre", "a barn is built"),
        ("a barn is built at the corner of the lane", "a barn is built at the corner of the lane"),
        ("a lane is built on the left side of the hill", "a lane is built on the left side of the hill"),
        ("barns on the left are gone", "barns on the left are gone"),
    ],
)
def test_words_of_place_at_the_end_can_be_left_out(sentence, rest) -> None:
    assert without_place(sentence) == rest

import pytest

from rscc.text.parsing import PARSERS, extract_segments, frequent_entities, noun_phrases, subjects

spacy = pytest.importorskip("spacy")
needs_parser = pytest.mark.skipif(
    not any(spacy.util.is_package(name) for name in PARSERS), reason="no English parser is installed"
)


@needs_parser
@pytest.mark.parametrize(
    ("caption", "found"),
    [
        ("two villas and a road are built", ["villas", "road"]),
        ("many small trees are removed", ["small trees"]),
        ("a new parking lot appears beside the road", ["new parking lot"]),
        ("there is no difference", ["difference"]),
        ("the scene is the same as before", ["scene"]),
        ("rows of houses and a road appear", ["houses", "road"]),
        ("some of the trees are removed", ["trees"]),
        ("the roof of the house is gone", ["roof"]),
        ("a t-shaped road is built", ["t-shaped road"]),
        ("houses appear and houses vanish", ["houses"]),
        ("nothing has changed", []),
        ("it has been replaced by houses", []),
    ],
)
def test_subjects_are_things_without_determiner_number_or_quantifier(caption, found) -> None:
    assert subjects([caption]) == [found]


@needs_parser
def test_noun_phrases_are_all_things_that_a_caption_names() -> None:
    captions = ["the roof of the house is gone", "many trees give way to a row of large villas", "it is gone"]
    assert noun_phrases(captions) == [["roof", "house"], ["trees", "way", "large villas"], []]


@needs_parser
def test_every_subject_is_a_noun_phrase() -> None:
    captions = ["two villas and a road are built", "rows of houses replace the bare land", "no change occurs"]
    for segments in extract_segments(captions):
        assert segments.subjects
        assert set(segments.subjects) <= set(segments.entities)


def test_frequent_entities_are_counted_by_caption() -> None:
    phrases = [["road", "road", "villa"], ["road"], ["villa", "tree"], ["lake"], []]
    assert frequent_entities(phrases) == ("road", "villa", "lake", "tree")
    assert frequent_entities(phrases, 3) == ("road", "villa", "lake")
    assert frequent_entities(phrases, least_count=2) == ("road", "villa")
    assert frequent_entities(phrases, 1, 2) == ("road",)
    assert frequent_entities([]) == ()

import pytest

from rscc.errors import ExtraNotInstalled, WeightsNotFound
from rscc.text import parsing
from rscc.text.no_change import NO_CHANGE_SENTENCES
from rscc.text.parsing import (
    PARSERS,
    Segments,
    extract_segments,
    frequent_entities,
    load_parser,
    noun_phrases,
    subjects,
)

spacy = pytest.importorskip("spacy")
if not any(spacy.util.is_package(name) for name in PARSERS):
    pytest.skip("no English parser is installed", allow_module_level=True)


@pytest.mark.parametrize(
    ("caption", "nouns", "verbs"),
    [
        ("several villas are built on the bare land", ("several villas", "the bare land"), ("are built",)),
        (
            "many trees are removed and two large buildings have been neatly constructed along the road",
            ("many trees", "two large buildings", "the road"),
            ("are removed", "have been neatly constructed"),
        ),
        (
            "some trees near the road are cut down and houses stand along the road",
            ("some trees", "the road", "houses"),
            ("are cut down", "stand"),
        ),
        # A subject makes a verb of a word that is tagged as a noun.
        ("several houses on the grass disappear", None, ("disappear",)),
        ("there is no difference", ("no difference",), ("is",)),
        ("the two scenes seem identical", ("the two scenes",), ("seem identical",)),
        ("two intersecting roads appear", ("two intersecting roads",), ("appear",)),
        ("a new road appears in the middle", ("a new road", "the middle"), ("appears",)),
        ("many trees are replaced and a house is built beside it", ("many trees", "a house"), None),
    ],
)
def test_phrases_come_with_their_adjectives_adverbs_and_auxiliaries(caption, nouns, verbs) -> None:
    (segments,) = extract_segments([caption])
    assert nouns is None or segments.nouns == nouns
    assert verbs is None or segments.verbs == verbs


def test_segments_are_joined_by_and() -> None:
    segments = Segments(("a road", "two villas"), ("are built", "appear"))
    assert segments.noun_text == "a road and two villas"
    assert segments.verb_text == "are built and appear"
    assert Segments((), ()).noun_text == ""


def test_every_no_change_sentence_has_both_kinds_of_segment() -> None:
    for segments in extract_segments(NO_CHANGE_SENTENCES):
        assert segments.nouns
        assert segments.verbs


class CountingParser:
    """Counts how often a caption is parsed."""

    def __init__(self) -> None:
        self.parser = load_parser()
        self.parsed: list[str] = []

    def pipe(self, texts, batch_size):
        self.parsed.extend(texts)
        return self.parser.pipe(texts, batch_size=batch_size)


def test_a_caption_is_parsed_once_and_batches_equal_single_readings(monkeypatch) -> None:
    parser = CountingParser()
    monkeypatch.setattr(parsing, "load_parser", lambda: parser)
    monkeypatch.setattr(parsing, "_READ", {})
    captions = ["a road is built", "trees disappear", "a road is built"]
    first = extract_segments(captions)
    assert first[0] == first[2] != first[1]
    assert parser.parsed == ["a road is built", "trees disappear"]
    extract_segments(["trees disappear"])
    assert len(parser.parsed) == 2
    for caption, segments in zip(captions, first, strict=True):
        parsing._READ.clear()
        assert extract_segments([caption]) == [segments]


def test_a_missing_parser_is_named_with_the_remedy(monkeypatch) -> None:
    with pytest.raises(WeightsNotFound, match=r"no_such_parser.*pip install 'rscc\[train\]'"):
        load_parser(["no_such_parser"])
    monkeypatch.setitem(__import__("sys").modules, "spacy", None)
    assert extract_segments([]) == [], "no caption needs no parser"
    with pytest.raises(ExtraNotInstalled, match="needs spacy"):
        load_parser()


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


def test_noun_phrases_are_all_things_that_a_caption_names() -> None:
    captions = ["the roof of the house is gone", "many trees give way to a row of large villas", "it is gone"]
    assert noun_phrases(captions) == [["roof", "house"], ["trees", "way", "large villas"], []]


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


@pytest.mark.real
def test_captions_of_the_validation_split_have_segments(shared_data) -> None:
    levir_cc = pytest.importorskip("rscc.data.benchmarks.levir_cc")
    records = levir_cc.LevirCC(shared_data / "data" / "levir_cc", "val").records
    captions = sorted({caption for record in records for caption in record.captions})
    segments = extract_segments(captions)
    assert all(one.nouns for one in segments)
    without_verb = sum(not one.verbs for one in segments)
    assert without_verb <= 0.02 * len(captions)

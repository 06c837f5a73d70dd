import gzip
import json
from collections import Counter

import pytest

pytest.importorskip("spacy")

from rscc.text.object_classes import (
    KINDS,
    OBJECT_CLASSES,
    OTHER_KIND,
    classes_of,
    count_hallucinations,
    kinds_of_change,
    named_objects,
    singulars,
    unnamed_by_references,
)
from rscc.text.parsing import extract_segments

LEAST = 10

_NOT_OBJECTS = (
    "scene image picture screen view change difference appearance disappearance construct expansion "
    "corner side edge end top bottom left right middle center centre front half part quarter place area "
    "site location position section distance region zone surroundings level direction one other rest "
    "number quantity majority plenty group cluster row line piece pair set lot couple stretch kind "
    "shape circle ring arc angle cross t turn turning curve triangle zigzag width size medium cement "
    "concrete asphalt dirt storage swimming basketball football baseball traffic replace disappear "
    "disappears appear appears vanish vanishes show shows turns greener denser"
)
NOT_OBJECTS = frozenset(_NOT_OBJECTS.split(" "))
"""Nouns, or words that the parser takes for nouns, which name no object."""


def is_listed(noun: str) -> bool:
    """Whether a noun is in a class, or known to be no object, as itself or as what it is the plural of."""
    return bool(classes_of(noun)) or not NOT_OBJECTS.isdisjoint(singulars(noun))


@pytest.mark.parametrize(
    ("caption", "classes"),
    [
        ("two villas are built along the street", {"building", "road"}),
        ("the residential area has been enlarged", {"building"}),
        ("a large parking lot appears in the top left corner", {"parking lot"}),
        ("some parkings are built", {"parking lot"}),
        ("a car park with many cars appears", {"parking lot", "car"}),
        ("a swimming pool is built in the yard", {"pool", "yard"}),
        ("rows of bushes are removed from the meadow", {"trees", "grass"}),
        ("the villa area replaces the bareland", {"building", "bare ground"}),
        ("the factories are demolished", {"building"}),
        ("there is no difference", set()),
    ],
)
def test_words_name_classes(caption: str, classes: set[str]) -> None:
    assert named_objects([caption])[0].classes == classes


def test_what_is_on_no_list_names_nothing() -> None:
    found = named_objects(["a giraffe appears beside the house in the corner"])[0]
    assert found.words == (("house", ("building",)),)


def test_a_word_may_stand_in_several_classes() -> None:
    assert classes_of("construction") == ("building", "construction site")
    assert classes_of("construction site") == ("construction site",)
    assert {"road", "playground"} == set(classes_of("tracks"))


@pytest.mark.parametrize("words", OBJECT_CLASSES.values())
def test_no_word_is_both_object_and_none(words: str) -> None:
    assert NOT_OBJECTS.isdisjoint(words.split(", "))
    assert len(set(words.split(", "))) == len(words.split(", "))


def test_kinds_are_of_known_classes() -> None:
    named = [name for names in KINDS.values() for name in names]
    assert set(named) <= OBJECT_CLASSES.keys()
    assert len(set(named)) == len(named)


@pytest.mark.parametrize(
    ("caption", "references", "wrong"),
    [
        # Synonyms are no hallucination, other objects are.
        ("many houses are built along the road", ("some villas are built on the lawn", "a path appears"), ()),
        (
            "many houses and a lake appear beside a pond",
            ("some villas are built", "a path appears"),
            ("water",),
        ),
        ("a house is built among trees", ("some villas are built on the lawn",), ("trees",)),
        # A word of several classes is wrong only without any of them.
        ("a construction appears", ("a house appears",), ()),
        ("a house appears", ("the construction is completed",), ()),
        ("plants appear", ("some grass grows",), ()),
        ("plants appear", ("a road appears",), ("trees",)),
        # Where nothing is named everything is wrong.
        ("a house appears", ("there is no difference", "no change has occurred"), ("building",)),
    ],
)
def test_classes_that_no_reference_names_are_wrong(caption, references, wrong) -> None:
    assert unnamed_by_references(named_objects([caption])[0], named_objects(references)) == wrong


def test_hallucinations_are_counted_per_caption_and_per_class() -> None:
    found = count_hallucinations([(), ("road", "trees"), ("road",), ()])
    assert (found.captions, found.wrong, found.rate) == (4, 2, 0.5)
    assert list(found.by_class.items()) == [("road", 2), ("trees", 1)]
    assert count_hallucinations([]).rate is None
    assert json.loads(json.dumps(found.as_dict()))["by_class"] == {"road": 2, "trees": 1}


def test_kinds_are_what_changes_not_what_stands_beside_it() -> None:
    houses = ("many houses are built along the road", "some villas appear beside the trees")
    assert kinds_of_change([houses]) == [("building",)]
    both = (*houses, "a road and a house are built", "the road is built with some houses beside it")
    assert kinds_of_change([both]) == [("building", "road")]
    once = (*houses, "a road is built")
    assert kinds_of_change([once]) == [("building",)], "one reference alone is not enough"
    assert kinds_of_change([("a road is built",)]) == [("road",)], "unless it is the only one"
    assert kinds_of_change([("the lake dries up", "a lake vanishes")]) == [(OTHER_KIND,)]
    assert kinds_of_change([("it looks different now", "a big change")]) == [(OTHER_KIND,)]
    assert kinds_of_change([("the woods are cut down", "many trees disappear")]) == [("vegetation",)]


def unlisted(captions: list[str], least: int = LEAST) -> list[str]:
    counts: Counter[str] = Counter()
    times = Counter(captions)
    unique = list(times)
    for caption, words in zip(unique, (one.words for one in extract_segments(unique)), strict=True):
        for word, noun in words:
            counts[word] += noun * times[caption]
    return [noun for noun, count in counts.items() if count >= least and not is_listed(noun)]


def test_an_unlisted_noun_is_found() -> None:
    assert unlisted(["a giraffe appears beside a house"] * LEAST) == ["giraffe"]
    assert unlisted(["a giraffe appears beside a house"] * (LEAST - 1)) == []


@pytest.mark.real
def test_every_frequent_noun_of_the_training_pairs_is_listed(shared_data) -> None:
    path = shared_data / "data" / "levir_cc" / "LevirCCcaptions.json"
    images = json.loads(path.read_text(encoding="utf-8"))["images"]
    assert not unlisted(
        [" ".join(one["tokens"]) for pair in images if pair["split"] == "train" for one in pair["sentences"]]
    )


@pytest.mark.real
@pytest.mark.slow
def test_every_frequent_noun_of_the_training_corpus_is_listed(shared_data) -> None:
    path = shared_data / "data" / "annotations" / "levir_cc_caption_corpus.json.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        pairs = json.load(file)["train"]
    third = [sentence for pair in pairs[::3] for sentence in pair["sentences"]]
    assert not unlisted(third, least=LEAST // 2)

import importlib.util
import json

import pytest

from rscc.text.object_classes import count_hallucinations, named_objects, unnamed_by_references

pytestmark = pytest.mark.skipif(importlib.util.find_spec("spacy") is None, reason="spaCy is not installed")


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

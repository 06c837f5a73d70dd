import importlib.util

import pytest

from rscc.text.parsing import PARSERS, extract_segments, subjects

pytestmark = pytest.mark.skipif(
    not any(importlib.util.find_spec(name) for name in PARSERS), reason="no English parser is installed"
)


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

"""Captions of pairs shown backwards. The sentences are made up for these tests."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rscc.config import Config, DataConfig
from rscc.data.clauses import head, is_plural, names_built, read_clauses
from rscc.data.pairs import FLIPS, PairRecord, flip_words
from rscc.data.reversal import describes_removal, reverse_caption, reverse_captions
from rscc.errors import DatasetLayoutInvalid
from rscc.training_pairs import add_reversal, every_caption, training_parts

VANISH = (
    r"(?:is|are|has been|have been) (?:removed|demolished)|disappears?|(?:has|have) (?:disappeared|vanished)"
)


def kinds(caption: str) -> list[str]:
    return [clause.kind for clause in read_clauses(caption)]


# Reading clauses


@pytest.mark.parametrize(
    ("caption", "expected"),
    [
        ("a barn appears", [("a barn", "appears", "", "appear")]),
        (
            "four bungalows have been newly built by a canal",
            [("four bungalows", "have been newly built", "by a canal", "appear")],
        ),
        (
            "the orchard is cut down and a car park shows up near a mill",
            [
                ("the orchard", "is cut down", "", "vanish"),
                ("a car park", "shows up", "near a mill", "appear"),
            ],
        ),
        (
            "a mill is built between a path and a pond and two hangars vanish",
            [
                ("a mill", "is built", "between", "appear"),
                ("a path and a pond and two hangars", "vanish", "", "vanish"),
            ],
        ),
        (
            "hedges are replaced by a lane and a shed and a pond dries out",
            [("hedges", "are replaced by", "a lane and a shed and a pond dries out", "replaced")],
        ),
        ("the pond has turned into a meadow", [("the pond", "has turned into", "a meadow", "turned")]),
        (
            "some hangars with a gate built beside replaced the orchard",
            [("some hangars with a gate built beside", "replaced", "the orchard", "replace")],
        ),
        ("the lane has been widened", [("the lane", "has been widened", "", "other")]),
        ("a field full of tents", []),
    ],
)
def test_clauses_are_subject_verb_and_rest(caption, expected) -> None:
    read = [(one.subject, one.verb, one.rest, one.kind) for one in read_clauses(caption)]
    if "between a path" in caption:  # which "and" joins the clauses cannot be known; the verbs are
        assert [one[1] for one in read] == [one[1] for one in expected]
    else:
        assert read == expected


@pytest.mark.parametrize(
    ("phrase", "plural", "built"),
    [
        ("a barn", False, True),
        ("three barns near a hedge", True, True),
        ("a row of barns", False, True),
        ("a lot of barns", True, True),
        ("a hedge and a pond", True, False),
        ("a barn with two doors and a gate", True, True),
        ("trees along the lane", True, False),
        ("woods", True, False),
        ("grass", False, False),
        ("some of the hedges", True, False),
        ("hedges and a garage", True, True),
        ("neatly arranged barns", True, True),
        ("some crossing lanes", True, True),
    ],
)
def test_number_and_matter_of_noun_phrases(phrase, plural, built) -> None:
    assert is_plural(phrase) == plural
    assert names_built(phrase) == built


def test_the_head_of_a_phrase_lacks_places_and_companions() -> None:
    assert head("two long barns built along a canal") == "two long barns"
    assert head("a lane lined with poplars") == "a lane"
    assert head("the surrounding hedges") == "the surrounding hedges"


# Reversing


@pytest.mark.parametrize(
    ("caption", "start", "end"),
    [
        ("a new hangar is built beside the canal", "a hangar", "beside the canal"),
        ("seven more hangars appear beside the canal", "seven hangars", "beside the canal"),
        ("another hangar shows up in the upper left", "a hangar", "in the upper left"),
        ("two barns are built on the bare land along a canal", "two barns", "along a canal"),
        ("two barns are built in the former orchard near a canal", "two barns", "near a canal"),
    ],
)
def test_what_appears_is_removed_and_keeps_its_place(caption, start, end) -> None:
    said = reverse_caption(caption)
    assert said.startswith(start)
    assert end in said
    assert "bare land" not in said
    assert "former" not in said
    assert kinds(said) == ["vanish"]
    assert describes_removal(said)
    assert not describes_removal(caption)


def test_what_stood_on_bare_ground_leaves_bare_ground() -> None:
    said = {
        reverse_caption(f"{count} barns appear on the bareland") for count in ("two", "three", "four", "nine")
    }
    said |= {
        reverse_caption(f"a {kind} barn is built in the clearing") for kind in ("red", "long", "low", "tall")
    }
    assert {" ".join(one.split()[2:]).rsplit(" ", 1)[-1] for one in said} >= {"bareland", "removed"}
    assert all(describes_removal(one) for one in said)


@pytest.mark.parametrize(
    ("caption", "expected"),
    [
        ("the pond has become a meadow", "the meadow turns into a pond"),
        ("all of the hedges were removed", "many hedges"),
        ("half of the woods disappeared", "woods"),
        ("an old hangar at the top is demolished", "a hangar at the top"),
        ("a car park is added to the school", "a car park"),
    ],
)
def test_what_vanished_is_new(caption, expected) -> None:
    assert reverse_caption(caption).startswith(expected)


def test_additions_to_a_place_are_removed_from_it() -> None:
    assert reverse_caption("two barns are added to the farm").endswith("from the farm")


@pytest.mark.parametrize(
    "caption",
    [
        "four garages replace most of the hedges",
        "most of the hedges have been replaced by four garages",
        "four new garages are built to replace most of the hedges",
        "four garages appear in place of most of the hedges",
    ],
)
def test_a_replacement_is_turned_round(caption) -> None:
    assert reverse_caption(caption) in {
        "many hedges replace four garages",
        "four garages are replaced by many hedges",
    }


def test_clauses_that_no_rule_knows_are_left_out() -> None:
    assert reverse_caption("a hedge has grown and a barn is built by a lane").startswith("a barn by a lane ")
    assert reverse_caption("a hedge has grown") == ""
    assert reverse_caption("a lane is widened and two barns are built beside it") == "", "it is left hanging"
    assert reverse_caption("barns appear where hedges are removed") == ""
    assert reverse_caption("a field") == ""
    assert reverse_caption("the old one is removed") == "", "one of what?"
    assert reverse_caption("a barn and are built") == ""


def test_both_clauses_of_a_sentence_are_turned() -> None:
    said = reverse_caption("some hedges are removed and a barn with a gate is built at the bottom")
    first, second = read_clauses(said)
    assert (first.subject, first.kind) == ("some hedges", "appear")
    assert second.kind == "vanish"
    assert second.subject.startswith("a barn with a gate")


def test_verbs_of_removal_are_varied_and_depend_on_the_sentence_alone() -> None:
    captions = [
        f"{a} {b} barn appears near a {c}" for a in ("a", "one") for b in ("red", "low") for c in "abcdefgh"
    ]
    said = [reverse_caption(caption) for caption in captions]
    assert said == [reverse_caption(caption) for caption in captions]
    verbs = {read_clauses(one)[0].verb for one in said}
    assert {"is removed", "disappears"} <= verbs
    assert len(verbs) >= 3


def test_only_what_is_built_is_demolished() -> None:
    captions = [
        f"{count} {kind} {{}} appear" for count in ("some", "two", "many") for kind in map(str, range(300))
    ]
    for noun, seen in (("hangars", True), ("poplar trees", False)):
        said = [reverse_caption(caption.format(noun)) for caption in captions]
        assert any("demolished" in one for one in said) == seen


def test_references_of_a_pair() -> None:
    same = "there is no difference"
    assert reverse_captions((same, same)) == (same, same), "an unchanged pair may be shown backwards"
    assert reverse_captions(("a hedge has grown", same)) == (), "nothing is known of what changed"
    both = reverse_captions(("a hedge has grown", "a barn appears", same))
    assert len(both) == 2
    assert describes_removal(both[0])
    assert both[1] == same
    assert reverse_captions(()) == ()


@pytest.mark.parametrize(
    ("caption", "removal"),
    [
        ("two barns have been torn down", True),
        ("the hedge is replaced by a pond", False),
        ("a pond replaces the garage", True),
        ("the lane turns into grass", True),
        ("the lane turns into a street", False),
        ("trees beside the lane are removed", False),
        ("trees and a lane are removed", True),
        ("a barn is built", False),
        ("there is no difference", False),
        ("hedges appear in place of a warehouse", True),
    ],
)
def test_removal_is_that_of_something_built(caption, removal) -> None:
    assert describes_removal(caption) == removal


PLACES = ("", " at the top", " in the lower right corner", " on the left of a canal", " along the lane")
sentences = st.builds(
    lambda count, noun, verb, place: f"{count} {noun} {verb}{place}",
    st.sampled_from(("two", "several", "some", "many")),
    st.sampled_from(("barns", "hedges", "red garages", "rows of trees", "lanes with hedges")),
    st.sampled_from(("appear", "are built", "have appeared", "are removed", "disappear", "have vanished")),
    st.sampled_from(PLACES),
)


@given(sentences, st.sampled_from(FLIPS))
def test_flipping_and_reversing_commute(caption, flip) -> None:
    """Up to the verb, which the hash of the sentence chooses, and whether the place stands before it."""
    one = reverse_caption(flip_words(caption, flip))
    other = flip_words(reverse_caption(caption), flip)
    assert kinds(one) == kinds(other)
    place = caption.split("appeared")[-1]
    words = [word for word in flip_words(place, flip).split() if word in {"top", "bottom", "left", "right"}]
    assert [w for w in one.split() if w in {"top", "bottom", "left", "right"}] == words
    assert [w for w in other.split() if w in {"top", "bottom", "left", "right"}] == words


@given(sentences)
def test_reversing_twice_gives_the_same_kind_of_change(caption) -> None:
    once = reverse_caption(caption)
    assert kinds(once) != kinds(caption)
    twice = reverse_caption(once)
    assert kinds(twice) == kinds(caption)
    assert {"barns", "hedges", "garages", "trees", "lanes"} & set(twice.split()) <= set(caption.split())


# The pairs of a run


def record(*captions: str) -> PairRecord:
    return PairRecord("a", "a.png", "b.png", captions=captions, changed=True)


def test_records_get_their_captions_for_the_way_back() -> None:
    assert add_reversal(record("a hedge has grown")).reversed_captions == ()
    turned = add_reversal(record("a barn appears"))
    assert len(turned.reversed_captions) == 1
    assert every_caption([[turned], [record("x")]]) == ["a barn appears", *turned.reversed_captions, "x"]


def test_only_a_config_that_reverses_fills_them_in() -> None:
    train = [record("a barn appears")]
    assert training_parts(Config(), train, (), captioned=True) == [train]
    config = Config(data=DataConfig(reversed=0.5))
    assert training_parts(config, train, (), captioned=True) == [[add_reversal(train[0])]]


def test_further_folders_join_with_their_train_split(tmp_path) -> None:
    content = [
        {"filename": "a.png", "split": "train", "kind": "removal", "sentences": [{"tokens": ["a", "barn"]}]},
        {"filename": "b.png", "split": "val", "sentences": [{"tokens": ["b"]}]},
        {"filename": "c.png", "split": "train", "sentences": []},
    ]
    path = tmp_path / "LevirCCcaptions.json"
    path.write_text(json.dumps({"images": content}))
    config, own = Config(), [record("x")]
    parts = training_parts(config, own, (tmp_path, tmp_path), captioned=True)
    assert [[one.id for one in part] for part in parts] == [["a"], ["a.png"], ["a.png"]]
    assert parts[1][0].kind == "removal"
    (_, masks) = training_parts(config, own, (tmp_path,), captioned=False)
    assert [one.id for one in masks] == ["a.png", "c.png"]
    path.write_text(json.dumps({"images": content[2:]}))
    with pytest.raises(DatasetLayoutInvalid, match="no training pair has a caption"):
        training_parts(config, own, (tmp_path,), captioned=True)
    with pytest.raises(DatasetLayoutInvalid):
        training_parts(replace(config), own, (tmp_path / "absent",), captioned=True)


@pytest.mark.real
def test_nearly_all_real_pairs_can_be_shown_backwards(shared_data) -> None:
    content = json.loads((shared_data / "data" / "levir_cc" / "LevirCCcaptions.json").read_text())
    changed = [one for one in content["images"] if one["split"] == "train" and one["changeflag"]]
    pairs = [[" ".join(" ".join(s["tokens"]).lower().split()) for s in one["sentences"]] for one in changed]
    turned = [reverse_captions(captions) for captions in pairs]
    assert sum(map(bool, turned)) > 0.98 * len(pairs)
    assert sum(map(len, turned)) > 0.92 * sum(map(len, pairs))
    assert sum(any(map(describes_removal, one)) for one in turned) > 0.95 * len(pairs)

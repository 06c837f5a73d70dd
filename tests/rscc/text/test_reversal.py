"""Captions of pairs shown backwards. The sentences are made up for these tests."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rscc.config import Config, DataConfig
from rscc.data.pairs import FLIPS, PairRecord, flip_words
from rscc.errors import DatasetLayoutInvalid
from rscc.text.clauses import head, is_plural, names_built, read_clauses
from rscc.text.reversal import describes_removal, reverse_caption, reverse_captions
from rscc.training.batches import add_reversal, every_caption, training_parts


def kinds(caption: str) -> list[str]:
    return [clause.kind for clause in read_clauses(caption)]


# Reading clauses


@pytest.mark.parametrize(
    "clauses",
    [
        ["a barn|appears||appear"],
        ["four bungalows|have been newly built|by a canal|appear"],
        ["the orchard|is cut down||vanish", "a car park|shows up|near a mill|appear"],
        ["hedges|are replaced by|a lane and a shed and a pond dries out|replaced"],
        ["the pond|has turned into|a meadow|turned"],
        ["some hangars with a gate built beside|replaced|the orchard|replace"],
        ["the lane|has been widened||other"],
    ],
)
def test_clauses_are_subject_verb_rest_and_kind(clauses) -> None:
    expected = [tuple(clause.split("|")) for clause in clauses]
    caption = " and ".join(" ".join(filter(None, parts[:3])) for parts in expected)
    assert [(one.subject, one.verb, one.rest, one.kind) for one in read_clauses(caption)] == expected


def test_verbs_are_read_where_which_and_joins_the_clauses_cannot_be_known() -> None:
    read = read_clauses("a mill is built between a path and a pond and two hangars vanish")
    assert [clause.verb for clause in read] == ["is built", "vanish"]
    assert read_clauses("a field full of tents") == []


def test_number_and_matter_of_noun_phrases() -> None:
    phrases = {
        (False, True): "a barn, a row of barns",
        (True, True): "three barns near a hedge, a lot of barns, a barn with two doors and a gate, "
        "hedges and a garage, neatly arranged barns, some crossing lanes",
        (True, False): "a hedge and a pond, trees along the lane, woods, some of the hedges",
        (False, False): "grass",
    }
    for plural_and_built, several in phrases.items():
        for phrase in several.split(", "):
            assert (is_plural(phrase), names_built(phrase)) == plural_and_built, phrase


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
        ("two barns are added to the farm", "two barns", "from the farm"),
    ],
)
def test_what_appears_is_removed_and_keeps_its_place(caption, start, end) -> None:
    text = reverse_caption(caption)
    assert text.startswith(start)
    assert end in text
    assert "bare land" not in text and "former" not in text
    assert kinds(text) == ["vanish"]
    assert describes_removal(text)
    assert not describes_removal(caption)


def test_what_stood_on_bare_ground_leaves_bare_ground() -> None:
    said = [
        *(reverse_caption(f"{n} barns appear on the bareland") for n in ("two", "three", "four", "nine")),
        *(reverse_caption(f"a {a} barn is built in the clearing") for a in ("red", "long", "low", "tall")),
    ]
    assert {one.split()[-1] for one in said} >= {"bareland", "removed"}
    assert all(map(describes_removal, said))


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
    turned = {"many hedges replace four garages", "four garages are replaced by many hedges"}
    assert reverse_caption(caption) in turned


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


def test_removal_is_that_of_something_built() -> None:
    removals = (
        *("two barns have been torn down", "a pond replaces the garage", "the lane turns into grass"),
        *("trees and a lane are removed", "hedges appear in place of a warehouse"),
    )
    others = (
        *("the hedge is replaced by a pond", "the lane turns into a street", "a barn is built"),
        *("trees beside the lane are removed", "there is no difference"),
    )
    assert [one for one in (*removals, *others) if describes_removal(one)] == list(removals)


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
    words, *turned = (
        [word for word in text.split() if word in {"top", "bottom", "left", "right"}]
        for text in (flip_words(place, flip), one, other)
    )
    assert turned == [words, words]


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

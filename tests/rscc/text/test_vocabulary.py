import json
import random

import pytest

from rscc.errors import ConfigInvalid, DatasetLayoutInvalid, ModelFolderInvalid
from rscc.text.vocabulary import SPECIAL, Vocabulary, tokenize

CAPTIONS = ["a road is built", "A house is built .", "a road, a house; a tree!"]


@pytest.fixture
def vocabulary() -> Vocabulary:
    return Vocabulary.build(CAPTIONS, min_count=1)


def test_tokenize_keeps_words_and_drops_punctuation() -> None:
    assert tokenize(" A T-shaped house, isn't it ?; Two.") == ["a", "t-shaped", "house", "isn't", "it", "two"]
    assert tokenize("- ... ,") == []


def test_rare_words_fall_out_and_order_is_count_then_alphabet() -> None:
    vocabulary = Vocabulary.build(CAPTIONS, min_count=2)
    assert vocabulary.words == (*SPECIAL, "a", "built", "house", "is", "road")
    assert len(vocabulary) == 9
    assert "tree" not in vocabulary


def test_lists_of_words_count_like_sentences_and_the_order_of_captions_does_not_matter(vocabulary) -> None:
    assert Vocabulary.build([caption.split() for caption in CAPTIONS], min_count=1) == vocabulary
    shuffled = CAPTIONS * 3
    random.Random(3).shuffle(shuffled)
    assert Vocabulary.build(shuffled, min_count=1) == Vocabulary.build(CAPTIONS * 3, min_count=1)


def test_encode_then_decode_gives_the_sentence_back(vocabulary) -> None:
    ids = vocabulary.encode("A house, is built.", 20)
    assert ids[0] == vocabulary.bos == 1
    assert ids[-1] == vocabulary.eos == 2
    assert vocabulary.decode([*ids, 4, 5]) == "a house is built"
    assert vocabulary.decode([*ids, vocabulary.pad, vocabulary.pad]) == "a house is built"


def test_unknown_words_become_unk_and_survive_a_round_trip() -> None:
    vocabulary = Vocabulary.build(CAPTIONS, min_count=2)
    ids = vocabulary.encode("a blue house", 10)
    assert ids[2] == vocabulary.unk == 3
    assert vocabulary.decode(ids) == "a <unk> house"
    assert vocabulary.encode(vocabulary.decode(ids), 10) == ids


def test_truncation_keeps_the_end_and_an_id_outside_is_an_error(vocabulary) -> None:
    for ids, bad in (([1, 99, 2], "99"), ([-1], "-1")):
        with pytest.raises(IndexError, match=bad):
            vocabulary.decode(ids)
    ids = vocabulary.encode("a road is built", 4)
    assert (len(ids), ids[-1]) == (4, vocabulary.eos)
    assert vocabulary.decode(ids) == "a road"


def test_save_then_load(tmp_path) -> None:
    vocabulary = Vocabulary.build([*CAPTIONS, "café"], min_count=1)
    vocabulary.save(tmp_path / "vocabulary.json")
    assert Vocabulary.load(tmp_path / "vocabulary.json") == vocabulary


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("no json", "not a vocabulary file"),
        (json.dumps({"names": []}), "not a vocabulary file"),
        (json.dumps({"words": [1, 2]}), "no list of strings"),
        (json.dumps({"words": ["a", "b"]}), "starts with <pad>"),
        (json.dumps({"words": [*SPECIAL, "a", "a"]}), "'a' stands twice"),
    ],
)
def test_a_broken_file_is_named(tmp_path, text: str, fact: str) -> None:
    path = tmp_path / "vocabulary.json"
    with pytest.raises(ModelFolderInvalid, match="No such file"):
        Vocabulary.load(path)
    path.write_text(text)
    with pytest.raises(ModelFolderInvalid, match=fact) as caught:
        Vocabulary.load(path)
    assert str(path) in str(caught.value)


def test_impossible_counts_are_refused() -> None:
    with pytest.raises(ConfigInvalid, match="min_count is 0"):
        Vocabulary.build(CAPTIONS, min_count=0)
    with pytest.raises(DatasetLayoutInvalid, match="no word stands 50 times"):
        Vocabulary.build(CAPTIONS, min_count=50)

import json

import pytest

from rscc.errors import ModelFolderInvalid
from rscc.text.tokenizer import load_vocabulary
from rscc.text.vocabulary import SPECIAL, Vocabulary

CAPTIONS = ["a road is built", "A house is built .", "a road, a house; a tree!"]


@pytest.fixture
def vocabulary() -> Vocabulary:
    return Vocabulary.build(CAPTIONS, min_count=1)


def test_rare_words_fall_out_and_order_is_count_then_alphabet() -> None:
    vocabulary = Vocabulary.build(CAPTIONS, min_count=2)
    assert vocabulary.words == (*SPECIAL, "a", "built", "house", "is", "road")
    assert len(vocabulary) == 9
    assert "tree" not in vocabulary


def test_encode_then_decode_gives_the_sentence_back(vocabulary) -> None:
    ids = vocabulary.encode("A house, is built.", 20)
    assert ids[0] == vocabulary.bos == 1
    assert ids[-1] == vocabulary.eos == 2
    assert vocabulary.decode([*ids, 4, 5]) == "a house is built"
    assert vocabulary.decode([*ids, vocabulary.pad, vocabulary.pad]) == "a house is built"


def test_truncation_keeps_the_end_and_an_id_outside_is_an_error(vocabulary) -> None:
    for ids in ([1, 99, 2], [-1]):
        with pytest.raises(IndexError):
            vocabulary.decode(ids)
    ids = vocabulary.encode("a road is built", 4)
    assert (len(ids), ids[-1]) == (4, vocabulary.eos)
    assert vocabulary.decode(ids) == "a road"


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
    with pytest.raises(ModelFolderInvalid):
        load_vocabulary(path)
    path.write_text(text)
    with pytest.raises(ModelFolderInvalid) as caught:
        load_vocabulary(path)
    assert str(path) in str(caught.value)

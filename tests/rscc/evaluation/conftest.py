"""Pairs and training pairs of evaluations."""

import pytest
from training_runs import SIDE, TREES, VILLAS, write_pair

from rscc.data.pairs import PairRecord
from rscc.text.no_change import NO_CHANGE_SENTENCES, is_no_change


@pytest.fixture
def records(tmp_path) -> list[PairRecord]:
    return [
        write_pair(tmp_path, "one", changed=True, captions=VILLAS),
        write_pair(tmp_path, "two", changed=False, captions=NO_CHANGE_SENTENCES),
        write_pair(tmp_path, "three", changed=True, captions=TREES, size=(SIDE, SIDE)),
        write_pair(tmp_path, "four", changed=False, captions=NO_CHANGE_SENTENCES),
    ]


@pytest.fixture
def train() -> list[PairRecord]:
    def pair(name, captions):
        return PairRecord(name, name, name, captions=captions, changed=not is_no_change(captions[0]))

    return [
        pair("a", ("a house is built", *VILLAS)),
        pair("b", NO_CHANGE_SENTENCES),
        pair("c", ("two villas are built", "a road appears")),
        pair("d", NO_CHANGE_SENTENCES),
    ]

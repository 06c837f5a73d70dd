"""Roads near a change: what is new, what stands there, and which facts of roads are left."""

import numpy as np
import pytest
import torch
from saved_models import logits_of, plain_rules, tiny_facts
from tiny_models import randomise

from rscc.facts.answers import ANSWERS
from rscc.facts.fact_model import FactModel
from rscc.facts.road_head import BESIDE, NEW, RoadEvidence, RoadHead, new_roads, road_evidence

YES, NO = 5.0, -5.0


def dates(before: str, after: str) -> np.ndarray:
    """Logits of both dates, one row of letters each: ``#`` is a road."""
    rows = ([YES if letter == "#" else NO for letter in row] for row in (before, after))
    return np.array(list(rows))[:, None]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("......", ".##...", ".##..."),
        (".##...", ".##...", "......"),
        (".##...", "......", "......"),
        # As far as the dates may lie from each other.
        (".##...", "..##..", "......"),
        ("##....", "...##.", "...##."),
    ],
)
def test_a_road_is_new_where_none_was_beside_it(before, after, expected):
    new = new_roads(dates(before, after))[0]
    assert "".join("#" if value >= NEW else "." for value in new) == expected


@pytest.mark.parametrize(("metres", "least"), [(8.0, 5), (16.0, 3), (40.0, 1)])
def test_so_much_of_a_new_road_is_as_sure_at_least(metres, least):
    standing = np.array([0.2, 0.7, 0.1, *[0.0] * 17])
    for count, reached in ((least, 0.9), (least - 1, 0.1)):
        new = np.where(np.arange(20) < count, 0.9, 0.1)
        evidence = road_evidence(standing, new, metres)
        assert (evidence.standing, evidence.new) == (0.7, pytest.approx(reached))
    assert road_evidence(standing[: least - 1], np.full(least - 1, 0.9), metres).new == 0
    for enough, expected in ((metres, 0.7), (1.5 * metres, 0.2), (3 * metres, 0.1), (4 * metres, 0.0)):
        assert road_evidence(standing, new, metres, enough).standing == expected
    assert road_evidence(np.zeros(0), np.zeros(0), metres) == RoadEvidence(0, 0)


def test_only_roads_that_are_found_are_stated():
    rules = plain_rules(sure=(0.5,) * len(ANSWERS))
    logits = logits_of("came building", "came road", "gone trees", "around road", "around building")

    def stated(standing, new):
        facts = rules.facts(logits, absent=RoadEvidence(standing, new).absent)
        assert "building" in facts.came and "trees" in facts.gone
        return "road" in facts.came, "road" in facts.beside

    assert stated(BESIDE, NEW) == stated(0, NEW) == (True, False)
    assert stated(BESIDE, NEW - 0.01) == (False, True)
    assert stated(BESIDE - 0.01, NEW - 0.01) == (False, False)
    assert rules.facts(logits).came == rules.facts(logits, absent=RoadEvidence(1, 1).absent).came


def test_a_folder_keeps_the_head_and_what_it_stores(tmp_path):
    head = RoadHead(channels=12, hidden=3, area=0.875)
    randomise(head, 4)
    plain = tiny_facts()
    FactModel(plain.heads, plain.rules, None, head).save(tmp_path)
    loaded = FactModel.load(tmp_path).roads
    assert loaded is not None and loaded.stored == {"channels": 12, "hidden": 3, "area": 0.875}
    positions = torch.randn(4, 12)
    assert torch.equal(loaded(positions), head.eval()(positions))
    assert not loaded.training
    plain.save(tmp_path)
    assert FactModel.load(tmp_path).roads is None

"""Scores by kind of change, as they stand in a model's card."""

from __future__ import annotations

import numpy as np
import pytest

from rscc.data.pairs import PairRecord
from rscc.evaluation.scoring import score_kinds

pytest.importorskip("pycocoevalcap")

GROUNDS = ("lawn", "field", "desert", "meadow", "slope", "bank")
HOUSES = [f"some houses are built on the {ground}" for ground in GROUNDS]
ROADS = [f"a road is built across the {ground}" for ground in GROUNDS]
SAME = "there is no difference"


def records() -> list[PairRecord]:
    """Six pairs with new houses, six with new roads, four without change."""
    told = [(one, one.replace("some", "several")) for one in HOUSES]
    told += [(one, one.replace("a road", "one road")) for one in ROADS]
    told += [(SAME, SAME)] * 4
    return [
        PairRecord(str(number), "a.png", "b.png", captions=captions, changed=number < 12)
        for number, captions in enumerate(told)
    ]


def test_each_kind_is_scored_alone() -> None:
    """All houses are said as people say them; of the roads two are missed and one is called a house."""
    said = [*HOUSES, *ROADS[:3], HOUSES[3], *ROADS[4:], *[SAME] * 4]
    called = np.array([True] * 10 + [False] * 2 + [True] + [False] * 3)
    found = score_kinds(records(), said, called)
    assert list(found) == ["changed", "unchanged", "building", "road"]
    assert [found[kind]["pairs"] for kind in found] == [12, 4, 6, 6]
    called = [found[kind]["called_changed"] for kind in found]
    assert called == pytest.approx([10 / 12, 0.25, 1, 4 / 6], abs=1e-4)
    assert found["building"]["cider"] > found["changed"]["cider"] > found["road"]["cider"] > 0
    assert found["building"]["other_objects"] == 0 and found["road"]["other_objects"] == 0.25
    assert set(found["unchanged"]) == {"pairs", "called_changed"}

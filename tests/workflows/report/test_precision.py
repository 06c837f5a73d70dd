"""What the verdicts on a sample tell of the archive that it was drawn from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from archive_rows import change, report

from rscc.evaluation.bootstrap import wilson_interval
from workflows.errors import MarksInvalid
from workflows.report.review import precision_of

SOURCE = Path("sample.geojson")


def sample(total, confirmed, wrong_words, wrong_place, unmarked=0):
    verdicts = ["confirmed"] * confirmed + ["wrong words"] * wrong_words + ["wrong place"] * wrong_place
    statuses = [*verdicts, *[None] * unmarked]
    changes = [change(n, review_status=status) for n, status in enumerate(statuses, start=1)]
    return report(*changes, sample={"changes": total})


def test_wrong_words_are_true_changes_and_intervals_are_wilsons():
    found = precision_of(sample(1000, 60, 20, 20, unmarked=3), SOURCE)
    assert (found.changes, found.drawn, found.marked) == (1000, 103, 100)
    assert found.precision == 0.8
    assert found.precision_interval == pytest.approx(wilson_interval(80, 100), abs=1e-4)
    low, high = wilson_interval(80, 100)
    assert found.true_changes == 800
    assert found.true_changes_interval == (round(1000 * low), round(1000 * high))
    assert found.right_words == 0.75
    assert found.right_words_interval == pytest.approx(wilson_interval(60, 80), abs=1e-4)


def test_what_a_person_drew_into_a_sample_was_not_drawn_from_the_archive():
    plain = sample(1000, 6, 2, 2)
    drawn = change(11, review_status="confirmed", model="drawn by hand")
    both = replace(plain, changes=[*plain.changes, drawn])
    assert precision_of(both, SOURCE) == precision_of(plain, SOURCE)


@pytest.mark.parametrize("total", [None, 2, 3.0, True, "9", 10**400])
def test_a_sample_of_fewer_changes_than_it_has_is_damaged(total):
    with pytest.raises(MarksInvalid):
        precision_of(sample(total, 3, 0, 0), SOURCE)

"""What is scored beside a model: captions that do not look at the pair."""

import numpy as np
import pytest
from training_runs import features_of, report_of, row_of

from rscc.errors import DatasetLayoutInvalid
from rscc.evaluation.baselines import (
    ALWAYS_NO_CHANGE,
    FREQUENT_CHANGE,
    NEAREST_PAIR,
    TEMPLATE_BY_COUNT,
    most_frequent_change_caption,
    template_caption,
)
from rscc.evaluation.evaluate import UNGATED
from rscc.evaluation.score_rows import SUBSETS
from rscc.text.no_change import NO_CHANGE_SENTENCES

pytest.importorskip("pycocoevalcap")


@pytest.mark.slow
def test_baselines_have_all_rows_and_are_right_where_they_must_be(records, train) -> None:
    report = report_of(records, train, features=features_of)
    model = ["brightness", "brightness" + UNGATED]
    names = [*model, TEMPLATE_BY_COUNT, ALWAYS_NO_CHANGE, FREQUENT_CHANGE, NEAREST_PAIR]
    assert [(row.name, row.subset) for row in report.rows] == [(n, s) for n in names for s in SUBSETS]
    assert [row.captions.count for row in report.rows[:3]] == [4, 2, 2]
    assert report.run["counts"] == {"all": 4, "changed": 2, "unchanged": 2}
    assert [row_of(report, ALWAYS_NO_CHANGE, subset).flags.accuracy for subset in SUBSETS] == [0.5, 0, 1]
    assert [row_of(report, FREQUENT_CHANGE, subset).flags.accuracy for subset in SUBSETS] == [0.5, 1, 0]
    assert row_of(report, NEAREST_PAIR, "all").flags.accuracy == 1
    assert row_of(report, ALWAYS_NO_CHANGE, "unchanged").captions.bleu4 == pytest.approx(100, abs=1e-3)
    assert row_of(report, ALWAYS_NO_CHANGE, "all").mask is None
    assert row_of(report, "brightness", "unchanged").captions.cider is None
    assert "cider" not in row_of(report, "brightness", "unchanged").intervals


def test_the_most_frequent_change_caption_ignores_no_change_and_breaks_ties_by_alphabet(train) -> None:
    assert most_frequent_change_caption(train) == "two villas are built"
    assert most_frequent_change_caption(train[2:]) == "a road appears"
    with pytest.raises(DatasetLayoutInvalid):
        most_frequent_change_caption([train[1]])


@pytest.mark.parametrize(
    ("sides", "sentence"), [((), 0), ((5,), 0), ((10,), "a house"), ((10, 10), "two houses")]
)
def test_a_template_counts_the_patches_of_a_mask(sides, sentence) -> None:
    mask = np.zeros((32, 32), bool)
    for number, side in enumerate(sides):
        mask[2 : 2 + side, 15 * number : 15 * number + side] = True
    assert template_caption(mask).startswith(sentence or NO_CHANGE_SENTENCES[0])

"""Scores of a captioner on every subset of pairs."""

from dataclasses import replace

import numpy as np
import pytest
from stored import assert_as_stored
from training_runs import SIDE, BrightnessCaptioner, features_of, kinds_of, report_of, row_of

from rscc.evaluation.baselines import ALWAYS_NO_CHANGE
from rscc.evaluation.evaluate import UNGATED, EvaluationOptions, evaluate_records
from rscc.evaluation.predictions import captioner_predictions
from rscc.evaluation.score_rows import SUBSETS
from rscc.evaluation.scoring import subsets

pytest.importorskip("pycocoevalcap")


@pytest.mark.slow
def test_a_perfect_eye_gets_perfect_flags_and_masks(records, train) -> None:
    told = []
    report = report_of(records, train, observe=lambda record, said: told.append((record.id, said.changed)))
    assert told == [("one", True), ("two", False), ("three", True), ("four", False)], "every pair, as said"
    row = row_of(report, "brightness", "all")
    assert (row.flags.accuracy, row.flags.precision, row.flags.recall) == (1, 1, 1)
    assert row.flags.calibration_error == pytest.approx(0, abs=1e-6)
    assert row.intervals["flag_accuracy"] == (1, 1)
    low, high = row.intervals["cider"]
    assert low < row.captions.cider < high
    assert (row.mask.precision, row.mask.recall) == pytest.approx((1, 1), abs=0.06)
    assert row.mask.pixels == 3 * 24 * 40 + SIDE * SIDE, "counted at the size of the images"


@pytest.mark.slow
def test_a_report_is_as_stored(records, train) -> None:
    pytest.importorskip("spacy")
    eye = BrightnessCaptioner(surest=0.8)
    report = report_of(kinds_of(records), train, captioner=eye, features=features_of)
    found = {"values": report.as_dict(), "text": report.as_text().splitlines()}
    assert_as_stored("evaluation", found, rel=1e-4)


def test_pairs_are_read_in_batches_and_keep_their_order(records) -> None:
    captioner = BrightnessCaptioner()
    together = list(captioner_predictions(captioner, records, batch_size=3))
    assert [shape[0] for shape in captioner.shapes] == [3, 1]
    alone = list(captioner_predictions(captioner, records, batch_size=1))
    assert [one.caption for one in together] == [one.caption for one in alone]
    assert [one.mask.shape for one in together] == [(24, 40), (24, 40), (SIDE, SIDE), (24, 40)]
    for one, other in zip(together, alone, strict=True):
        assert (one.mask == other.mask).all()


def test_masks_are_cut_out_of_probabilities_at_the_size_of_the_images(records) -> None:
    """They rise from 0 to 1 over the 32 pixels of the tile, and so over the 40 of an image."""

    class Rising(BrightnessCaptioner):
        def describe(self, before, after, *, beams):
            values = (np.arange(SIDE, dtype=np.float32) + 0.5) / SIDE
            rising = np.broadcast_to(values, (len(before), SIDE, SIDE))
            found, captions = super().describe(before, after, beams=beams)
            return replace(found, change_probability=rising), captions

    one, *_ = captioner_predictions(Rising(threshold=0.42), records)
    # 0.42 of 40 is 16.8; the pixel of the tile begins at 16.25.
    assert (one.mask == (np.arange(40) + 0.5 > 0.42 * 40)).all()
    *_, same, _ = captioner_predictions(Rising(threshold=12.5 / SIDE), records)
    assert (same.mask == (np.arange(SIDE) >= 12)).all(), "the one at the threshold itself is changed"


def test_changed_pairs_are_also_grouped_by_the_kind_of_change(records) -> None:
    groups = subsets(kinds_of(records))
    assert {subset: [record.id for record in members] for subset, members in groups.items()} == {
        "all": ["one", "two", "three", "four"],
        "changed": ["one", "three"],
        "unchanged": ["two", "four"],
        "add": ["one"],
        "drop": ["three"],
    }
    kinds = {"one": ("road", "other"), "three": ("vegetation",), "two": ("road",)}
    assert list(subsets(records, kinds)) == [*SUBSETS, "road", "vegetation"], "other holds the pair of road"
    kinds["one"] = ("other",)
    assert list(subsets(records, kinds)) == [*SUBSETS, "vegetation", "other"]
    same = [replace(record, kind="add") for record in records]
    assert list(subsets(same)) == list(SUBSETS), "a kind that holds all changed pairs says nothing new"


def test_the_thresholds_of_the_card_are_used_and_wrong_flags_and_masks_count_against_the_model(
    records, train
) -> None:
    never = BrightnessCaptioner(surest=0.99, threshold=1.0, changed_threshold=1e-9)
    eager = report_of(records, train, captioner=never)
    blind = report_of(records, train, captioner=BrightnessCaptioner(changed_threshold=1.1))
    mask = row_of(eager, "brightness", "all").mask
    assert (mask.precision, mask.recall, mask.f1) == (None, 0, 0)
    assert [row_of(blind, "brightness", subset).flags.accuracy for subset in SUBSETS] == [0.5, 0, 1]
    assert row_of(eager, "brightness", "all").flags.recall == 1
    assert row_of(blind, "brightness", "all").flags.precision is None
    assert row_of(blind, "brightness", "unchanged").flags.recall is None
    assert row_of(eager, ALWAYS_NO_CHANGE, "all").flags.calibration_error is None
    assert row_of(eager, "brightness", "changed").flags.calibration_error is None, "nothing to tell apart"
    low, high = row_of(eager, "brightness", "all").intervals["flag_recall"]
    assert (low, high) == pytest.approx((0.342, 1), abs=1e-3), "Wilson's of 2 of 2"


def test_a_gated_decoder_is_scored_without_its_gate_too(records, train) -> None:
    """Without the gate unchanged pairs score worse, and the others the same."""
    report = report_of(records, train, baselines=False)
    assert [row.name for row in report.rows if row.subset == "all"] == ["brightness", "brightness" + UNGATED]
    alone = row_of(report, "brightness" + UNGATED, "all")
    assert alone.flags.recall == 1
    assert alone.flags.precision < row_of(report, "brightness", "all").flags.precision
    assert row_of(report, "brightness" + UNGATED, "changed").captions == (
        row_of(report, "brightness", "changed").captions
    )
    grounded = evaluate_records(
        BrightnessCaptioner(), records, train, EvaluationOptions(java=False), run={"grounded": True}
    )
    assert not any(row.name.endswith(UNGATED) for row in grounded.rows)

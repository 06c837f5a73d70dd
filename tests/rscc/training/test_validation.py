"""Scores on the validation split, and what training learns of unchanged pairs."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_models import tiny_model
from training_runs import quick_config

from rscc.data.benchmarks.levir_cc import LevirCC
from rscc.data.pairs import PairRecord
from rscc.evaluation.metrics import cider
from rscc.training.training_data import no_change_prefixes, no_change_runs
from rscc.training.validation import MaskCurve, caption_validation


def test_the_mask_curve_counts_like_the_definition() -> None:
    rng = np.random.default_rng(0)
    probability, mask = rng.random((3, 8, 9)).astype(np.float32), rng.random((3, 8, 9)) > 0.6
    curve = MaskCurve()
    for one in range(3):
        curve.add(probability[one], mask[one])
    f1 = curve.f1()
    for index in (0, 40, 100, 180):
        found = probability >= index / 200
        hits = (found & mask).sum()
        assert f1[index] == pytest.approx(2 * hits / (found.sum() + mask.sum()))
    assert f1[round(curve.best_threshold() * 200)] == f1.max()


def test_caption_validation_speaks_as_in_use(data) -> None:
    """The flag decides between the fixed sentence and the decoder; what begins like it is forbidden."""
    records = LevirCC(data, "val")
    model = tiny_model()
    with torch.no_grad():
        model.changed_head.net[-1].bias.fill_(100)
        all_changed = caption_validation(records, quick_config(size=32))(model)
        model.changed_head.net[-1].bias.fill_(-100)
        none_changed = caption_validation(records, quick_config(size=32))(model)
    assert all_changed["flag_accuracy"] == none_changed["flag_accuracy"] == 0.5
    references = {r.id: list(r.captions) for r in records}
    fixed = {i: "there is no difference" for i in references}
    assert none_changed["cider"] == cider(fixed, references)
    part = [r.id for r in records if r.changed]
    assert none_changed["cider_changed"] == cider(
        {i: fixed[i] for i in part}, {i: references[i] for i in part}
    )
    assert none_changed["cider"] > all_changed["cider"]


def record(captions, changed) -> PairRecord:
    return PairRecord("x", Path("x"), Path("x"), captions=captions, changed=changed)


def test_no_change_beginnings_are_the_shortest_that_changed_captions_lack() -> None:
    records = [
        record(("there is a house", "no trees remain", "the scene shows a house"), True),
        record(("there is no difference", "no change occurs", "the scene is the same"), False),
        record(("the two scenes agree",), False),
        record(("nothing at all",), None),
    ]
    expected = [["no", "change"], ["the", "scene", "is"], ["the", "two"], ["there", "is", "no"]]
    assert no_change_prefixes(records) == expected
    usual = replace(records[0], captions=("there is a road", *records[0].captions))
    wrong, no = record(("there is no road",), True), ["there", "is", "no"]
    assert no in no_change_prefixes([*records, *[usual] * 300, wrong]), "1 of 1204: an error"
    assert no not in no_change_prefixes([*records, *[usual] * 200, wrong]), "1 of 804"
    assert no_change_prefixes(records[1:]) == []


def test_no_change_runs_are_the_shortest_that_changed_captions_lack_anywhere() -> None:
    records = [
        record(("the house is the new one", "no trees remain before it", "a scene of houses"), True),
        replace(record(("a road is built",), True), reversed_captions=("a road is gone as of now",)),
        *[record(("the scene is the same as before", "no change is seen as of now"), False)] * 5,
        record(("one stray sentence",), False),
        record(("nothing at all",), None),
    ]
    # Not "as of now", which is said of a road shown backwards, nor what one caption in eleven has.
    expected = [["change"], ["same"], ["seen"], ["as", "before"], ["scene", "is"], ["the", "scene"]]
    many = [*records[:2] * 200, *records[2:]]
    assert no_change_runs(many) == expected
    three = record(("before this is the place", "the one scene", "no scene is as before"), True)
    found = no_change_runs([*many, three])
    assert found == expected, "1 of 1003: an error"
    assert no_change_runs([*many, three, three])[:3] == expected[:3]
    assert ["as", "before"] not in no_change_runs([*many, three, three]), "2 of 1006"
    assert no_change_runs(records[2:]) == []

"""What the end of a training run hands on: its seed, its lines, and words of the start."""

from __future__ import annotations

from dataclasses import replace

import pytest
from captioners import card
from tiny_models import tiny_model
from training_runs import settings, whole_config

from rscc.data.benchmarks.levir_cc import LevirCC
from rscc.facts.calibration import Calibration, Reliability, ScoreCalibration
from rscc.model_card import LOCALISATIONS
from rscc.models.papers import MODELS
from rscc.training.card_text import confidence_text
from rscc.training.model_export import export_model
from rscc.training.training_loop import TrainResult
from rscc.training.training_run import Run, RunPaths

pytestmark = pytest.mark.usefixtures("tiny_registered")


def finished(data, paths, *, val=None, report=lambda line: None, train=None, **loss):
    return export_model(
        Run(whole_config(train or settings(), **loss), paths, "x", "x", report=report),
        tiny_model(max_words=12).eval(),
        TrainResult(1, {"cider": 0.0}, paths.output / "none", 60.0),
        val=LevirCC(data, "val") if val is None else val,
        train=LevirCC(data, "train"),
    )


def test_the_card_names_the_means_that_the_training_left(data, tmp_path, monkeypatch) -> None:
    def card(name, trunk=None, **values):
        trunk = None if trunk is None else str(tmp_path / trunk / "model")
        return finished(data, RunPaths(data=data, output=tmp_path / name, trunk=trunk), **values).card

    masked = card("masks")
    assert masked.localiser == "change_head"
    attentive = card("words", change_mask=0)
    assert (attentive.localiser, attentive.localisation) == ("attention", LOCALISATIONS["attention"])
    assert attentive.scores["mask_f1"] > 0
    assert attentive.threshold != 0.5, "chosen on the validation masks"
    without = [replace(record, mask=None) for record in LevirCC(data, "val")]
    bare = card("bare", val=without, change_mask=0)
    assert (bare.localiser, bare.threshold) == ("attention", 0.5)
    assert "mask_f1" not in bare.scores
    frozen = settings(frozen=("backbone", "change_head"))
    taken = card("from-masks", "masks", train=frozen, change_mask=0)
    assert (taken.localiser, taken.threshold) == ("change_head", masked.threshold)
    untaught = card("from-words", "words", train=frozen, change_mask=0)
    assert untaught.localiser == "attention", "a head that was not trained there is not trained here"
    monkeypatch.setattr(MODELS["rdd"], "localiser", "difference")
    assert card("other", change_mask=0, val=without).localiser == "difference"


def test_the_card_says_how_many_sentences_are_good_in_percent() -> None:
    bins = Reliability((0.5,), (0.5,), (8,))
    score = ScoreCalibration(1.0, 0.0, 60.0, 0.375, 0.1, 0.1, 0.1, 0.1, bins)
    assert "38 percent" in confidence_text(replace(card(), calibration=Calibration(score=score)))

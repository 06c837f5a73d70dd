from dataclasses import replace

import numpy as np
import pytest
import torch
from calibrations import BOTH, FLAG, SCORE, SENTENCES
from fakes import card
from scipy.special import expit as sigmoid

from rscc.inference.calibration import Calibration, Reliability, change_evidence, evidence_pixels, reliability
from rscc.models.shared.blocks import enlarge_maps
from rscc.training import calibration as module
from rscc.training.calibration import (
    ENOUGH,
    STAYS,
    best_threshold,
    calibrate_flag,
    calibrate_score,
    fit_logistic,
    moved,
)
from rscc.training.card import confidence_line, confidence_text

pytestmark = pytest.mark.usefixtures("tiny_registered")


def drawn(count, a, b, c, seed=0):
    """Logits, evidence, and flags that are true as often as the coefficients say."""
    rng = np.random.default_rng(seed)
    logits, evidence = rng.normal(0, 2, (2, count))
    return logits, evidence, rng.random(count) < sigmoid(a * logits + b * evidence + c)


# Reliability


def test_reliability_by_hand() -> None:
    probabilities = np.array([0.02, 0.08, 0.55, 0.57, 1.0])
    truth = np.array([False, True, True, True, False])
    found = reliability(probabilities, truth)
    assert found == Reliability((0.05, 0.56, 1.0), (0.5, 1.0, 0.0), (2, 2, 1))
    assert found.error == pytest.approx((2 * 0.45 + 2 * 0.44 + 1) / 5)
    assert reliability(probabilities, truth, bins=1).counts == (5,)


def test_what_is_said_as_often_as_it_happens_has_no_error() -> None:
    truth = np.arange(100) % 4 == 0
    assert reliability(np.full(100, 0.25), truth).error == 0
    assert reliability(truth.astype(float), truth).error == 0
    assert reliability(1 - truth.astype(float), truth).error == 1


# Fits


def test_coefficients_are_found_again() -> None:
    logits, evidence, changed = drawn(4000, 0.8, 0.5, -0.4)
    found = calibrate_flag(logits, evidence, changed, pixels=200)
    assert (found.a, found.b, found.c) == pytest.approx((0.8, 0.5, -0.4), abs=0.08)
    assert found.pixels == 200
    assert found.error_after < 0.025 < found.error_before
    assert found.threshold == pytest.approx(0.5, abs=0.1)
    alone = calibrate_flag(logits, None, changed, pixels=200)
    assert alone.b == 0 and not alone.reads_evidence
    assert alone.accuracy < found.accuracy


@pytest.mark.parametrize("scale", [0.2, 5.0])
def test_too_shy_and_too_sure_models_are_put_right(scale) -> None:
    logits, _, changed = drawn(400, 1, 0, 0.3)
    found = calibrate_flag(scale * logits, None, changed, pixels=1)
    assert found.error_after < 0.7 * found.error_before
    assert found.brier_after < found.brier_before
    assert found.error_after == found.bins.error
    assert sum(found.bins.counts) == 400


def test_no_pair_is_judged_by_a_fit_that_saw_it(monkeypatch) -> None:
    seen = []

    def spy(values, truth):
        seen.append({round(float(v), 9) for v in values[:, 0]})
        return fit_logistic(values, truth)

    monkeypatch.setattr(module, "fit_logistic", spy)
    logits, _, changed = drawn(37, 1, 0, 0)
    calibrate_flag(logits, None, changed, pixels=1)
    everything = {round(float(v), 9) for v in logits}
    assert seen[0] == everything, "the coefficients are of all pairs"
    left_out = [everything - part for part in seen[1:]]
    assert len(left_out) == 10 and set().union(*left_out) == everything
    assert sum(map(len, left_out)) == 37


def test_more_evidence_never_lowers_a_probability() -> None:
    """Evidence that speaks against a change by chance is left out, and so is a logit that does."""
    logits, evidence, changed = drawn(300, 1, -0.8, 0)
    found = calibrate_flag(logits, evidence, changed, pixels=1)
    assert found.a > 0 and found.b == 0
    turned = calibrate_flag(-logits, -evidence, changed, pixels=1)
    assert turned.a == 0 and turned.b > 0
    hopeless = fit_logistic(np.stack([-logits, evidence], 1), changed)
    assert (hopeless.slopes == 0).all()
    assert sigmoid(hopeless.offset) == pytest.approx(changed.mean())


def test_probabilities_rise_and_stay_inside() -> None:
    grid = np.linspace(-1e6, 1e6, 101)
    for logits, evidence in ((grid, np.zeros(101)), (np.zeros(101), grid), (grid, grid)):
        found = FLAG.probability(logits, evidence)
        assert (np.diff(found) >= 0).all()
        assert 0 < found.min() < 0.01 + sigmoid(-8)
        assert found.max() < 1
    scores = [SCORE.probability(x) for x in np.linspace(0, 1, 50)]
    assert (np.diff(scores) >= 0).all()
    assert 0 <= scores[0] < scores[-1] < 1


def test_separable_pairs_give_finite_coefficients() -> None:
    logits = np.concatenate([np.full(10, -30.0), np.full(10, 30.0)])
    found = calibrate_flag(logits, logits, logits > 0, pixels=1)
    assert np.isfinite([found.a, found.b, found.c]).all()
    assert (found.accuracy, found.precision, found.recall, found.threshold) == (1, 1, 1, 0.5)
    constant = calibrate_flag(np.zeros(20), None, logits > 0, pixels=1)
    assert constant.a == 0 and constant.probability(np.zeros(1), None)[0] == pytest.approx(0.5)


@pytest.mark.parametrize("changed", [0, 4, 16, 20])
def test_too_few_pairs_of_a_kind_fit_nothing(changed) -> None:
    truth = np.arange(20) < changed
    assert calibrate_flag(np.arange(20.0), None, truth, pixels=1) is None


def test_the_threshold_is_the_most_accurate_nearest_to_a_half() -> None:
    low = np.array([0.1, 0.2, 0.7, 0.9])
    assert best_threshold(low, np.array([False, False, True, True])) == 0.5
    assert best_threshold(low, np.array([False, True, True, True])) == pytest.approx(0.15)
    assert best_threshold(low, np.array([False, False, False, True])) == pytest.approx(0.8)
    assert best_threshold(np.array([0.6, 0.6]), np.array([True, False])) in (0.3, 0.5)
    rng = np.random.default_rng(1)
    values, truth = rng.random(60), rng.random(60) < 0.5
    best = ((values >= best_threshold(values, truth)) == truth).mean()
    assert best == max(((values >= t) == truth).mean() for t in np.linspace(0, 1, 2001))


# Scores


def spoken(count=60, seed=0):
    """References that are alike, right and wrong sentences, and likelihoods that tell them apart."""
    rng = np.random.default_rng(seed)
    captions, references, likelihoods, good = {}, {}, [], []
    for index in range(count):
        sentence = SENTENCES[index % len(SENTENCES)]
        references[f"p{index}"] = (sentence, f"{sentence} now", f"there {sentence}")
        right = bool(rng.random() < 0.6)
        captions[f"p{index}"] = sentence if right else "a boat sails away"
        likelihoods.append(rng.uniform(0.6, 0.9) if right else rng.uniform(0.3, 0.7))
        good.append(right)
    return np.array(likelihoods), captions, references, np.array(good)


def test_likelier_sentences_are_likelier_good() -> None:
    pytest.importorskip("pycocoevalcap")
    likelihoods, captions, references, good = spoken()
    found = calibrate_score(likelihoods, captions, references)
    assert found.good == pytest.approx(good.mean())
    assert found.slope > 0
    assert found.probability(0.85) > 0.8 > 0.3 > found.probability(0.4)
    assert found.brier_after < found.brier_before
    assert found.level > 0


def test_sentences_whose_references_stand_alone_do_not_count() -> None:
    """One reference has no others to agree with; its pair is left out, likelihood and all."""
    pytest.importorskip("pycocoevalcap")
    likelihoods, captions, references, _ = spoken()
    mixed, said = {}, {}
    for number, pair in enumerate(captions):
        mixed |= {f"alone{number}": ("a lonely lamp",), pair: references[pair]}
        said |= {f"alone{number}": "a lonely lamp", pair: captions[pair]}
    doubled = np.repeat(likelihoods, 2)
    doubled[::2] = 0.01
    assert calibrate_score(doubled, said, mixed) == calibrate_score(likelihoods, captions, references)
    assert calibrate_score(likelihoods, captions, {pair: ("x",) for pair in captions}) is None


def test_sentences_all_alike_fit_nothing() -> None:
    pytest.importorskip("pycocoevalcap")
    likelihoods, captions, references, _ = spoken()
    assert calibrate_score(likelihoods, {p: "a boat sails away" for p in captions}, references) is None


# Evidence


@pytest.mark.parametrize(("gsd", "pixels"), [(0.5, 200), (1.0, 50), (0.2, 1250), (10.0, 1), (30.0, 1)])
def test_fifty_square_metres_in_pixels(gsd, pixels) -> None:
    assert evidence_pixels(gsd) == pixels


def test_evidence_is_what_so_many_enlarged_pixels_reach() -> None:
    logits = torch.randn(3, 8, 6, generator=torch.Generator().manual_seed(0)) * 4
    large = enlarge_maps(logits, (32, 24)).flatten(1).numpy()
    for pixels in (1, 20, 767):
        expected = np.sort(large, axis=1)[:, ::-1][:, pixels - 1]
        np.testing.assert_allclose(change_evidence(logits, pixels).numpy(), expected, rtol=1e-6)
    np.testing.assert_allclose(change_evidence(logits, 10**6).numpy(), large.min(1), rtol=1e-6)


# Words for people


def test_cards_say_what_the_figures_mean() -> None:
    text = confidence_text(card(calibration=BOTH))
    for part in ("0.600 x logit + 0.700 x evidence -0.200", "20 pixels", "precision 0.950", "recall 0.930"):
        assert part in text
    assert "0.090 before, 0.040 after" in text and "CIDEr of at least 21.5" in text
    assert "| 0.80 | 0.90 | 30 |" in text
    assert "evidence" not in confidence_text(card(calibration=Calibration(replace(FLAG, b=0.0))))
    assert "not calibrated" in confidence_text(card())
    assert "not learnt" in confidence_text(card(changed_threshold=0.0, calibration=Calibration(None, SCORE)))


def test_one_line_of_confidence() -> None:
    told = "changed from P(changed) 0.50: precision 0.95, recall 0.93, calibration error 0.040 (validation)"
    assert confidence_line(card(calibration=Calibration(FLAG), changed_threshold=0.5)) == told
    assert confidence_line(card()) == confidence_line(card(calibration=Calibration(None, SCORE))) == ""


# What a start is calibrated by


def test_many_answers_move_a_calibration_to_the_truth_and_few_hardly() -> None:
    logits, _, changed = drawn(20_000, 0.5, 0, 1.5)
    assert moved(logits, changed) == pytest.approx((0.5, 1.5), abs=0.05)
    scale, shift = moved(logits[:6], changed[:6])
    assert abs(scale - 1) < 0.25 and abs(shift) < 1
    assert moved(np.empty(0), np.empty(0, bool)) == (1, 0)


def test_by_hand_a_shift_is_where_what_is_missed_equals_what_holds_it() -> None:
    """All logits 0: n answers that are all true pull by n * (1 - P), the prior holds by STAYS * shift."""
    scale, shift = moved(np.zeros(10), np.ones(10, bool))
    assert scale == 1
    assert 10 * (1 - sigmoid(shift)) == pytest.approx(STAYS * shift, rel=1e-4)


@pytest.mark.parametrize(("kept", "anew"), [(ENOUGH - 1, False), (ENOUGH, True)])
def test_the_calibration_of_a_start_moves_with_few_pairs_and_goes_with_enough(kept, anew) -> None:
    logits, evidence, changed = drawn(400, 0.8, 0.5, -0.4)
    part = np.concatenate([np.flatnonzero(~changed)[:kept], np.flatnonzero(changed)])
    given = logits[part], evidence[part], changed[part]
    start = replace(FLAG, a=1.6, b=1.0, c=-0.8, threshold=0.37)
    found = calibrate_flag(*given, pixels=200, start=start)
    if anew:
        assert found == calibrate_flag(*given, pixels=200)
        return
    scale, shift = moved(1.6 * given[0] + given[1] - 0.8, given[2])
    assert (found.a, found.b, found.c) == pytest.approx((1.6 * scale, scale, shift - 0.8 * scale))
    assert found.threshold == 0.37 and 0.4 < scale < 0.8
    assert 0.5 < found.accuracy < 1 and found.bins.counts and sum(found.bins.counts) == len(part)


def test_with_next_to_no_pairs_the_calibration_of_a_start_stays() -> None:
    truth = np.arange(20) < 4
    assert calibrate_flag(np.arange(20.0), None, truth, pixels=1, start=FLAG) is FLAG

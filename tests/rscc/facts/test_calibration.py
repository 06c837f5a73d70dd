from dataclasses import replace

import numpy as np
import pytest
from saved_models import FLAG, SENTENCES
from scipy.special import expit as sigmoid

from rscc.facts.calibration import LOGIT_LIMIT, Reliability, reliability
from rscc.training import confidence as module
from rscc.training.confidence import ENOUGH, calibrate_flag, calibrate_score
from rscc.training.logistic import best_threshold, fit_adaptation, fit_logistic

pytestmark = pytest.mark.usefixtures("tiny_registered")


def drawn(count, a, b, c):
    """Logits, evidence, and flags that are true as often as the coefficients say."""
    rng = np.random.default_rng(0)
    logits, evidence = rng.normal(0, 2, (2, count))
    return logits, evidence, rng.random(count) < sigmoid(a * logits + b * evidence + c)


def test_reliability_by_hand() -> None:
    probabilities = np.array([0.02, 0.08, 0.55, 0.57, 1.0])
    truth = np.array([False, True, True, True, False])
    found = reliability(probabilities, truth)
    assert found == Reliability((0.05, 0.56, 1.0), (0.5, 1.0, 0.0), (2, 2, 1))
    assert found.error == pytest.approx((2 * 0.45 + 2 * 0.44 + 1) / 5)
    assert reliability(probabilities, truth, bins=1).counts == (5,)


@pytest.mark.slow
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


def test_a_logit_beyond_the_limit_is_no_surer() -> None:
    far = FLAG.probability(np.array([-1e3, -LOGIT_LIMIT, LOGIT_LIMIT, 1e3]), np.zeros(4))
    assert far[0] == far[1] < far[2] == far[3]
    sure = FLAG.probability(np.zeros(2), np.array([LOGIT_LIMIT, 1e3]))
    assert FLAG.b > 0 and sure[0] == sure[1]


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


def test_likelier_sentences_are_likelier_good() -> None:
    """References that are alike, right and wrong sentences, and likelihoods that tell them apart."""
    pytest.importorskip("pycocoevalcap")
    rng = np.random.default_rng(0)
    captions, references, likelihoods, good = {}, {}, [], []
    for index in range(60):
        sentence = SENTENCES[index % len(SENTENCES)]
        references[f"p{index}"] = (sentence, f"{sentence} now", f"there {sentence}")
        right = bool(rng.random() < 0.6)
        captions[f"p{index}"] = sentence if right else "a boat sails away"
        likelihoods.append(rng.uniform(0.6, 0.9) if right else rng.uniform(0.3, 0.7))
        good.append(right)
    found = calibrate_score(np.array(likelihoods), captions, references)
    assert found.good == pytest.approx(np.mean(good))
    assert found.slope > 0
    assert found.probability(0.85) > 0.8 > 0.3 > found.probability(0.4)
    assert found.brier_after < found.brier_before
    assert found.level > 0


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
    scale, shift = fit_adaptation(1.6 * given[0] + given[1] - 0.8, given[2])
    assert (found.a, found.b, found.c) == pytest.approx((1.6 * scale, scale, shift - 0.8 * scale))
    assert found.threshold == 0.37 and 0.4 < scale < 0.8
    assert 0.5 < found.accuracy < 1 and found.bins.counts and sum(found.bins.counts) == len(part)

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
from fakes import card
from PIL import Image
from tiny_models import random_images, tiny_backbone, tiny_model

from rscc import calibration_fit as module
from rscc.calibrating import Said, calibrate, listen
from rscc.calibration import (
    Calibration,
    FlagCalibration,
    Reliability,
    ScoreCalibration,
    change_evidence,
    evidence_pixels,
    reliability,
)
from rscc.calibration_fit import best_threshold, calibrate_flag, calibrate_score, fit_logistic
from rscc.captioner import Captioner
from rscc.cards import card_text, confidence_line, confidence_text
from rscc.config import Config, build
from rscc.data.pairs import PairRecord, read_pair
from rscc.errors import ConfigInvalid
from rscc.finishing import calibrate_folder
from rscc.kept import Kept
from rscc.models import backbone
from rscc.models.blocks import enlarge_maps
from rscc.models.generation import ForbiddenWords
from rscc.structures import NO_CHANGE_CAPTION
from rscc.weights import ModelCard, open_model_folder, save_model_folder

BINS = Reliability((0.1, 0.8), (0.0, 0.9), (20, 30))
FLAG = FlagCalibration(
    **{"a": 0.6, "b": 0.7, "c": -0.2, "pixels": 20, "threshold": 0.5, "accuracy": 0.94, "precision": 0.95},
    **{"recall": 0.93, "error_before": 0.09, "error_after": 0.04, "brier_before": 0.1, "brier_after": 0.06},
    bins=BINS,
)
SCORE = ScoreCalibration(4.0, 3.0, 21.5, 0.6, 0.1, 0.05, 0.25, 0.2, BINS)
BOTH = Calibration(FLAG, SCORE)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


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


SENTENCES = [
    f"{number} {what} {where}"
    for number in ("two", "several", "many")
    for what in ("houses appear", "trees vanish", "roads cross")
    for where in ("at the river", "on the hill", "beside the field")
]


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


# Model folders and captioners


@pytest.fixture(autouse=True)
def tiny_registered(monkeypatch) -> None:
    monkeypatch.setitem(backbone.BACKBONES, "tiny", tiny_backbone)


def images(batch=4, height=64, width=64, seed=0):
    return tuple(date.numpy() for date in random_images(batch, height, width, seed=seed))


def folder(path, *, calibration=BOTH, **values):
    made = card(calibration=calibration, **values)
    return save_model_folder(
        path, tiny_model(seed=2), card=made, card_text=confidence_text(made), no_change_prefixes=[["a"]]
    ).path


@pytest.fixture
def captioner(tmp_path) -> Captioner:
    """Half of six random pairs are called changed."""
    made = Captioner.load(folder(tmp_path / "m"), device="cpu")
    probabilities = made.predict_change(*images(6)).changed_probability
    assert probabilities.std() > 1e-4
    made.card = replace(made.card, changed_threshold=float(np.sort(probabilities)[2:4].mean()))
    return made


@pytest.mark.parametrize(
    "calibration",
    [None, Calibration(), Calibration(FLAG), Calibration(None, SCORE), Calibration(FLAG, SCORE)],
)
def test_cards_keep_their_calibration(tmp_path, calibration) -> None:
    assert open_model_folder(folder(tmp_path / "m", calibration=calibration)).card.calibration == calibration
    plain = json.loads(json.dumps(asdict(card(calibration=calibration))))
    assert build(ModelCard, plain, "card").calibration == calibration


def test_folders_without_a_calibration_stay_readable(tmp_path) -> None:
    path = folder(tmp_path / "m", calibration=None)
    content = json.loads((path / "model.json").read_text())
    del content["card"]["calibration"]
    (path / "model.json").write_text(json.dumps(content))
    found = Captioner.load(path, device="cpu")
    assert found.card.calibration is None
    before, after = images(2)
    with torch.no_grad():
        features = found._model.encode(torch.from_numpy(before), torch.from_numpy(after))
    expected = features.changed_logits.sigmoid().numpy()
    np.testing.assert_allclose(found.predict_change(before, after).changed_probability, expected, atol=0.02)
    for caption in found.caption(before, after, assume_changed=True):
        assert caption.score == caption.likelihood


def test_a_wrong_calibration_is_refused() -> None:
    values = asdict(card(calibration=Calibration(FLAG)))
    values["calibration"]["changed"]["a"] = "steep"
    with pytest.raises(ConfigInvalid, match=r"card\.calibration\.changed\.a"):
        build(ModelCard, values, "card")
    with pytest.raises(ConfigInvalid, match=r"card\.calibration"):
        build(ModelCard, {**values, "calibration": 3}, "card")


@pytest.mark.parametrize(("height", "width"), [(64, 64), (32, 96), (16, 16)])
def test_the_captioner_applies_the_equation(captioner, height, width) -> None:
    before, after = images(3, height, width)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=captioner.bf16):
        features = captioner._model.encode(torch.from_numpy(before), torch.from_numpy(after))
    large = enlarge_maps(features.change_logits, (height, width)).flatten(1).numpy()
    evidence = np.sort(large, axis=1)[:, -FLAG.pixels]
    logits = features.changed_logits.float().numpy()
    found = captioner.predict_change(before, after).changed_probability
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, sigmoid(0.6 * logits + 0.7 * evidence - 0.2), rtol=1e-4)


def test_every_way_to_ask_gives_the_same_answer(captioner) -> None:
    before, after = images(6)
    found, said = captioner.describe(before, after)
    assert said == captioner.caption(before, after)
    probabilities = captioner.predict_change(before, after).changed_probability
    np.testing.assert_array_equal(found.changed_probability, probabilities)
    assert {c.changed for c in said} == {True, False}
    for i, (caption, probability) in enumerate(zip(said, probabilities, strict=True)):
        explained = captioner.explain(before[i], after[i])
        assert explained.caption.text == caption.text
        assert explained.changed_probability == pytest.approx(float(probability), abs=0.01)
        assert caption.changed == (probability >= captioner.card.changed_threshold)
        if caption.changed:
            expected = float(probability) * SCORE.probability(caption.likelihood)
        else:
            assert (caption.text, caption.likelihood) == (NO_CHANGE_CAPTION, None)
            expected = 1 - float(probability)
        assert caption.score == pytest.approx(expected, abs=1e-6)


def test_batched_equals_single(captioner) -> None:
    before, after = images(6)
    whole = captioner.predict_change(before, after).changed_probability
    alone = [captioner.predict_change(b[None], a[None]) for b, a in zip(before, after, strict=True)]
    np.testing.assert_allclose([one.changed_probability[0] for one in alone], whole, atol=0.01)


def test_a_known_change_is_scored_by_its_words_alone(captioner) -> None:
    before, after = images(6)
    heads = []
    captioner._model.change_head.register_forward_hook(lambda *_: heads.append(1))
    for caption in captioner.caption(before, after, assume_changed=True):
        assert caption.score == pytest.approx(SCORE.probability(caption.likelihood))
    assert not heads, "who knows that something changed needs no P(changed)"
    captioner.caption(before, after)
    assert heads


def test_maps_are_silenced_by_the_calibrated_probability(tmp_path) -> None:
    """The network's own P is about a half; mapped to almost 0 and almost 1, the map goes and comes."""
    sums = []
    for offset in (-20.0, 20.0):
        flag = replace(FLAG, a=0.1, b=0.0, c=offset)
        path = folder(tmp_path / f"m{offset}", calibration=Calibration(flag), localiser="attention")
        found = Captioner.load(path, device="cpu").predict_change(*images(2))
        sums.append(float(found.change_probability.sum()))
    assert sums[0] == 0 < sums[1]


# From validation pairs


def written(path, count=24):
    """Pairs of generated pictures, every other one changed."""
    records = []
    for index in range(count):
        before, after = (date[0].transpose(1, 2, 0) for date in images(1, seed=index))
        changed = index % 2 == 0
        names = [path / f"{index}_{date}.png" for date in "ab"]
        Image.fromarray(before).save(names[0])
        Image.fromarray(after if changed else before).save(names[1])
        sentence = SENTENCES[index % len(SENTENCES)]
        captions = (sentence, f"{sentence} now") if changed else ("there is no difference",) * 2
        records.append(PairRecord(str(index), *names, captions=captions, changed=changed))
    return records


@pytest.mark.parametrize("by_head", [True, False])
def test_a_model_listened_to_is_the_captioner_in_use(tmp_path, by_head) -> None:
    """What the fit saw of a pair is what the captioner makes of it: the same P(changed), the same words."""
    pytest.importorskip("pycocoevalcap")
    records, model = written(tmp_path), tiny_model(seed=2)
    forbidden = ForbiddenWords.of_words([["a"]], model.vocabulary)
    common = {"size": 64, "pixels": 20, "forbidden": forbidden, "kept": Kept(), "bf16": False}
    said = listen(model, records, by_head=by_head, **common)
    fitted = calibrate(said, records, pixels=20, flag_decides=True)
    assert fitted.changed is not None
    assert fitted.changed.pixels == 20
    if not by_head:
        assert said.evidence is None and fitted.changed.b == 0
    localiser = "change_head" if by_head else "attention"
    path = folder(tmp_path / "m", calibration=fitted, localiser=localiser, changed_threshold=1e-9)
    captioner = Captioner.load(path, device="cpu")
    captioner.bf16 = False
    pairs = [read_pair(record) for record in records]
    found, captions = captioner.describe(
        np.stack([pair.before for pair in pairs]), np.stack([pair.after for pair in pairs])
    )
    expected = fitted.changed.probability(said.logits, said.evidence)
    np.testing.assert_allclose(found.changed_probability, expected, atol=0.02)
    assert np.mean([a == b.text for a, b in zip(said.captions, captions, strict=True)]) > 0.8


def test_sentences_are_judged_where_a_change_is_seen_and_true(tmp_path) -> None:
    pytest.importorskip("pycocoevalcap")
    records = written(tmp_path, 100)
    rng = np.random.default_rng(0)
    changed = np.array([record.changed for record in records])
    right = rng.random(100) < 0.5
    captions = [r.captions[0] if ok else "a boat sails away" for r, ok in zip(records, right, strict=True)]
    said = Said(
        np.where(changed, 4.0, -4.0) + rng.normal(0, 3, 100), None, captions, rng.uniform(0.3, 0.8, 100)
    )
    found = calibrate(said, records, pixels=1, flag_decides=True)
    called = found.changed.probability(said.logits, None) >= found.changed.threshold
    assert sum(found.score.bins.counts) == (called & changed).sum() < changed.sum()
    assert found.score.good == pytest.approx(right[called & changed].mean())
    words = calibrate(said, records, pixels=1, flag_decides=False)
    assert words.changed is None
    assert sum(words.score.bins.counts) == changed.sum(), "the caption's words are the flag"


def test_a_folder_is_calibrated_anew(tmp_path) -> None:
    """Everything but the figures stays: weights, words, settings; the folder is as whole as before."""
    pytest.importorskip("pycocoevalcap")
    records = written(tmp_path)
    made = card(tile_size=64, scores={"cider": 50.0}, changed_threshold=0.3)
    page = card_text(made, Config())
    path = tmp_path / "m"
    runs = {"no_change_prefixes": [["a"]], "no_change_runs": [["is", "a"]]}
    save_model_folder(path, tiny_model(seed=2), card=made, card_text=page, **runs)
    before = open_model_folder(path)
    after = calibrate_folder(path, records)
    assert open_model_folder(path, check_hashes=True) == after
    flag = after.card.calibration.changed
    assert after.card.changed_threshold == flag.threshold
    assert after.card.scores == {"cider": 50.0, "flag_accuracy": round(flag.accuracy, 4)}
    assert after.card.weights_sha256 == before.card.weights_sha256
    assert after.no_change_prefixes == before.no_change_prefixes == (("a",),)
    assert after.no_change_runs == before.no_change_runs == (("is", "a"),)
    text = (path / "CARD.md").read_text()
    assert text == card_text(after.card, Config()) != page
    assert Captioner.load(path, device="cpu").card == after.card
    assert calibrate_folder(path, records) == after
    assert not list(path.glob("*.partial"))


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
    line = confidence_line(card(calibration=Calibration(FLAG), changed_threshold=0.5))
    assert (
        line
        == "changed from P(changed) 0.50: precision 0.95, recall 0.93, calibration error 0.040 (validation)"
    )
    assert confidence_line(card()) == confidence_line(card(calibration=Calibration(None, SCORE))) == ""

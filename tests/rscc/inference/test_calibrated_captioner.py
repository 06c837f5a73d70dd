"""Captioners whose probabilities are calibrated, and calibrations fitted to pairs."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
from calibrations import BOTH, FLAG, SCORE, SENTENCES
from fakes import card
from PIL import Image
from saved_models import edit, saved
from scipy.special import expit
from tiny_models import random_arrays, tiny_model

from rscc.captioner import Captioner
from rscc.config import build
from rscc.data.pairs import PairRecord, read_pair
from rscc.errors import ConfigInvalid
from rscc.inference.calibration import Calibration
from rscc.model_folder import ModelCard, open_model_folder
from rscc.models.shared.blocks import enlarge_maps
from rscc.structures import NO_CHANGE_CAPTION
from rscc.training.caching import Caches
from rscc.training.calibration import Answers, answer_pairs, calibrate
from rscc.training.card import confidence_text

pytestmark = pytest.mark.usefixtures("tiny_registered")


def folder(path, *, calibration=BOTH, **values):
    text = confidence_text(card(calibration=calibration, **values))
    return saved(path, text=text, prefixes=[["a"]], calibration=calibration, **values).path


@pytest.fixture
def captioner(tmp_path) -> Captioner:
    """Half of six random pairs are called changed."""
    loaded = Captioner.load(folder(tmp_path / "m"), device="cpu")
    probabilities = loaded.predict_change(*random_arrays(6)).changed_probability
    assert probabilities.std() > 1e-4
    loaded.card = replace(loaded.card, changed_threshold=float(np.sort(probabilities)[2:4].mean()))
    return loaded


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
    edit(card__calibration=...)(path)
    found = Captioner.load(path, device="cpu")
    assert found.card.calibration is None
    before, after = random_arrays(2)
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
    before, after = random_arrays(3, height, width)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=captioner.bf16):
        features = captioner._model.encode(torch.from_numpy(before), torch.from_numpy(after))
    large = enlarge_maps(features.change_logits, (height, width)).flatten(1).numpy()
    evidence = np.sort(large, axis=1)[:, -FLAG.pixels]
    logits = features.changed_logits.float().numpy()
    found = captioner.predict_change(before, after).changed_probability
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expit(0.6 * logits + 0.7 * evidence - 0.2), rtol=1e-4)


def test_every_way_to_ask_gives_the_same_answer(captioner) -> None:
    before, after = random_arrays(6)
    found, captions = captioner.describe(before, after)
    assert captions == captioner.caption(before, after)
    probabilities = captioner.predict_change(before, after).changed_probability
    np.testing.assert_array_equal(found.changed_probability, probabilities)
    assert {c.changed for c in captions} == {True, False}
    for i, (caption, probability) in enumerate(zip(captions, probabilities, strict=True)):
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
    before, after = random_arrays(6)
    whole = captioner.predict_change(before, after).changed_probability
    alone = [captioner.predict_change(b[None], a[None]) for b, a in zip(before, after, strict=True)]
    np.testing.assert_allclose([one.changed_probability[0] for one in alone], whole, atol=0.01)


def test_a_known_change_is_scored_by_its_words_alone(captioner) -> None:
    before, after = random_arrays(6)
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
        found = Captioner.load(path, device="cpu").predict_change(*random_arrays(2))
        sums.append(float(found.change_probability.sum()))
    assert sums[0] == 0 < sums[1]


def written(path, count=24):
    """Pairs of generated pictures, every other one changed."""
    records = []
    for index in range(count):
        before, after = (date[0].transpose(1, 2, 0) for date in random_arrays(1, seed=index))
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
    rules = model.search_rules([["a"]])
    answers = answer_pairs(
        model, records, by_head=by_head, size=64, pixels=20, rules=rules, caches=Caches(), bf16=False
    )
    fitted = calibrate(answers, records, pixels=20, flag_decides=True)
    assert fitted.changed is not None
    assert fitted.changed.pixels == 20
    if not by_head:
        assert answers.evidence is None and fitted.changed.b == 0
    localiser = "change_head" if by_head else "attention"
    path = folder(tmp_path / "m", calibration=fitted, localiser=localiser, changed_threshold=1e-9)
    captioner = Captioner.load(path, device="cpu")
    captioner.bf16 = False
    pairs = [read_pair(record) for record in records]
    found, captions = captioner.describe(
        np.stack([pair.before for pair in pairs]), np.stack([pair.after for pair in pairs])
    )
    expected = fitted.changed.probability(answers.logits, answers.evidence)
    np.testing.assert_allclose(found.changed_probability, expected, atol=0.02)
    assert np.mean([a == b.text for a, b in zip(answers.captions, captions, strict=True)]) > 0.8


def test_sentences_are_judged_where_a_change_is_seen_and_true(tmp_path) -> None:
    pytest.importorskip("pycocoevalcap")
    records = written(tmp_path, 100)
    rng = np.random.default_rng(0)
    changed = np.array([record.changed for record in records])
    right = rng.random(100) < 0.5
    captions = [r.captions[0] if ok else "a boat sails away" for r, ok in zip(records, right, strict=True)]
    answers = Answers(
        np.where(changed, 4.0, -4.0) + rng.normal(0, 3, 100), None, captions, rng.uniform(0.3, 0.8, 100)
    )
    found = calibrate(answers, records, pixels=1, flag_decides=True)
    called = found.changed.probability(answers.logits, None) >= found.changed.threshold
    assert sum(found.score.bins.counts) == (called & changed).sum() < changed.sum()
    assert found.score.good == pytest.approx(right[called & changed].mean())
    words = calibrate(answers, records, pixels=1, flag_decides=False)
    assert words.changed is None
    assert sum(words.score.bins.counts) == changed.sum(), "the caption's words are the flag"

"""Captioners whose probabilities are calibrated, and calibrations fitted to pairs."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from captioners import card
from PIL import Image
from saved_models import BOTH, FLAG, SCORE, SENTENCES, saved
from scipy.special import expit
from tiny_models import random_arrays

from rscc.captioner import Captioner
from rscc.data.pairs import PairRecord
from rscc.models.shared.blocks import enlarge_maps
from rscc.structures import NO_CHANGE_CAPTION
from rscc.training.card_text import confidence_text
from rscc.training.confidence import Answers, calibrate

pytestmark = pytest.mark.usefixtures("tiny_registered")


@pytest.fixture
def captioner(tmp_path) -> Captioner:
    """Half of six random pairs are called changed."""
    text = confidence_text(card(calibration=BOTH))
    folder = saved(tmp_path / "m", text=text, prefixes=[["a"]], calibration=BOTH)
    loaded = Captioner.load(folder.path, device="cpu")
    probabilities = loaded.predict_change(*random_arrays(6)).changed_probability
    assert probabilities.std() > 1e-4
    loaded.card = replace(loaded.card, changed_threshold=float(np.sort(probabilities)[2:4].mean()))
    return loaded


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

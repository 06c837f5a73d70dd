from dataclasses import replace

import numpy as np
import pytest
import torch
from saved_models import saved, with_threshold
from tiny_models import random_arrays, tiny_model

from rscc import captioner as captioner_module
from rscc.captioner import Captioner
from rscc.errors import DeviceUnavailable
from rscc.facts import pair_captions
from rscc.structures import NO_CHANGE_CAPTION, Caption

pytestmark = pytest.mark.usefixtures("tiny_registered")


@pytest.fixture
def folder(tmp_path):
    """A model folder whose P(changed) differs between pairs; "a ..." and "there is no" are forbidden."""
    prefixes = [["a"], ["there", "is", "no"]]
    return saved(tmp_path / "tiny", prefixes=prefixes, name="tiny", threshold=0.4).path


@pytest.fixture
def captioner(folder) -> Captioner:
    return Captioner.load(folder, device="cpu")


def test_the_threshold_of_the_card_decides(captioner) -> None:
    before, after = random_arrays(6)
    probabilities = captioner.predict_change(before, after).changed_probability
    middle = float(np.sort(probabilities)[2:4].mean())
    assert probabilities.std() > 0
    found = with_threshold(captioner, middle).caption(before, after)
    assert [c.changed for c in found] == (probabilities >= middle).tolist()
    for caption, probability in zip(found, probabilities, strict=True):
        if not caption.changed:
            assert caption.text == NO_CHANGE_CAPTION
            assert caption.alternatives == ()
            assert caption.score == pytest.approx(1 - probability, abs=0.01)


def test_the_detector_of_veils_knows_the_size_of_pixels(captioner, monkeypatch) -> None:
    monkeypatch.setattr(captioner_module, "load_veil_detector", lambda device, gsd=0.5: gsd)
    captioner.card = replace(captioner.card, gsd=0.75)
    assert captioner.veils == 0.75


def test_captions_are_words_with_scores_and_other_alternatives(captioner) -> None:
    found = captioner.caption(*random_arrays(8), beams=4, assume_changed=True)
    assert len(found) == 8
    assert any(c.alternatives for c in found)
    for caption in found:
        assert isinstance(caption, Caption)
        assert 0 < caption.score <= 1
        texts = (caption.text, *caption.alternatives)
        assert len(set(texts)) == len(texts) <= 4
        for text in texts:
            assert text and text == text.strip().lower()
            assert "<" not in text
            assert not f"{text} ".startswith(("a ", "there is no ")), "a forbidden beginning"


@pytest.mark.parametrize(
    ("word", "without", "rules"),
    [
        ("a", {"prefixes": []}, {"prefixes": [["a"]]}),
        ("is", {"prefixes": [["is"]]}, {"prefixes": [["is"]], "runs": [["is"]]}),
    ],
)
@pytest.mark.slow
def test_forbidden_beginnings_begin_no_caption_and_runs_stand_nowhere(tmp_path, word, without, rules) -> None:
    """Without the rule the same model says the word: as the first one, or in the middle of a sentence."""
    model = tiny_model(seed=2)
    with torch.no_grad():
        model.decoder.logits.bias[model.vocabulary.encode(word, 3)[1]] += 3 if word == "a" else 1
    spoken = []
    for name, settings in (("without", without), ("with", rules)):
        folder = saved(tmp_path / name, model, **settings)
        assert folder.no_change_runs == tuple(map(tuple, settings.get("runs", ())))
        found = Captioner.load(folder.path, device="cpu").caption(
            *random_arrays(8), beams=4, assume_changed=True
        )
        texts = [text.split() for one in found for text in (one.text, *one.alternatives)]
        spoken.append({text for words in texts for text in (words[:1] if word == "a" else words)})
    assert word in spoken[0]
    assert word not in spoken[1]


@pytest.mark.parametrize("device", ["cuda:7", "mps", "hpu", "meta", "quantum", ""])
def test_a_missing_device_is_said(folder, device) -> None:
    with pytest.raises(DeviceUnavailable) as caught:
        Captioner.load(folder, device=device)
    assert device in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_model_that_never_learnt_the_flag_says_itself_that_nothing_changed(captioner) -> None:
    """A threshold of 0 as of models trained without unchanged pairs: the untrained flag silences nothing."""
    words = captioner._model.vocabulary
    with torch.no_grad():
        captioner._model.decoder.logits.bias[words.encode("no", 3)[1]] = 100
    captioner._rules = captioner._model.search_rules([["no"]])
    flagged = with_threshold(captioner, 1e-9).caption(*random_arrays())
    assert all(c.changed and not c.text.startswith("no") for c in flagged)
    unflagged = with_threshold(captioner, 0.0)
    assert {(c.text.split()[0], c.changed) for c in unflagged.caption(*random_arrays())} == {("no", False)}
    found = unflagged.caption(*random_arrays(), assume_changed=True)
    assert all(c.changed and not c.text.startswith("no") for c in found)


def test_words_of_place_are_ranked_last_where_they_mean_nothing(captioner, monkeypatch) -> None:
    """A word of the best sentence, if it stood for a place: no sentence with it comes before one without."""
    before, after = random_arrays(8)
    plain = captioner.caption(before, after, beams=4, assume_changed=True)
    word = next(
        word
        for caption in plain
        for word in caption.text.split()
        if any(word not in text.split() for text in caption.alternatives)
    )
    monkeypatch.setattr(pair_captions, "PLACE_WORDS", {word})
    assert captioner.caption(before, after, beams=4, assume_changed=True) == plain
    placeless = captioner.caption(before, after, beams=4, assume_changed=True, placeless=True)
    assert placeless != plain
    for one in placeless:
        has = [word in text.split() for text in (one.text, *one.alternatives)]
        assert has == sorted(has)


def test_the_width_of_the_search_reaches_the_decoder(captioner, monkeypatch) -> None:
    widths = []
    monkeypatch.setattr(captioner, "_by_decoder", lambda features, beams=3, **_: widths.append(beams))
    for call in (captioner.describe, captioner.caption):
        call(*random_arrays(1, 64, 64), beams=2)
    assert widths == [2, 2]

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from fakes import card
from tiny_models import random_images, tiny_backbone, tiny_model

import rscc
from rscc import weights
from rscc.captioner import Captioner
from rscc.errors import DeviceUnavailable, ModelFolderInvalid, ModelNotFound
from rscc.models import backbone
from rscc.models.generation import ForbiddenWords
from rscc.structures import NO_CHANGE_CAPTION, Caption
from rscc.weights import available_models, find_model, open_model_folder, save_model_folder


@pytest.fixture(autouse=True)
def tiny_registered(monkeypatch) -> None:
    monkeypatch.setitem(backbone.BACKBONES, "tiny", tiny_backbone)


@pytest.fixture
def folder(tmp_path):
    """A model folder whose P(changed) differs between pairs; "a ..." and "there is no" are forbidden."""
    return save_model_folder(
        tmp_path / "tiny",
        tiny_model(seed=2),
        card=card(name="tiny", threshold=0.4),
        card_text="# tiny\n",
        no_change_prefixes=[["a"], ["there", "is", "no"]],
    ).path


@pytest.fixture
def captioner(folder) -> Captioner:
    return Captioner.load(folder, device="cpu")


def images(batch=4, height=64, width=64, seed=0) -> tuple[np.ndarray, np.ndarray]:
    before, after = random_images(batch, height, width, seed=seed)
    return before.numpy(), after.numpy()


def with_threshold(captioner, value) -> Captioner:
    captioner.card = replace(captioner.card, changed_threshold=value)
    return captioner


@pytest.mark.parametrize(("height", "width"), [(64, 64), (32, 96)])
def test_change_is_predicted_per_pixel_and_per_pair(captioner, height, width) -> None:
    found = captioner.predict_change(*images(3, height, width))
    assert found.change_probability.shape == (3, height, width)
    assert found.changed_probability.shape == (3,)
    for values in (found.change_probability, found.changed_probability):
        assert values.dtype == np.float32
        assert values.min() >= 0
        assert values.max() <= 1
        assert values.std() > 0.001


def test_prediction_is_that_of_the_model(captioner, folder) -> None:
    before, after = images(2)
    model = weights.load_model(open_model_folder(folder))
    with torch.no_grad():
        features = model.encode(torch.from_numpy(before), torch.from_numpy(after))
    found = captioner.predict_change(before, after)
    np.testing.assert_allclose(
        found.changed_probability, features.changed_logits.sigmoid().numpy(), atol=0.02
    )
    # Enlarged fourfold, a pixel of the grid lies between the middle four of its block.
    middle = found.change_probability.reshape(2, 16, 4, 16, 4)[:, :, 1:3, :, 1:3].mean((2, 4))
    grid = features.change_logits.sigmoid().numpy()
    assert np.corrcoef(middle[:, 1:-1, 1:-1].ravel(), grid[:, 1:-1, 1:-1].ravel())[0, 1] > 0.8


def test_arrays_may_be_views_and_stay_as_they_are(captioner) -> None:
    before, after = images(2)
    kept = before.copy()
    turned = before[..., ::-1]
    found = captioner.predict_change(turned, after)
    expected = captioner.predict_change(np.ascontiguousarray(turned), after)
    np.testing.assert_array_equal(found.change_probability, expected.change_probability)
    readonly = before.copy()
    readonly.flags.writeable = False
    np.testing.assert_array_equal(before, kept)


def test_batched_equals_single(captioner) -> None:
    before, after = images(4)
    whole, sentences = captioner.predict_change(before, after), captioner.caption(before, after)
    for i in range(4):
        one = captioner.predict_change(before[i : i + 1], after[i : i + 1])
        np.testing.assert_allclose(one.change_probability[0], whole.change_probability[i], atol=0.01)
        assert captioner.caption(before[i : i + 1], after[i : i + 1])[0].text == sentences[i].text


def test_the_threshold_of_the_card_decides(captioner) -> None:
    before, after = images(6)
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


def test_the_word_of_the_caller_counts_more_than_the_flag(captioner) -> None:
    silent = with_threshold(captioner, 2.0)
    assert {c.text for c in silent.caption(*images())} == {NO_CHANGE_CAPTION}
    found = silent.caption(*images(), assume_changed=True)
    assert all(c.changed and c.text != NO_CHANGE_CAPTION for c in found)


def test_a_focus_shuts_out_what_lies_beside_it(captioner) -> None:
    before, after = images(3, 64, 64)
    left = np.zeros((3, 64, 64), np.float32)
    left[..., :32] = 1
    cut = after.copy()
    cut[..., 32:] = before[..., 32:]

    def said(later, focus=None):
        found = captioner.caption(before, later, assume_changed=True, focus=focus)
        return [(one.text, round(one.likelihood, 5)) for one in found]

    assert said(after, left) == said(cut, left) != said(after)
    assert said(after, np.ones_like(left)) == said(after)


def test_captions_are_words_with_scores_and_other_alternatives(captioner) -> None:
    found = captioner.caption(*images(8), beams=4, assume_changed=True)
    assert len(found) == 8
    assert any(c.alternatives for c in found)
    for caption in found:
        assert isinstance(caption, Caption)
        assert 0 < caption.score <= 1
        texts = (caption.text, *caption.alternatives)
        assert len(set(texts)) == len(texts) <= 4
        for text in texts:
            assert text == text.strip().lower()
            assert text
            assert "<" not in text
            assert text.split()[0] != "a", "a forbidden beginning"
            assert not text.startswith("there is no")


def test_runs_of_no_change_captions_occur_nowhere(tmp_path) -> None:
    model = tiny_model(seed=2)
    with torch.no_grad():
        model.decoder.logits.bias[model.vocabulary.encode("is", 3)[1]] += 1
    texts = []
    for runs in ([], [["is"]]):
        path = tmp_path / f"{len(runs)}"
        folder = save_model_folder(
            path, model, card=card(), card_text="", no_change_prefixes=[["is"]], no_change_runs=runs
        )
        assert folder.no_change_runs == tuple(map(tuple, runs))
        found = Captioner.load(path, device="cpu").caption(*images(8), beams=4, assume_changed=True)
        texts.append([text.split() for c in found for text in (c.text, *c.alternatives)])
    assert any("is" in words for words in texts[0]), "in the middle of a sentence"
    assert not any("is" in words for words in texts[1])


def test_a_folder_of_an_earlier_version_has_no_runs(folder) -> None:
    file = folder / "model.json"
    content = json.loads(file.read_text())
    del content["no_change_runs"]
    file.write_text(json.dumps(content))
    assert open_model_folder(folder).no_change_runs == ()


def test_without_the_rule_the_forbidden_beginnings_occur(tmp_path) -> None:
    """The check above would be empty if this model never began with the forbidden word."""
    model = tiny_model(seed=2)
    with torch.no_grad():
        model.decoder.logits.bias[model.vocabulary.encode("a", 3)[1]] += 3
    texts = []
    for prefixes in ([], [["a"]]):
        path = tmp_path / f"{len(prefixes)}"
        save_model_folder(path, model, card=card(), card_text="", no_change_prefixes=prefixes)
        found = Captioner.load(path, device="cpu").caption(*images(), assume_changed=True)
        texts.append([c.text.split()[0] for c in found])
    assert "a" in texts[0]
    assert "a" not in texts[1]


def test_encoded_pairs_get_the_captions_of_their_images(captioner) -> None:
    before, after = images()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=captioner.bf16):
        features = captioner._model.encode(torch.from_numpy(before), torch.from_numpy(after))
    for settings in ({}, {"beams": 1}, {"assume_changed": True}):
        assert captioner.say(features, **settings) == captioner.caption(before, after, **settings)


def test_a_beam_of_one_gives_no_alternatives(captioner) -> None:
    found = captioner.caption(*images(3), beams=1, assume_changed=True)
    assert all(c.alternatives == () and c.text for c in found)


def test_captions_do_not_change_from_call_to_call(captioner, folder) -> None:
    first = captioner.caption(*images(), assume_changed=True)
    assert captioner.caption(*images(), assume_changed=True) == first
    assert Captioner.load(str(folder)).caption(*images(), assume_changed=True) == first


def test_no_gradients_are_kept_and_the_mode_is_evaluation(captioner) -> None:
    captioner.predict_change(*images(1))
    assert captioner.device.type == "cpu"
    assert all(p.grad is None for p in captioner._model.parameters())
    assert not captioner._model.training


@pytest.mark.parametrize("device", ["cuda:7", "mps", "hpu", "meta", "quantum", ""])
def test_a_missing_device_is_said(folder, device) -> None:
    with pytest.raises(DeviceUnavailable, match="cpu") as caught:
        Captioner.load(folder, device=device)
    assert device in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unknown_model_names_the_known_ones(tmp_path, monkeypatch, folder) -> None:
    monkeypatch.setattr(weights, "SHIPPED", folder.parent)
    with pytest.raises(ModelNotFound, match=r"rscc-huge.*shipped models: tiny"):
        Captioner.load("rscc-huge")
    monkeypatch.setattr(weights, "SHIPPED", tmp_path / "nothing")
    with pytest.raises(ModelNotFound, match="none"):
        Captioner.load(tmp_path)


def test_shipped_models_are_found_by_name(folder, monkeypatch) -> None:
    monkeypatch.setattr(weights, "SHIPPED", folder.parent)
    (folder.parent / "empty").mkdir()
    assert [one.name for one in available_models()] == ["tiny"]
    assert find_model("tiny") == folder
    assert Captioner.load("tiny", device="cpu").card.threshold == 0.4


def test_loading_checks_every_file(folder) -> None:
    (folder / "CARD.md").write_text("other words")
    with pytest.raises(ModelFolderInvalid, match=r"CARD\.md"):
        Captioner.load(folder, device="cpu")


def test_the_public_names_lead_here() -> None:
    assert rscc.Captioner is Captioner
    assert rscc.available_models is available_models


def test_a_model_that_never_learnt_the_flag_says_itself_that_nothing_changed(captioner) -> None:
    """A threshold of 0 as of models trained without unchanged pairs: the untrained flag silences nothing."""
    words = captioner._model.vocabulary
    with torch.no_grad():
        captioner._model.decoder.logits.bias[words.encode("no", 3)[1]] = 100
    captioner._forbidden = ForbiddenWords.of_words([["no"]], words)
    flagged = with_threshold(captioner, 1e-9).caption(*images())
    assert all(c.changed and not c.text.startswith("no") for c in flagged)
    unflagged = with_threshold(captioner, 0.0)
    assert {(c.text.split()[0], c.changed) for c in unflagged.caption(*images())} == {("no", False)}
    found = unflagged.caption(*images(), assume_changed=True)
    assert all(c.changed and not c.text.startswith("no") for c in found)


def test_words_of_place_are_passed_over_where_they_say_nothing(captioner) -> None:
    """A word of the best sentence, if it stood for a place: no sentence with it comes before one without."""
    before, after = images(4)
    plain = captioner.caption(before, after, beams=4, assume_changed=True)
    (word, *_) = set(plain[0].text.split()) - set(plain[0].alternatives[0].split())
    captioner._place_words = [captioner._model.vocabulary.words.index(word)]
    assert captioner.caption(before, after, beams=4, assume_changed=True) == plain
    placeless = captioner.caption(before, after, beams=4, assume_changed=True, placeless=True)
    assert placeless != plain
    for one in placeless:
        has = [word in text.split() for text in (one.text, *one.alternatives)]
        assert has == sorted(has)


def test_the_words_of_place_are_those_of_the_vocabulary(captioner) -> None:
    words = captioner._model.vocabulary.words
    assert {words[place] for place in captioner._place_words} == {"left", "right", "top", "bottom", "side"}

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from saved_models import saved
from tiny_models import random_arrays, random_images, tiny_model
from torch import nn

from rscc.captioner import Captioner
from rscc.facts.explanations import explain_words
from rscc.models.papers import MODELS

SENTENCE = "a house appears near the road"


def encoded(model):
    with torch.no_grad():
        return model.encode(*random_images(1, 32, 96))


@pytest.fixture
def captioner(tiny_registered, tmp_path) -> Captioner:
    return Captioner.load(saved(tmp_path / "tiny", prefixes=[]).path, device="cpu")


@torch.no_grad()
@pytest.mark.slow
def test_the_decoders_attention_is_the_mean_over_heads_and_layers() -> None:
    model = tiny_model(decoder_layers=2, heads=2)
    features = encoded(model)
    memory = model.memory(features)
    tokens = torch.tensor([model.vocabulary.encode(SENTENCE, 9)[:-1]])
    seen: list[torch.Tensor] = []

    def remember(part: nn.Module, arguments: tuple) -> None:
        seen.append(part.weights(arguments[0], part.project(arguments[1])[0])[0])

    hooks = [part.cross_attention.register_forward_pre_hook(remember) for part in model.decoder.layers]
    model.decoder(memory, tokens)
    for hook in hooks:
        hook.remove()
    found = model.decoder.attention(memory, tokens)
    torch.testing.assert_close(found[0], torch.cat(seen).mean(0))
    torch.testing.assert_close(found.sum(-1), torch.ones(1, tokens.shape[1]))


@torch.no_grad()
def test_words_have_their_probability_and_their_step_of_attention() -> None:
    model = tiny_model()
    features = encoded(model)
    words = explain_words(model, features, SENTENCE)
    assert [word.text for word in words] == SENTENCE.split()
    memory = model.memory(features)
    ids = model.vocabulary.encode(SENTENCE, 10)
    cache = model.decoder.start(memory)
    for step, word in enumerate(words):
        logits = model.decoder.step(torch.tensor([ids[step]]), cache)
        assert word.probability == pytest.approx(float(logits.softmax(-1)[0, ids[step + 1]]), abs=1e-5)
    # What comes later has no influence on where a word looks.
    shorter = explain_words(model, features, "a house appears")
    for one, other in zip(shorter, words, strict=False):
        np.testing.assert_allclose(one.ground, other.ground, atol=1e-6)
    assert np.abs(words[0].ground - words[1].ground).max() > 1e-4


@torch.no_grad()
@pytest.mark.parametrize("paper", MODELS)
def test_every_model_says_where_its_words_look(paper) -> None:
    model = tiny_model(paper)
    features = encoded(model)
    assert len(model.entities(features)) == 1
    assert all(maps.shape[0] == 1 and maps.ndim == 3 for maps in model.attention_maps(features).values())
    for word in explain_words(model, features, SENTENCE):
        assert 0 < word.probability < 1
        assert word.ground.shape == features.pair.grid
        assert word.ground.min() >= 0
        assert 0 < word.ground.sum() < 1 + 1e-5


@pytest.mark.parametrize("assume_changed", [False, True])
def test_a_captioner_explains_what_it_captions(captioner, assume_changed) -> None:
    captioner.card = replace(captioner.card, changed_threshold=0.999)
    before, after = random_arrays(1, seed=4)
    found = captioner.explain(before[0], after[0], assume_changed=assume_changed)
    (caption,) = captioner.caption(before, after, assume_changed=assume_changed)
    assert found.caption == caption
    assert found.caption.changed == assume_changed
    assert " ".join(word.text for word in found.words) == caption.text
    prediction = captioner.predict_change(before, after)
    np.testing.assert_array_equal(found.change, prediction.change_probability[0])
    assert found.changed_probability == pytest.approx(float(prediction.changed_probability[0]))
    assert found.difference.shape == (4, 4) == found.words[0].ground.shape
    assert 0 <= found.difference.min() < found.difference.max() <= 2
    assert found.entities == () and dict(found.attention) == {}

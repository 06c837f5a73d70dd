"""RDD+ACR against slow, literal transcriptions of the paper's equations, index by index."""

import math

import numpy as np
import pytest
import torch
from tiny_models import (
    CAPTIONS,
    TinyTextEncoder,
    full_batch,
    idle_parameters,
    joint_losses,
    pair_view,
    randomise,
    randoms,
    slow_attention,
    slow_feed_forward,
    slow_info_nce,
    slow_linear,
    slow_norm,
    tiny_model,
    values,
)

from rscc.errors import ConfigInvalid
from rscc.models.rdd import ATTRIBUTES, Distilling, DistillingBlock, RddOptions
from rscc.models.shared.losses import caption_cross_entropy, info_nce

WIDTH, HEADS = 8, 2


def slow_block(block: DistillingBlock, vectors: np.ndarray, source: np.ndarray) -> tuple:
    source = slow_norm(block.norms[0], slow_attention(block.self_attention, source, source))
    raw = slow_norm(block.norms[1], slow_attention(block.cross_attention, vectors, source))
    return slow_norm(block.norms[2], slow_feed_forward(block.feed_forward, raw) + raw), source


def slow_distilling(module: Distilling, source: np.ndarray, steps: int) -> np.ndarray:
    vectors = values(module.vectors)
    for _ in range(steps):
        vectors, source = slow_block(module.block, vectors, source)
    return vectors


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_distilling_is_equations_6_to_8_with_one_block_for_all_steps(steps) -> None:
    module = Distilling(vectors=4, steps=steps, width=WIDTH, heads=HEADS, dropout=0.0).eval()
    randomise(module, 5, 0.5)
    source = randoms(2, 6, WIDTH)
    fast = values(module(source))
    assert fast.shape == (2, 4, WIDTH)
    for sample in range(2):
        slow = slow_distilling(module, values(source[sample]), steps)
        np.testing.assert_allclose(fast[sample], slow, atol=1e-5)
    count = sum(p.numel() for p in module.parameters())
    single = Distilling(vectors=4, steps=1, width=WIDTH, heads=HEADS, dropout=0.0)
    assert count == sum(p.numel() for p in single.parameters()), "weights are shared over the steps"


def variant(attributes: str = "N+V", **values):
    sizes = {"object_vectors": 4, "action_vectors": 3, "distilling_steps": 2, "temperature": 0.5}
    return tiny_model(
        width=WIDTH,
        heads=HEADS,
        max_words=13,
        text_encoder=TinyTextEncoder(),
        options=sizes | {"attributes": attributes} | values,
    )


def slow_variant(model, attributes: str, coarse: np.ndarray) -> tuple:
    """Rows of Table 4: objects and actions, None where they are left out."""
    objects = actions = None
    if attributes == "V+N":
        actions = slow_distilling(model.action_distilling, coarse, 2)
    if "N" in attributes:
        objects = slow_distilling(model.object_distilling, actions if attributes == "V+N" else coarse, 2)
    if "V" in attributes and attributes != "V+N":
        actions = slow_distilling(model.action_distilling, objects if attributes == "N+V" else coarse, 2)
    return objects, actions


def test_direct_subtraction_is_equation_2_alone() -> None:
    model = variant("direct-sub")
    before, after = randoms(2, 6, WIDTH), randoms(2, 6, WIDTH, seed=1)
    torch.testing.assert_close(model.encode_pair(pair_view(before, after)).tokens, before - after)


@pytest.mark.parametrize("attributes", [one for one in ATTRIBUTES if one != "direct-sub"])
def test_every_row_of_table_4_is_equations_2_to_10_on_what_it_distils(attributes) -> None:
    model = variant(attributes)
    before, after = randoms(2, 6, WIDTH), randoms(2, 6, WIDTH, seed=1)
    features = model.encode_pair(pair_view(before, after))
    assert features.tokens.shape == (2, 6 + 4 * ("N" in attributes) + 3 * ("V" in attributes), WIDTH)
    for sample in range(2):
        f_bef, f_aft = values(before[sample]), values(after[sample])
        enriched = [slow_attention(model.enrich, image, f_bef - f_aft) for image in (f_bef, f_aft)]
        coarse = slow_linear(model.join, np.concatenate(enriched, axis=1))
        objects, actions = slow_variant(model, attributes, coarse)
        x = np.concatenate([scale for scale in (coarse, objects, actions) if scale is not None])
        x = slow_norm(model.fusion_norms[0], x + slow_attention(model.fusion_attention, x, x))
        x = slow_norm(model.fusion_norms[1], x + slow_feed_forward(model.fusion_feed_forward, x))
        np.testing.assert_allclose(values(features.tokens[sample]), x, atol=2e-5)
        for pooled, regions in ((features.objects, objects), (features.actions, actions)):
            assert (pooled is None) == (regions is None)
            if regions is not None:
                np.testing.assert_allclose(values(pooled[sample]), regions.mean(0), atol=2e-5)


@pytest.mark.parametrize("attributes", [one for one in ATTRIBUTES if one != "direct-sub"])
def test_the_memory_as_printed_has_the_positions_of_equation_9_alone(attributes) -> None:
    """R^(HW x C): the same fusion of all scales, of which the positions' tokens stay."""
    whole, printed = variant(attributes), variant(attributes, memory="positions")
    printed.load_state_dict(whole.state_dict())
    before, after = randoms(2, 6, WIDTH), randoms(2, 6, WIDTH, seed=1)
    every, kept = (model.encode_pair(pair_view(before, after)) for model in (whole, printed))
    torch.testing.assert_close(kept.tokens, every.tokens[:, :6])
    assert kept.tokens.shape == (2, 6, WIDTH)
    for one, other in ((kept.objects, every.objects), (kept.actions, every.actions)):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other)


@pytest.mark.parametrize("attributes", ATTRIBUTES)
@pytest.mark.parametrize("prompt", ["none", "fixed", "learnable"])
def test_no_variant_has_parameters_that_do_nothing(attributes, prompt) -> None:
    model = variant(attributes, prompt=prompt).train()
    expected = {"caption", "change_mask", "changed"}
    expected |= {"n2o"} if "N" in attributes else set()
    expected |= {"v2a"} if "V" in attributes else set()
    assert set(model.loss_terms()) == expected
    batch = full_batch(model, CAPTIONS)
    # A config may keep the weights of the whole model's terms at 0, which makes a table of ablations short.
    terms = model.losses(batch, {"n2o": 0.0, "v2a": 0.0} | dict.fromkeys(model.loss_terms(), 1.0))
    assert set(terms) == expected
    sum(terms.values()).backward()
    # A subtraction of both dates takes away what they have in common.
    common = {"project.bias", "positions.rows", "positions.columns"} if attributes == "direct-sub" else set()
    assert set(idle_parameters(model)) == common
    for tokens in filter(None, (model.noun_tokens, model.verb_tokens)):
        assert (tokens.prompt_vectors is not None) == (prompt == "learnable")
        assert all(parameter.grad is None for parameter in tokens.encoder.parameters())
        told = any(text.startswith(RddOptions.noun_template) for text in tokens.encoder.asked)
        assert told == (prompt == "fixed" and "N" in attributes)
    for term in {"n2o", "v2a"} - expected:
        with pytest.raises(ConfigInvalid):
            model.losses(batch, dict.fromkeys(expected, 1.0) | {term: 0.1})


@pytest.mark.parametrize("tau", [0.07, 0.5, 2.0])
def test_info_nce_is_equations_11_to_13(tau) -> None:
    words, regions = randoms(5, 7), randoms(5, 7, seed=1) * 3
    fast = float(info_nce(words, regions, temperature=tau))
    assert fast == pytest.approx(slow_info_nce(values(words), values(regions), tau), rel=1e-5)
    assert fast == pytest.approx(float(info_nce(regions, words, temperature=tau)), rel=1e-5)


def slow_cross_entropy(logits: np.ndarray, tokens: np.ndarray, pad: int) -> list[list[float]]:
    """-log p of every word of every caption, Eq. 14 inside Eq. 15."""
    words = []
    for sample in range(len(tokens)):
        words.append([])
        for j in range(1, tokens.shape[1]):
            if tokens[sample, j] != pad:
                powers = [math.exp(one) for one in logits[sample, j - 1]]
                words[-1].append(-math.log(powers[tokens[sample, j]] / sum(powers)))
    return words


@pytest.mark.parametrize("lengths", [(5, 5), (5, 2), (1, 4)])
def test_caption_loss_is_equation_15_the_mean_of_the_captions_means_and_skips_padding(lengths) -> None:
    logits = randoms(2, 5, 9)
    tokens = torch.tensor([[1, 4, 5, 6, 7, 2], [1, 8, 8, 4, 5, 2]])
    padding = torch.arange(6) > torch.tensor(lengths)[:, None]
    tokens[padding] = 0
    per_word = slow_cross_entropy(values(logits), tokens.numpy(), pad=0)
    assert tuple(map(len, per_word)) == lengths
    loss = caption_cross_entropy(logits, tokens, pad=0)
    assert float(loss) == pytest.approx(sum(sum(one) / len(one) for one in per_word) / 2, rel=1e-5)
    other = logits + 5 * randoms(2, 5, 9, seed=4) * padding[:, 1:, None]
    assert float(caption_cross_entropy(other, tokens, pad=0)) == float(loss)


def test_joint_loss_takes_nouns_with_objects_and_verbs_with_actions() -> None:
    """The terms of Eq. 16 from a whole batch."""
    torch.manual_seed(0)  # the text encoder is drawn
    rdd = variant()
    batch, terms, features, decoded = joint_losses(rdd)
    nouns, verbs = rdd.noun_tokens(batch.nouns), rdd.verb_tokens(batch.verbs)
    assert set(terms) == {"caption", "n2o", "v2a"}
    n2o = slow_info_nce(values(nouns), values(features.objects), 0.5)
    v2a = slow_info_nce(values(verbs), values(features.actions), 0.5)
    assert float(terms["n2o"]) == pytest.approx(n2o, rel=1e-4)
    assert float(terms["v2a"]) == pytest.approx(v2a, rel=1e-4)
    assert n2o != pytest.approx(v2a, rel=1e-2)
    means = [
        sum(one) / len(one) for one in slow_cross_entropy(values(decoded.logits), batch.tokens.numpy(), 0)
    ]
    assert float(terms["caption"]) == pytest.approx(sum(means) / len(means), rel=1e-4)

"""DAVIR's compact size against its equations, written out index by index."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny_models import (
    random_images,
    randoms,
    slow_attention,
    slow_feed_forward,
    slow_linear,
    slow_norm,
    tiny_model,
    values,
)

from rscc.models.davir import attention_distance, gaussian_blur
from rscc.models.davir_compact import CompactEncoder, QueryFormer
from rscc.models.shared.extraction import extract_change


def davir():
    return tiny_model("davir", options={"queries": 3})


def view(batch=2):
    model = davir()
    images = random_images(batch, 64, 96)
    with torch.no_grad():
        return model, model.encode(*images).pair, images


# Equation 6


def test_the_blur_is_a_gaussian_with_repeated_edges() -> None:
    maps, sigma = randoms(2, 4, 6).abs(), 0.8
    reach = math.ceil(3 * sigma)
    weight = [math.exp(-(d**2) / (2 * sigma**2)) for d in range(-reach, reach + 1)]
    blurred = values(gaussian_blur(maps, sigma))
    window = [(i, j) for i in range(-reach, reach + 1) for j in range(-reach, reach + 1)]
    for b, y, x in np.ndindex(2, 4, 6):
        total = sum(
            weight[i + reach] * weight[j + reach] * maps[b, min(max(y + i, 0), 3), min(max(x + j, 0), 5)]
            for i, j in window
        )
        assert blurred[b, y, x] == pytest.approx(total.item() / sum(weight) ** 2, rel=1e-4)
    assert gaussian_blur(maps, 0) is maps
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(gaussian_blur(maps, sigma), torch.from_numpy(blurred).float())


def test_the_soft_mask_comes_from_what_is_known() -> None:
    model, pair, images = view()
    images = (images[0] // 8 + 100, images[1] // 8 + 100)
    images[1][0, :, 40:, 20:50] = 255
    images[1][1, :, :20, 60:] = 0
    pair = replace(pair, images=images)
    share = torch.rand(2, 4, 6)
    assert torch.equal(model.soft_mask(replace(pair, extracted=share)), gaussian_blur(share, 1.0))
    masks = np.stack([extract_change(a.numpy(), b.numpy()) for a, b in zip(*images, strict=True)])
    assert 0 < masks[0].mean() < 0.5 and 0 < masks[1].mean() < 0.5
    squares = torch.from_numpy(masks.reshape(2, 4, 16, 6, 16).mean((2, 4))).float()
    torch.testing.assert_close(model.soft_mask(pair), gaussian_blur(squares, 1.0))
    finer = share.repeat_interleave(2, 1).repeat_interleave(2, 2)
    torch.testing.assert_close(model.soft_mask(replace(pair, extracted=finer)), gaussian_blur(share, 1.0))
    unknown = model.soft_mask(replace(pair, images=None))
    assert unknown.shape == (2, 4, 6) and not unknown.any()


# Equation 7 and Table 6


def slow_distance(attention, mask, loss, sigma_of) -> float:
    total = 0.0
    for a, m in zip(values(attention), values(mask), strict=True):
        looks, target = a.ravel() if sigma_of == "logits" else np.exp(a.ravel()), np.exp(m.ravel())
        p, q = looks / looks.sum(), target / target.sum()
        if loss == "kl":
            total += sum(x * math.log(x / y) for x, y in zip(p, q, strict=True))
        elif loss == "mse":
            total += sum((x - y) ** 2 for x, y in zip(p, q, strict=True))
        else:
            total -= sum(y * math.log(x) for x, y in zip(p, q, strict=True))
    return total / len(attention)


@pytest.mark.parametrize("sigma_of", ["logits", "probabilities"])
@pytest.mark.parametrize("loss", ["kl", "mse", "ce"])
def test_attention_is_compared_with_the_mask(loss, sigma_of) -> None:
    attention = randoms(3, 4, 5).flatten(1).softmax(1).view(3, 4, 5) * 0.8
    mask = torch.rand(3, 4, 5, generator=torch.Generator().manual_seed(1))
    distance = attention_distance(attention, mask, loss=loss, sigma_of=sigma_of)
    assert distance.item() == pytest.approx(slow_distance(attention, mask, loss, sigma_of), rel=1e-4)


# Equations 4-5


def test_attention_is_that_of_the_class_token_in_the_last_layer() -> None:
    encoder = CompactEncoder(layers=2, width=8, heads=2, dropout=0.0).eval()
    patches = randoms(1, 5, 8)
    with torch.no_grad():
        tokens, looks = encoder(patches)
    x = np.concatenate([values(encoder.first[0]), values(patches[0])])
    for layer in encoder.layers:
        q, k = slow_linear(layer.attention.query, x), slow_linear(layer.attention.key, x)
        heads = []
        for part in (range(4), range(4, 8)):
            powers = [math.exp(sum(q[0, i] * k[n, i] for i in part) / 2) for n in range(6)]
            heads.append([p / sum(powers) for p in powers[1:]])
        x = slow_norm(layer.norms[0], x + slow_attention(layer.attention, x, x))
        x = slow_norm(layer.norms[1], x + slow_feed_forward(layer.feed_forward, x))
    np.testing.assert_allclose(values(looks[0]), np.mean(heads, axis=0), rtol=1e-4)
    np.testing.assert_allclose(values(tokens[0]), x, rtol=1e-3, atol=1e-5)


# Equations 8-9


@pytest.mark.parametrize("count", [1, 2, 4])
def test_entities_are_the_most_similar_of_either_date(count) -> None:
    model, pair, _ = view(batch=3)
    pair = replace(pair, maps_before=randoms(3, 12, 4, 6), maps_after=randoms(3, 12, 4, 6, seed=1))
    model.options = replace(model.options, entities=count)
    soft = torch.rand(3, 4, 6, generator=torch.Generator().manual_seed(2))
    retriever = model.retriever
    chosen = model.retrieve(pair, soft)
    names, features = retriever.names, values(retriever.entity_features)
    for b in range(3):
        similar: dict[int, float] = {}
        best: set[int] = set()
        for maps in (values(pair.maps_before[b]), values(pair.maps_after[b])):
            weight = values(soft[b])
            hidden = (maps * weight).sum((1, 2)) / weight.sum()  # I * M, looked at as one
            space = values(retriever.map) @ ((hidden - values(retriever.mean)) * values(retriever.scale))
            scores = [features[n] @ space / np.linalg.norm(space) for n in range(len(names))]
            best |= set(sorted(range(len(names)), key=lambda n: -scores[n])[:count])  # top k of one date
            for n in range(len(names)):
                similar[n] = max(similar.get(n, -2), scores[n])
        expected = sorted(similar, key=lambda n: -similar[n])[:count]
        assert chosen[b].tolist() == expected
        assert set(expected) <= best


# Equations 10-11


def test_the_query_former_attends_to_queries_and_prompt_then_to_both_dates() -> None:
    former = QueryFormer(queries=2, layers=2, width=8, heads=2, dropout=0.0).eval()
    before, after, prompt = randoms(1, 4, 8), randoms(1, 4, 8, seed=1), randoms(1, 3, 8, seed=2)
    with torch.no_grad():
        answers, attending = former(before, after, prompt)
        looks = former.attention(attending, before, after)
    dates = values(former.dates)
    patches = np.concatenate([values(before[0]) + dates[0], values(after[0]) + dates[1]])
    x, words = values(former.queries[0]), values(prompt[0])
    for layer in former.layers:
        both = np.concatenate([x, words])
        both = slow_norm(layer.norms[0], both + slow_attention(layer.self_attention, both, both))
        x, words = both[:2], both[2:]
        questions = x
        x = slow_norm(layer.norms[1], x + slow_attention(layer.cross_attention, x, patches))
        both = np.concatenate([x, words])
        both = slow_norm(layer.norms[2], both + slow_feed_forward(layer.feed_forward, both))
        x, words = both[:2], both[2:]
    np.testing.assert_allclose(values(answers[0]), x, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(values(attending[0]), questions, rtol=1e-3, atol=1e-5)
    assert looks.shape == (1, 2, 8)
    torch.testing.assert_close(looks.sum(2), torch.ones(1, 2))

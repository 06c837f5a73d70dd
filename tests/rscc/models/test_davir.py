"""DAVIR's compact size against its equations, written out index by index."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from slow_blocks import randoms, slow_attention, slow_feed_forward, slow_linear, slow_norm, values
from tiny_models import (
    CAPTIONS,
    attention_losses,
    full_batch,
    idle_parameters,
    joint_losses,
    random_images,
    tiny_model,
)

from rscc.models.davir import attention_distance, gaussian_blur
from rscc.models.davir_compact import CompactEncoder, QueryFormer
from rscc.models.shared.extraction import extract_change


def davir(**options):
    return tiny_model("davir", options={"queries": 3, **options})


def view(batch=2, height=64, width=96, seed=0):
    model = davir()
    images = random_images(batch, height, width, seed=seed)
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


def test_the_divergence_is_zero_where_attention_is_the_masks_softmax() -> None:
    mask = torch.rand(2, 3, 3)
    ideal = mask.flatten(1).softmax(1).view(2, 3, 3)
    assert attention_distance(0.7 * ideal, mask).item() == pytest.approx(0, abs=1e-6)
    assert attention_distance(0.7 * ideal.flip(1), mask).item() > 1e-3


def test_the_loss_is_the_sum_over_the_dates() -> None:
    batch, terms, features, _ = joint_losses(davir())
    soft = gaussian_blur(batch.extracted, 1.0)
    parts = [
        slow_distance(a, soft, "kl", "logits")
        for a in (features.encoded.attention_before, features.encoded.attention_after)
    ]
    assert terms["attention"].item() == pytest.approx(sum(parts), rel=1e-4)


def test_the_loss_moves_attention_to_the_mask() -> None:
    model = davir().train()
    batch = replace(full_batch(model, CAPTIONS), extracted=torch.eye(4).repeat(4, 1, 1))
    losses = attention_losses(model, batch, steps=30)
    assert losses[-1] < 0.5 * losses[0]


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


def test_attention_lies_on_the_grid_as_the_patches_do() -> None:
    model, pair, _ = view(batch=1)
    with torch.no_grad():
        attention = model.parts.encode(pair).attention_after
        _, looks = model.parts.encoder(pair.after)
    torch.testing.assert_close(attention[0], looks[0].view(4, 6))


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


@pytest.mark.parametrize("count", [1, 3])
def test_random_entities_know_nothing_of_the_images_but_stay_the_same_for_them(count) -> None:
    model = davir(retrieval="random", entities=count)
    maps = [torch.rand(400, 12, 2, 3, generator=torch.Generator().manual_seed(i)) for i in (0, 1)]
    with torch.no_grad():
        chosen = model.encode_last_maps(*maps).chosen
        assert torch.equal(model.encode_last_maps(*maps).chosen, chosen)
        turned = model.encode_last_maps(*reversed(maps)).chosen
    assert chosen.shape == (400, count)
    assert all(len(set(row)) == count for row in chosen.tolist())
    shares = torch.bincount(chosen.flatten(), minlength=5) / chosen.numel()
    assert shares.min() > 0.1 and shares.max() < 0.3  # of five, by chance
    assert (chosen[:, 0] == turned[:, 0]).float().mean() < 0.4


# Equations 10-11


def test_the_query_former_attends_to_queries_and_prompt_then_to_both_dates() -> None:
    former = QueryFormer(queries=2, layers=2, width=8, heads=2, dropout=0.0).eval()
    before, after, prompt = randoms(1, 4, 8), randoms(1, 4, 8, seed=1), randoms(1, 3, 8, seed=2)
    with torch.no_grad():
        answers, asking = former(before, after, prompt)
        looks = former.looks(asking, before, after)
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
    np.testing.assert_allclose(values(asking[0]), questions, rtol=1e-3, atol=1e-5)
    assert looks.shape == (1, 2, 8)
    torch.testing.assert_close(looks.sum(2), torch.ones(1, 2))


def test_the_decoder_reads_answers_and_prompt() -> None:
    model, _, images = view()
    with torch.no_grad():
        features = model.encode(*images)
        memory = model.memory(features)
    parts = model.parts
    assert memory.shape == (2, 3 + 1 + 1, 16)
    assert torch.equal(memory[:, :3], features.fused.answers)
    assert torch.equal(memory[0, 3], parts.instruction[0, 0])
    chosen = model.retriever.entity_features[features.chosen[1, 0]]
    torch.testing.assert_close(memory[1, 4], parts.entity_projection(chosen))
    assert model.entities(features)[1] == (model.retriever.names[features.chosen[1, 0]],)


def test_whether_anything_changed_is_not_read_from_the_entities() -> None:
    """The head sees the patches alone: what is retrieved for a pair must not tell it."""
    model, pair, images = view()
    with torch.no_grad():
        features = model.encode(*images)
        model.retriever.entity_features.copy_(model.retriever.entity_features.flip(0) * 3)
        other = model.encode(*images)
    assert torch.equal(features.changed_logits, other.changed_logits)
    assert not torch.allclose(model.memory(features), model.memory(other), atol=1e-3)
    patches = torch.cat([pair.before, pair.after - pair.before], dim=1)
    torch.testing.assert_close(features.tokens, patches)
    model.train()
    weights = dict.fromkeys(model.loss_terms(), 0.0) | {"changed": 1.0}
    model.losses(full_batch(model, CAPTIONS), weights)["changed"].backward()
    taught = {name.split(".")[0] for name, p in model.named_parameters() if p.grad is not None}
    assert {"changed_head", "project"} <= taught
    assert "parts" not in taught


def test_words_look_at_the_ground_through_the_answers() -> None:
    model, _, images = view()
    with torch.no_grad():
        features = model.encode(*images)
        attention = model.decoder.attention(model.memory(features), torch.tensor([[1, 5, 6]] * 2))
        ground = model.on_ground(features, attention)
        encoded, fused = features.encoded, features.fused
        looks = model.parts.query_former.looks(fused.states, encoded.before, encoded.after)
    assert ground.shape == (2, 3, 24)
    assert (ground >= 0).all() and (ground.sum(2) <= 1 + 1e-5).all()
    for place in (0, 7, 23):
        by_hand = sum(
            attention[1, 2, q] * (looks[1, q, 1 + place] + looks[1, q, 25 + 1 + place]) for q in range(3)
        )
        assert ground[1, 2, place].item() == pytest.approx(by_hand.item(), rel=1e-4)
    maps = model.attention_maps(features)
    assert all(one.shape == (2, 4, 6) for one in maps.values())


# Switches


def test_without_entities_the_instruction_stays() -> None:
    model = tiny_model("davir", options={"queries": 3, "prompt": False})
    assert not hasattr(model, "retriever")
    before, after = random_images(2)
    with torch.no_grad():
        features = model.encode(before, after)
    assert model.memory(features).shape == (2, 4, 16)
    assert model.entities(features) == [(), ()]
    model.train()
    terms = model.losses(full_batch(model, CAPTIONS), dict.fromkeys(model.loss_terms(), 1.0))
    sum(terms.values()).backward()
    assert idle_parameters(model) == []


def test_preparation_averages_features_as_retrieval_does() -> None:
    """Weights on the trunk's grid and the pooled maps under the soft mask give one mean."""
    model = tiny_model("davir", pool=2)
    generator = torch.Generator().manual_seed(4)
    maps = torch.rand(3, 12, 4, 6, generator=generator)
    extracted = (torch.rand(3, 4, 6, generator=generator) > 0.7).float()
    weights = model.preparation_weights(extracted)
    ours = (maps * weights.unsqueeze(1)).sum((2, 3)) / weights.sum((1, 2)).unsqueeze(1)
    soft = model.encode_last_maps(maps, maps, extracted=extracted).soft_mask
    pooled = torch.nn.functional.avg_pool2d(maps, 2)
    theirs = (pooled * soft.unsqueeze(1)).sum((2, 3)) / soft.sum((1, 2)).unsqueeze(1)
    assert soft.std() > 0.05
    torch.testing.assert_close(ours, theirs)

"""CHEERS against slow, literal transcriptions of the paper's equations, index by index."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny_models import (
    CAPTIONS,
    ENTITIES,
    TinyTextEncoder,
    full_batch,
    pair_view,
    random_images,
    randomise,
    randoms,
    slow_attention,
    slow_cosine,
    slow_info_nce,
    slow_linear,
    slow_norm,
    tiny_model,
    values,
)

from rscc.errors import ConfigInvalid
from rscc.models.cheers import (
    Cheers,
    CheersFeatures,
    Disentangling,
    Enhancement,
    GatedLayer,
    ProbabilityMap,
    largest_shares,
)

WIDTH, HEADS = 8, 2
TABLE_4 = {
    "baseline": {"commonality": False, "difference": False, "gate": False},
    "CRE": {"commonality": True, "difference": False, "gate": False},
    "DRE": {"commonality": False, "difference": True, "gate": False},
    "HDR": {"commonality": True, "difference": True, "gate": False},
    "GATE": {"commonality": False, "difference": False, "gate": True},
    "CHEERS": {},
}


def cheers(**options) -> Cheers:
    return tiny_model("cheers", width=WIDTH, heads=HEADS, max_words=13, options=options)


def slow_shares(target: np.ndarray, source: np.ndarray) -> list[float]:
    """Eq. 2, k over the target's positions, and the maximum over the source's positions of Eq. 3."""
    sim = [[slow_cosine(t, s) for s in source] for t in target]
    sums = [sum(math.exp(row[j]) for row in sim) for j in range(len(source))]
    return [max(math.exp(one) / total for one, total in zip(row, sums, strict=True)) for row in sim]


def slow_map(module: ProbabilityMap, source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Eq. 3, or Eq. 5: one number per position through the linear layer."""
    shares = slow_shares(target, source)
    shares = [1 - one for one in shares] if module.difference else shares
    return slow_linear(module.expand, np.array(shares)[:, None])


def slow_enhance(
    module: Enhancement, source: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Eq. 4, and the map."""
    p = slow_map(module.map, source, target)
    return slow_norm(module.norm, target / (1 + np.exp(-p)) + target), p


def slow_layer(layer: Disentangling, f: list[np.ndarray], e: np.ndarray) -> dict[str, list]:
    """Eq. 6-11 of one pair; i is the date, j the other one."""
    found: dict[str, list] = {"C": [None, None], "D": [None, None], "mean": [], "L_C": [], "L_D": []}
    for i, j in ((0, 1), (1, 0)):
        found["C"][i], p = slow_enhance(layer.commonality, f[j], f[i])
        found["L_C"].append(((p - slow_map(layer.commonality_guide, e, f[i])) ** 2).mean())
    for i, j in ((0, 1), (1, 0)):
        attended = slow_attention(layer.attention, found["C"][i], found["C"][j])
        found["mean"].append(sum(attended) / len(attended))
        target = f[i] - attended
        found["D"][i], p = slow_enhance(layer.difference, f[i], target)
        found["L_D"].append(((p - slow_map(layer.difference_guide, e, target)) ** 2).mean())
    return found


def slow_entities(model: Cheers, features: CheersFeatures, sample: int) -> np.ndarray:
    chosen = values(model.retriever.entity_features)[features.chosen[sample].numpy()]
    return slow_linear(model.entity_projection, chosen)


def slow_gated(layer: GatedLayer, h: np.ndarray, e: np.ndarray, f_diff: np.ndarray) -> np.ndarray:
    """Eq. 13-17 word by word: a word's self-attention sees it and those before it."""
    own = np.stack([slow_attention(layer.self_attention, h[m : m + 1], h[: m + 1])[0] for m in range(len(h))])
    words = slow_norm(layer.norms[0], h + own)
    text = slow_attention(layer.entity_attention, words, e)  # Eq. 13
    visual = slow_attention(layer.cross_attention, words, f_diff)
    fused = np.zeros_like(words)
    for m in range(len(words)):
        alpha = slow_linear(layer.entity_weight, np.concatenate([words[m], text[m]])[None])[0, 0]  # Eq. 14
        beta = slow_linear(layer.difference_weight, np.concatenate([words[m], visual[m]])[None])[0, 0]
        fused[m] = alpha * text[m] + beta * visual[m]  # Eq. 16
    return slow_norm(layer.norms[1], fused + words)  # Eq. 17


@pytest.mark.parametrize("entities", [1, 3])
def test_shares_are_equation_2(entities) -> None:
    target, source = randoms(2, 6, WIDTH), randoms(2, entities, WIDTH, seed=1)
    fast = values(largest_shares(target, source))
    assert fast.shape == (2, 6, 1)
    for sample in range(2):
        slow = slow_shares(values(target[sample]), values(source[sample]))
        np.testing.assert_allclose(fast[sample, :, 0], slow, rtol=1e-5)
    if entities == 1:
        np.testing.assert_allclose(fast.sum(1), 1, rtol=1e-5)


@pytest.mark.parametrize("difference", [False, True])
def test_enhancement_is_equations_3_to_5(difference) -> None:
    module = Enhancement(width=WIDTH, difference=difference, scaled=False)
    randomise(module, 2, 0.8)
    source, target = randoms(2, 4, WIDTH), randoms(2, 6, WIDTH, seed=1)
    enhanced, probability = module(source, target)
    for sample in range(2):
        slow, p = slow_enhance(module, values(source[sample]), values(target[sample]))
        np.testing.assert_allclose(values(enhanced[sample]), slow, atol=1e-5)
        np.testing.assert_allclose(values(probability[sample]), p, atol=1e-5)


@pytest.mark.parametrize("layers", [1, 2])
def test_encoding_is_equations_6_to_12_and_its_losses_7_9_and_11(layers) -> None:
    model = cheers(layers=layers, temperature=0.3)
    before, after = randoms(3, 6, WIDTH), randoms(3, 6, WIDTH, seed=1)
    before_maps, after_maps = randoms(3, 12, 1, 6, seed=2), randoms(3, 12, 1, 6, seed=3)
    pair = replace(pair_view(before, after), maps_before=before_maps, maps_after=after_maps)
    features = model.encode_pair(pair)
    found = []
    for sample in range(3):
        f = [values(before[sample]), values(after[sample])]
        steps = []
        for layer in model.disentangling:
            steps.append(slow_layer(layer, f, slow_entities(model, features, sample)))
            f = steps[-1]["D"]
        joined = slow_linear(model.join, np.concatenate(f, axis=1))  # Eq. 12
        np.testing.assert_allclose(values(features.tokens[sample]), joined, atol=2e-5)
        found.append(steps)
    terms = model.auxiliary_losses(features, None, None)
    consistency = np.mean([step["L_C"] for steps in found for step in steps])
    consistency += np.mean([step["L_D"] for steps in found for step in steps])
    assert float(terms["consistency"].detach()) == pytest.approx(consistency, rel=1e-4)
    contrast = [
        slow_info_nce(*([steps[n]["mean"][i] for steps in found] for i in (0, 1)), 0.3) for n in range(layers)
    ]
    assert float(terms["contrast"].detach()) == pytest.approx(np.mean(contrast), rel=1e-4)


def test_the_entities_are_those_of_equation_1_in_the_models_width() -> None:
    model = cheers(entities=2)
    features = model.encode(*random_images(4))
    pair = features.pair
    before, after = (model.retriever.similarities(pair, date=date) for date in ("before", "after"))
    names = model.entities(features)
    for sample in range(4):
        one, other = before[sample], after[sample]
        irrelevant = (one <= one.mean()) & (other <= other.mean())
        rank = zip(irrelevant.tolist(), (-(one - other).abs()).tolist(), ENTITIES, strict=True)
        order = [name for *_, name in sorted(rank)]
        assert names[sample] == tuple(order[:2])
        np.testing.assert_allclose(
            values(features.entities[sample]), slow_entities(model, features, sample), atol=1e-5
        )
    assert len(set(names)) > 1, "they depend on the pair"
    memory = model.memory(features)
    assert torch.equal(memory[:, :2], features.entities)
    assert torch.equal(memory[:, 2:], features.tokens)


@pytest.mark.parametrize("entities", [1, 3])
def test_the_gated_layer_is_equations_13_to_17(entities) -> None:
    layer = GatedLayer(width=WIDTH, heads=HEADS, dropout=0.0)
    randomise(layer, 4, 0.5)
    layer.entities = entities
    words, memory = randoms(2, 4, WIDTH), randoms(2, entities + 5, WIDTH, seed=1)
    fast = values(layer(words, memory)[0])
    for sample in range(2):
        m = values(memory[sample])
        slow = slow_gated(layer, values(words[sample]), m[:entities], m[entities:])
        np.testing.assert_allclose(fast[sample], slow, atol=2e-5)


@pytest.mark.parametrize("row", TABLE_4)
def test_the_rows_of_table_4_train_and_caption(row) -> None:
    model = tiny_model("cheers", text_encoder=TinyTextEncoder(), options=TABLE_4[row]).train()
    batch = full_batch(model, CAPTIONS)
    disentangles = model.options.disentangles
    weights = dict.fromkeys(model.loss_terms(), 1.0)
    if not disentangles:
        with pytest.raises(ConfigInvalid):
            model.losses(batch, weights)
        weights |= dict.fromkeys(model.auxiliary_terms, 0.0)
    sum(model.losses(batch, weights).values()).backward()
    assert [n for n, p in model.named_parameters() if p.grad is None] == []
    parts = {
        "retriever.": row != "baseline",
        "disentangling.": disentangles,
        "disentangling.0.commonality": row in ("CRE", "HDR", "CHEERS"),
        "disentangling.0.difference": row in ("DRE", "HDR", "CHEERS"),
        "entity_attention": row in ("GATE", "CHEERS"),
    }
    assert {part: any(part in name for name in model.state_dict()) for part in parts} == parts
    assert len(model.eval().generate_from(model.encode(batch.before, batch.after), beams=2)) == 4

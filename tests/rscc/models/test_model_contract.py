"""What every paper's model must hold; a new model in MODELS is tested by being there."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny_models import (
    CAPTIONS,
    READINGS,
    TinyTextEncoder,
    full_batch,
    idle_parameters,
    random_images,
    tiny_backbone,
    tiny_config,
    tiny_model,
    tiny_vocabulary,
)

from rscc.config import Config
from rscc.errors import ConfigInvalid
from rscc.models import MODELS
from rscc.training import run as runs
from rscc.training.caching import Caches

papers = pytest.mark.parametrize("paper", MODELS)


@pytest.fixture(params=READINGS, ids=str)
def model(request):
    """A model that can compute all of its terms."""
    paper, options = request.param
    return tiny_model(paper, text_encoder=TinyTextEncoder(), options=options)


@pytest.fixture
def batch(model):
    return full_batch(model, CAPTIONS)


def all_weights(model, value=1.0) -> dict[str, float]:
    return dict.fromkeys(model.loss_terms(), value)


@pytest.mark.parametrize(("height", "width"), [(64, 64), (64, 96), (96, 32)])
def test_shapes_also_of_images_that_are_not_square(model, height, width) -> None:
    features = model.encode(*random_images(2, height, width))
    assert features.pair.grid == (height // 16, width // 16)
    assert features.pair.before.shape == features.pair.after.shape == (2, height * width // 256, 16)
    assert features.tokens.shape[::2] == (2, 16)
    assert features.changed_logits.shape == (2,)
    assert features.change_logits.shape == (2, height // 4, width // 4)
    tokens = torch.tensor([[1, 4, 5], [1, 6, 7]])
    decoded = model.decode(features, tokens)
    assert decoded.logits.shape == (2, 3, len(model.vocabulary))
    assert decoded.hidden.shape == (2, 3, 16)


def test_height_and_width_are_not_swapped(model) -> None:
    """What happens in the lower right corner is seen in the lower right corner."""
    before, after = random_images(1, 64, 96)
    other = after.clone()
    other[..., 48:, 80:] = 255 - other[..., 48:, 80:]
    with torch.no_grad():
        one, two = model.encode(before, after), model.encode(before, other)
    moved = (one.change_logits - two.change_logits).abs()[0]
    assert moved[12:, 20:].mean() > 3 * moved[:4, :4].mean()
    tokens = (one.pair.after - two.pair.after).abs().sum(-1)[0]
    assert tokens[-1] > 0
    assert torch.all(tokens[:-1] == 0)


@papers
@pytest.mark.parametrize("pool", [1, 2])
def test_a_focus_of_nothing_shows_two_equal_dates_and_one_of_all_changes_nothing(paper, pool) -> None:
    model = tiny_model(paper, pool=pool, grounded=True)
    before, after = random_images(2, 64, 96)
    with torch.no_grad():
        maps = [found[-1] for found in model.trunk(before, after)]
        change = model.change_head(*model.trunk(before, after)).sigmoid()
        # Nothing is extracted from cached maps, as nothing is in focus.
        same = model.encode_last_maps(maps[0], maps[0], change=torch.zeros_like(change))
        plain = model.encode_last_maps(*maps, change=change)
        shut, wide = (
            model.encode_last_maps(*maps, change=change, focus=torch.full((2, 64, 96), share))
            for share in (0.0, 1.0)
        )
    torch.testing.assert_close(model.memory(shut), model.memory(same))
    torch.testing.assert_close(model.memory(wide), model.memory(plain))
    assert (model.memory(plain) - model.memory(same)).abs().max() > 1e-3


def test_what_lies_out_of_focus_is_not_seen(model) -> None:
    """Two later dates that differ only out of focus are one to the model; in focus they are two."""
    before, after = random_images(1, 64, 96)
    other = after.clone()
    other[..., :16] = 255 - other[..., :16]
    focus = torch.ones(1, 64, 96)
    focus[..., :32] = 0  # twice as wide: the trunk looks a little aside
    with torch.no_grad():
        one, two = (model.memory(model.encode(before, later, focus=focus)) for later in (after, other))
        turned = [model.memory(model.encode(before, later, focus=1 - focus)) for later in (after, other)]
    torch.testing.assert_close(one, two)
    assert (turned[0] - turned[1]).abs().max() > 1e-3


def test_every_trainable_parameter_gets_a_gradient(model, batch) -> None:
    terms = model.train().losses(batch, all_weights(model))
    assert set(terms) == set(model.loss_terms())
    assert all(value.ndim == 0 and torch.isfinite(value) for value in terms.values())
    sum(terms.values()).backward()
    assert idle_parameters(model) == []


def test_each_term_alone_has_a_gradient(model, batch) -> None:
    for term in model.loss_terms():
        model.zero_grad()
        weights = all_weights(model, 0.0) | {term: 2.0}
        terms = model.losses(batch, weights)
        assert set(terms) == {term}
        terms[term].backward()
        assert any(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters()), term


def test_loss_tables_must_name_every_term_and_no_other(model, batch) -> None:
    for term in model.loss_terms():
        lacking = {name: 1.0 for name in model.loss_terms() if name != term}
        with pytest.raises(ConfigInvalid, match=rf"loss\.{term} has no weight"):
            model.losses(batch, lacking)
    with pytest.raises(ConfigInvalid, match=r"loss\.spelling is no term"):
        model.losses(batch, all_weights(model) | {"spelling": 1.0})
    with pytest.raises(ConfigInvalid, match="negative"):
        model.losses(batch, all_weights(model) | {"caption": -1.0})
    with pytest.raises(ConfigInvalid, match="above 0"):
        model.losses(batch, all_weights(model, 0.0))


@pytest.mark.parametrize(
    ("missing", "term"),
    [("tokens", "caption"), ("mask", "change_mask"), ("changed", "changed"), ("before", "caption")],
)
def test_a_term_that_the_batch_cannot_give_is_an_error(model, batch, missing, term) -> None:
    batch = replace(batch, **{missing: None})
    with pytest.raises(ConfigInvalid, match=rf"loss\.{term} needs"):
        model.losses(batch, all_weights(model, 0.0) | {term: 1.0})


def test_cached_trunk_maps_give_the_same_losses(model, batch) -> None:
    weights = all_weights(model) | {"change_mask": 0}
    with torch.no_grad():
        maps = [maps[-1] for maps in model.trunk(batch.before, batch.after)]
        cached = replace(batch, before=None, after=None, features=torch.stack(maps, dim=1))
        one, two = model.losses(batch, weights), model.losses(cached, weights)
    for name, value in one.items():
        torch.testing.assert_close(two[name], value)
    with pytest.raises(ConfigInvalid, match="cached features do not do"):
        model.losses(cached, all_weights(model))


def test_unknown_masks_and_flags_teach_nothing(model, batch) -> None:
    batch.mask_known = batch.changed_known = torch.tensor([True, False, True, False])
    weights = all_weights(model, 0.0) | {"change_mask": 1.0, "changed": 1.0}
    with torch.no_grad():
        first = model.losses(batch, weights)
        turned = replace(batch, mask=batch.mask.clone(), changed=batch.changed.clone())
        turned.mask[1::2], turned.changed[1::2] = 1 - turned.mask[1::2], 1 - turned.changed[1::2]
        second = model.losses(turned, weights)
        turned.mask[0] = 1 - turned.mask[0]
        third = model.losses(turned, weights)
    assert first == second
    assert third["change_mask"] != first["change_mask"]
    batch.mask_known = batch.changed_known = torch.zeros(4, dtype=torch.bool)
    assert all(float(value.detach()) == 0 for value in model.losses(batch, weights).values())


def test_known_masks_weigh_the_same_beside_unknown_ones(model, batch) -> None:
    weights = all_weights(model, 0.0) | {"change_mask": 1.0, "changed": 1.0}
    batch.mask_known = batch.changed_known = torch.tensor([True, True, False, False])
    fields = ("before", "after", "tokens", "mask", "mask_known", "changed", "changed_known", "extracted")
    half = replace(batch, **{name: getattr(batch, name)[:2] for name in fields})
    with torch.no_grad():
        whole, part = model.losses(batch, weights), model.losses(half, weights)
    for name, value in part.items():
        torch.testing.assert_close(whole[name], value)


def test_batched_equals_single(model) -> None:
    before, after = random_images(4, 64, 96)
    with torch.no_grad():
        whole = model.encode(before, after)
        sentences = [model.generate_from(whole, beams=beams) for beams in (1, 3)]
        for i in range(4):
            one = slice(i, i + 1)
            single = model.encode(before[one], after[one])
            for name in ("tokens", "changed_logits", "change_logits"):
                torch.testing.assert_close(getattr(single, name), getattr(whole, name)[one])
            torch.testing.assert_close(model.memory(single), model.memory(whole)[one])
            for beams, found in zip((1, 3), sentences, strict=True):
                (alone,) = model.generate_from(single, beams=beams)
                assert [h.ids for h in alone] == [h.ids for h in found[i]]
                assert [h.score for h in alone] == pytest.approx([h.score for h in found[i]], rel=1e-4)


@papers
def test_evaluation_is_deterministic_dropout_is_off_and_the_order_of_the_dates_matters(paper) -> None:
    model = tiny_model(paper, dropout=0.5)
    before, after = random_images(2)
    with torch.no_grad():
        one, again, turned = (
            model.memory(model.encode(*dates))
            for dates in ((before, after), (before, after), (after, before))
        )
        assert torch.equal(one, again)
        assert not torch.allclose(one, turned, atol=1e-3)
        model.train()
        one, again = (model.memory(model.encode(before, after)) for _ in range(2))
        assert not torch.equal(one, again)


@papers
def test_captions_longer_than_the_positions_are_cut_for_training(paper) -> None:
    model = tiny_model(paper, text_encoder=TinyTextEncoder(), max_words=5)
    batch = full_batch(model, CAPTIONS)
    assert batch.tokens.shape == (4, 5)
    assert all(row[row != 0][-1] == 2 for row in batch.tokens), "the end stays"
    assert torch.isfinite(model.losses(batch, all_weights(model))["caption"])


@papers
def test_runs_where_its_weights_are(paper) -> None:
    """A tensor made on a fixed device inside the model would not meet the others on the meta device."""
    model = tiny_model(paper, text_encoder=TinyTextEncoder()).to("meta")
    batch = full_batch(model, CAPTIONS)
    moved = replace(
        batch,
        **{k: v.to("meta") for k, v in vars(batch).items() if isinstance(v, torch.Tensor)},
    )
    terms = model.losses(moved, all_weights(model))
    assert all(value.device.type == "meta" for value in terms.values())
    cache = model.decoder.start(torch.zeros(2, 5, 16, device="meta"))
    assert model.decoder.step(torch.zeros(2, dtype=torch.long, device="meta"), cache).device.type == "meta"


@papers
def test_more_padding_changes_nothing(paper) -> None:
    model = tiny_model(paper, text_encoder=TinyTextEncoder())
    batch = full_batch(model, ("villas are built", "a road is removed", "there is no difference"))
    padded = replace(batch, tokens=torch.nn.functional.pad(batch.tokens, (0, 3), value=model.vocabulary.pad))
    weights = all_weights(model)
    with torch.no_grad():
        one, two = model.losses(batch, weights), model.losses(padded, weights)
    for name, value in one.items():
        torch.testing.assert_close(two[name], value)


@pytest.mark.parametrize(
    ("paper", "options", "expected"),
    [
        ("rdd", {}, False),
        ("cheers", {}, True),
        ("cheers", {"retriever": "open_clip:ViT-L-14:openai"}, False),
        ("cheers", {"commonality": False, "difference": False, "gate": False}, False),
        ("davir", {}, True),
        ("davir", {"retriever": "open_clip:ViT-L-14:openai"}, False),
        ("davir", {"prompt": False}, False),
    ],
)
def test_the_trunk_sees_the_split_only_for_a_retriever_that_is_fitted(
    paper, options, expected, monkeypatch
) -> None:
    config = tiny_config(paper)
    config = replace(config, options={**config.options, **options})
    model = MODELS[paper](config=config, backbone=tiny_backbone(), vocabulary=tiny_vocabulary())
    assert model.prepares_from_features == expected
    passes = []
    monkeypatch.setattr(runs, "pooled_features", lambda *_, **__: passes.append(1) or np.zeros((0, 2, 12)))
    material = runs._material(model, Config(model=config), [], Caches())
    assert (material.pooled is not None) == bool(passes) == expected


@papers
def test_pooling_averages_squares_of_the_last_maps(paper) -> None:
    pooling, plain = tiny_model(paper, pool=2), tiny_model(paper)
    plain.load_state_dict(pooling.state_dict())
    maps = [torch.randn(3, 12, 4, 6, generator=torch.Generator().manual_seed(i)) for i in (1, 2)]
    squares = [m.view(3, 12, 2, 2, 3, 2).mean((3, 5)) for m in maps]
    with torch.no_grad():
        one, other = pooling.encode_last_maps(*maps), plain.encode_last_maps(*squares)
    assert one.pair.grid == (2, 3)
    torch.testing.assert_close(pooling.memory(one), plain.memory(other))


def test_no_source_names_a_device(repository) -> None:
    found = [path.name for path in (repository / "rscc").rglob("*.py") if ".cuda(" in path.read_text()]
    assert found == []


def test_bfloat16_stays_close_and_reaches_every_parameter(model, batch) -> None:
    with torch.no_grad():
        exact = model.losses(batch, all_weights(model))
    with torch.autocast("cpu", torch.bfloat16):
        rough = model.losses(batch, all_weights(model))
        assert len(model.generate_from(model.encode(batch.before, batch.after), beams=2)) == 4
    for name, value in exact.items():
        assert float(rough[name].detach()) == pytest.approx(float(value), rel=0.1, abs=0.05), name
    torch.stack([value.float() for value in rough.values()]).sum().backward()
    trained = [p for p in model.parameters() if p.requires_grad]
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in trained)

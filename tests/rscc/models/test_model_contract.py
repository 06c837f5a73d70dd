"""What every paper's model must hold; a new model in MODELS is tested by being there."""

import math
from dataclasses import replace

import pytest
import torch
from stored import assert_as_stored
from tiny_models import (
    CAPTIONS,
    READINGS,
    TinyTextEncoder,
    full_batch,
    idle_parameters,
    random_images,
    tiny_model,
)

from rscc.errors import ConfigInvalid
from rscc.models.papers import MODELS
from rscc.models.shared.losses import change_mask_loss

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


OTHER_OPTIONS = {
    "scorer": {
        "layers": 1, "matching_heads": 4, "matching": "mean", "temperature": 0.1, "difference": "subtraction",
        "follow": "code",
    },
    "dirl": {
        "alpha": 0.3, "diagonal": 0.5, "temperature": 0.1, "difference": "subtraction", "follow": "code",
        "layers": {"follow": "code", "layers": 1},
    },
    "cheers": {
        "layers": 1, "temperature": 0.1, "commonality": False, "difference": False, "gate": False,
        "scaled": True, "entities": 2,
    },
    "rdd": {
        "attributes": "V+N", "object_vectors": 8, "action_vectors": 4, "distilling_steps": 1,
        "memory": "positions", "prompt": "none", "temperature": 0.5, "same_words_are_negatives": False,
        "noun_template": {"prompt": "fixed", "noun_template": "a photo of a"},
        "verb_template": {"prompt": "fixed", "verb_template": "a photo where things"},
    },
    "davir": {
        "encoder_layers": 2, "queries": 8, "query_layers": 1, "entities": 2, "retrieval": "random",
        "prompt": False, "attention_loss": "mse", "sigma_of": "probabilities", "blur": 0.0,
    },
}  # fmt: skip
"""For every option of a paper that its model reads, another value, with what it needs."""


@torch.no_grad()
def sizes_and_losses(paper, options):
    """Sizes of the parameters of a model with these options, and losses of a batch with equal captions."""
    model = tiny_model(paper, text_encoder=TinyTextEncoder(), options=options)
    batch = full_batch(model, (*CAPTIONS[:3], CAPTIONS[2]))
    losses = {name: round(float(value), 6) for name, value in model.losses(batch, all_weights(model)).items()}
    return {name: tuple(value.shape) for name, value in model.state_dict().items()}, losses


@pytest.mark.parametrize(
    ("paper", "option"), [(paper, name) for paper, others in OTHER_OPTIONS.items() for name in others]
)
def test_every_option_of_a_paper_makes_another_model(paper, option) -> None:
    value = OTHER_OPTIONS[paper][option]
    given = value if isinstance(value, dict) else {option: value}
    usual = {name: other for name, other in given.items() if name != option}
    assert sizes_and_losses(paper, given) != sizes_and_losses(paper, usual)


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


def test_every_trainable_parameter_gets_a_gradient(model, batch) -> None:
    terms = model.train().losses(batch, all_weights(model))
    assert set(terms) == set(model.loss_terms())
    assert all(value.ndim == 0 and torch.isfinite(value) for value in terms.values())
    sum(terms.values()).backward()
    assert idle_parameters(model) == []


def test_loss_tables_must_name_every_term_and_no_other(model, batch) -> None:
    for term in model.loss_terms():
        lacking = {name: 1.0 for name in model.loss_terms() if name != term}
        with pytest.raises(ConfigInvalid):
            model.losses(batch, lacking)
    with pytest.raises(ConfigInvalid):
        model.losses(batch, all_weights(model) | {"spelling": 1.0})
    with pytest.raises(ConfigInvalid):
        model.losses(batch, all_weights(model) | {"caption": -1.0})
    with pytest.raises(ConfigInvalid):
        model.losses(batch, all_weights(model, 0.0))


def test_label_smoothing_mixes_in_the_mean_over_the_vocabulary(model, batch) -> None:
    weights = all_weights(model, 0.0) | {"caption": 1.0}
    model.eval()
    with torch.no_grad():
        plain, some, more = (
            float(model.losses(batch, weights, label_smoothing=share)["caption"]) for share in (0.0, 0.1, 0.2)
        )
    uniform = (some - 0.9 * plain) / 0.1
    assert uniform >= math.log(len(model.vocabulary))
    assert more == pytest.approx(0.8 * plain + 0.2 * uniform, rel=1e-3)


def test_cached_trunk_maps_give_the_same_losses(model, batch) -> None:
    weights = all_weights(model) | {"change_mask": 0}
    with torch.no_grad():
        maps = [maps[-1] for maps in model.trunk(batch.before, batch.after)]
        cached = replace(batch, before=None, after=None, features=torch.stack(maps, dim=1))
        one, two = model.losses(batch, weights), model.losses(cached, weights)
    for name, value in one.items():
        torch.testing.assert_close(two[name], value)
    with pytest.raises(ConfigInvalid):
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


def test_a_pair_without_a_mask_is_left_out_of_the_mask_loss() -> None:
    logits, mask = torch.randn(2, 16, 16), (torch.rand(2, 64, 64) > 0.5).float()
    one = change_mask_loss(logits[:1], mask[:1], torch.tensor([True]))
    torch.testing.assert_close(change_mask_loss(logits, mask, torch.tensor([True, False])), one)


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


def test_bfloat16_stays_close_and_reaches_every_parameter(model, batch) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            if (
                not parameter.requires_grad
            ):  # random weights make similarities of which no digit would be left
                parameter.mul_(0.5)
        exact = model.losses(batch, all_weights(model))
    with torch.autocast("cpu", torch.bfloat16):
        rough = model.losses(batch, all_weights(model))
        assert len(model.generate_from(model.encode(batch.before, batch.after), beams=2)) == 4
    for name, value in exact.items():
        assert float(rough[name].detach()) == pytest.approx(float(value), rel=0.1, abs=0.05), name
    torch.stack([value.float() for value in rough.values()]).sum().backward()
    trained = [p for p in model.parameters() if p.requires_grad]
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in trained)


@torch.no_grad()
def test_losses_features_and_sentences_are_as_stored() -> None:
    found = {}
    for paper, options in READINGS:
        model = tiny_model(paper, text_encoder=TinyTextEncoder(), options=options)
        batch = full_batch(model, CAPTIONS)
        features = model.encode(batch.before, batch.after, extracted=batch.extracted)
        parts = {
            "tokens": features.tokens,
            "changed": features.changed_logits,
            "change": features.change_logits,
            "memory": model.memory(features),
            "words": model.decode(features, batch.tokens[:, :-1]).logits,
        }
        found[f"{paper} {options}"] = {
            "losses": {name: float(one) for name, one in model.losses(batch, all_weights(model)).items()},
            **{name: [float(part.mean()), float(part.std())] for name, part in parts.items()},
            "ids": [row[0].ids for row in model.generate_from(features, beams=3)],
        }
    assert_as_stored("models", found, rel=1e-3)

"""A model is built for its file: without random first values, and the same as if they had been there."""

import pytest
import torch
from saved_models import saved
from tiny_models import TinyTextEncoder, random_images, tiny_model
from torch import nn

from rscc.inference.tensors import load_weights
from rscc.model_folder import available_models, find_model, load_model, open_model_folder
from rscc.models import MODELS, model_class
from rscc.models.trunks import build_backbone
from rscc.stored_weights import built_for
from rscc.text.tokenizer import load_vocabulary


def filled(folder):
    """Build a model with random values and put those of the file in their places."""
    vocabulary = load_vocabulary(folder.path / "vocabulary.json")
    backbone = build_backbone(folder.config.backbone)
    model = model_class(folder.config.paper)(config=folder.config, backbone=backbone, vocabulary=vocabulary)
    state = load_weights(folder.path / "model.safetensors")
    model.load_state_dict({name: value.float() for name, value in state.items()}, strict=False)
    return model.eval()


def assert_same_models(one: nn.Module, two: nn.Module) -> None:
    for kind in ("named_parameters", "named_buffers"):
        ours, theirs = dict(getattr(one, kind)()), dict(getattr(two, kind)())
        assert list(ours) == list(theirs)
        for name, value in ours.items():
            assert value.dtype == theirs[name].dtype, name
            assert value.requires_grad == theirs[name].requires_grad, name
            assert torch.equal(value, theirs[name]), name
    before, after = random_images(2, 64, 64)
    with torch.inference_mode():
        features, expected = one.encode(before, after), two.encode(before, after)
        assert torch.equal(features.tokens, expected.tokens)
        assert torch.equal(features.change_logits, expected.change_logits)
        assert [one.generate_from(features, beams=2)] == [two.generate_from(expected, beams=2)]


@pytest.mark.parametrize("paper", MODELS)
def test_every_papers_model_is_the_one_that_was_filled_with_random_values_first(
    paper, tmp_path, tiny_registered
):
    folder = saved(tmp_path / "model", tiny_model(paper, text_encoder=TinyTextEncoder()))
    assert_same_models(load_model(folder), filled(folder))


@pytest.mark.parametrize("name", [card.name for card in available_models()])
def test_a_shipped_model_is_the_one_that_was_filled_with_random_values_first(name):
    folder = open_model_folder(find_model(name))
    assert_same_models(load_model(folder), filled(folder))


def made() -> nn.ModuleList:
    layers = [nn.Linear(3, 4), nn.Conv2d(3, 4, 1), nn.Embedding(3, 4), nn.LayerNorm(4), nn.BatchNorm2d(4)]
    nn.init.kaiming_normal_(layers[1].weight)
    nn.init.xavier_uniform_(layers[0].weight)
    return nn.ModuleList(layers)


def test_modules_built_for_a_file_draw_nothing_but_have_their_constants():
    state = torch.random.get_rng_state()
    with built_for(1000):
        layers = made()
    assert torch.equal(torch.random.get_rng_state(), state)
    assert layers[3].weight.tolist() == layers[4].running_var.tolist() == [1.0] * 4
    assert layers[3].bias.tolist() == layers[4].running_mean.tolist() == [0.0] * 4
    made()
    assert not torch.equal(torch.random.get_rng_state(), state)

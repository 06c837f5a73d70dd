"""A model is built for its file: without random first values, and the same as if they had been there."""

import pytest
import torch
from saved_models import saved
from tiny_models import TinyTextEncoder, random_images, tiny_model
from torch import nn

from rscc.model_folder import load_model
from rscc.models.backbones import build_backbone
from rscc.models.papers import MODELS, model_class
from rscc.text.tokenizer import load_vocabulary
from rscc.weights import load_weights


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

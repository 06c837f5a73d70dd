import importlib.util
import json

import pytest
import torch
from foundation_models import write_tiny_clip
from tiny_models import idle_parameters
from torch import nn

import rscc  # noqa: F401  installs the torchvision compatibility that open_clip's import may need
from rscc.errors import WeightsNotFound
from rscc.models.rdd import AttributeTokens
from rscc.text.encoders import (
    SENTENCE_PACKAGE,
    OpenClipTextEncoder,
    SentenceEncoder,
    TextEncoder,
    insert_prompt,
    load_text_encoder,
)

# Both take seconds to import: only tests that run do so.
is_there = all(map(importlib.util.find_spec, ("open_clip", "transformers")))
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not is_there, reason="needs rscc[train]")]

TEXTS = ["two villas", "a long road and several houses with a red roof", ""]


def clip_encoder() -> OpenClipTextEncoder:
    from open_clip import SimpleTokenizer
    from open_clip.model import CLIP, CLIPTextCfg, CLIPVisionCfg

    torch.manual_seed(3)
    towers = CLIP(
        embed_dim=24,
        vision_cfg=CLIPVisionCfg(layers=1, width=64, image_size=32, patch_size=16),
        text_cfg=CLIPTextCfg(context_length=20, width=32, heads=2, layers=2),
    )
    return OpenClipTextEncoder(towers.eval(), SimpleTokenizer(context_length=20))


WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "two", "villas", "a", "road", "long", "houses", "and", "red"]


@pytest.fixture(scope="module")
def bert_folder(tmp_path_factory):
    """Write a small BERT with random weights in the format of transformers."""
    import transformers

    folder = tmp_path_factory.mktemp("bert")
    torch.manual_seed(4)
    vocabulary = folder / "vocab.txt"
    vocabulary.write_text("\n".join(WORDS))
    config = transformers.BertConfig(
        vocab_size=len(WORDS),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=48,
        max_position_embeddings=16,
    )
    transformers.BertModel(config).save_pretrained(folder)
    transformers.BertTokenizerFast(str(vocabulary), model_max_length=16).save_pretrained(folder)
    return folder


@pytest.fixture(params=["open_clip", "sentence"])
def encoder(request, bert_folder) -> TextEncoder:
    return clip_encoder() if request.param == "open_clip" else SentenceEncoder.load(bert_folder)


def test_batched_equals_single(encoder: TextEncoder) -> None:
    together = encoder.encode(TEXTS)
    for text, vector in zip(TEXTS, together, strict=True):
        torch.testing.assert_close(encoder.encode([text])[0], vector, atol=1e-5, rtol=1e-4)


def test_a_long_text_leaves_room_for_a_prompt(encoder: TextEncoder) -> None:
    given = encoder.embed_tokens(["two villas " * 60], room=4)
    joined = insert_prompt(*given, torch.zeros(4, encoder.token_width))
    assert joined[0].shape[1] == encoder.max_tokens
    assert encoder.encode_embeddings(*joined).isfinite().all()


def test_a_prompt_stands_behind_the_first_token_and_matters(encoder: TextEncoder) -> None:
    embeddings, mask = encoder.embed_tokens(TEXTS, room=4)
    prompt = torch.randn(4, encoder.token_width, generator=torch.Generator().manual_seed(1))
    joined, joined_mask = insert_prompt(embeddings, mask, prompt)
    torch.testing.assert_close(joined[:, 0], embeddings[:, 0])
    torch.testing.assert_close(joined[1, 1:5], prompt)
    torch.testing.assert_close(joined[:, 5:], embeddings[:, 1:])
    assert joined_mask.sum(1).tolist() == (mask.sum(1) + 4).tolist()
    prompted = encoder.encode_embeddings(joined, joined_mask)
    assert (prompted - encoder.encode(TEXTS)).abs().max() > 1e-3


def test_the_clip_vector_is_read_at_the_end_of_text() -> None:
    encoder = clip_encoder()
    embeddings, mask = encoder.embed_tokens(["two villas", "a long red road"])
    assert mask.sum(1).tolist() == [4, 6]
    before = encoder.encode_embeddings(embeddings, mask)
    padded = embeddings.clone()
    padded[0, 4:] *= -1  # behind the end of the first text
    torch.testing.assert_close(encoder.encode_embeddings(padded, mask), before)
    padded[0, 3] *= -1  # the end token itself
    assert (encoder.encode_embeddings(padded, mask)[0] - before[0]).abs().max() > 1e-3


def test_a_clip_checkpoint_loads_from_a_local_file(tmp_path, monkeypatch) -> None:
    import open_clip

    file = str(write_tiny_clip(tmp_path / "clip.pt", monkeypatch))
    encoder = load_text_encoder(f"open_clip:tiny-clip:{file}")
    model = open_clip.create_model("tiny-clip", pretrained=file, weights_only=True).eval()
    with torch.no_grad():
        expected = model.encode_text(open_clip.get_tokenizer("tiny-clip")(TEXTS))
    torch.testing.assert_close(encoder.encode(TEXTS), expected, atol=1e-5, rtol=1e-4)
    assert not hasattr(encoder, "visual")


def test_a_clip_folder_without_weights_is_refused(tmp_path, monkeypatch) -> None:
    write_tiny_clip(tmp_path / "unread.pt", monkeypatch)
    from open_clip import factory

    config = {"model_cfg": factory._MODEL_CONFIGS["tiny-clip"], "preprocess_cfg": {}}
    (tmp_path / "open_clip_config.json").write_text(json.dumps(config))
    (tmp_path / "unread.pt").unlink()
    with pytest.raises(WeightsNotFound, match=tmp_path.name):
        load_text_encoder(f"open_clip:local-dir:{tmp_path}")


@pytest.mark.skipif(
    importlib.util.find_spec(SENTENCE_PACKAGE) is None, reason="all-MiniLM-L6-v2 is not installed"
)
def test_the_offline_sentence_encoder_knows_meaning() -> None:
    encoder = load_text_encoder()
    vectors = nn.functional.normalize(
        encoder.encode(["several houses", "a few buildings", "the red sun"]), dim=1
    )
    assert encoder.width == 384
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2] + 0.2


@pytest.mark.parametrize("prompt", ["none", "fixed", "learnable"])
def test_attribute_tokens_follow_the_order_and_learn_without_the_encoder(encoder, prompt: str) -> None:
    torch.manual_seed(6)
    module = AttributeTokens(encoder=encoder, width=20, prompt=prompt)
    out = module(["a road", "two villas", "a road"])
    assert out.shape == (3, 20)
    torch.testing.assert_close(out[0], out[2])
    assert (out[0] - out[1]).abs().max() > 1e-5
    swapped = module(["two villas", "a road"])
    torch.testing.assert_close(swapped, out[[1, 0]], atol=1e-5, rtol=1e-4)
    module(TEXTS).square().sum().backward()
    assert idle_parameters(module) == []
    assert ("prompt_vectors" in dict(module.named_parameters())) == (prompt == "learnable")
    if prompt == "learnable":
        assert module.prompt_vectors.shape == (4, encoder.token_width)
        assert (module.prompt_vectors.grad.abs().sum(1) > 0).all()
    assert all(parameter.grad is None for parameter in encoder.parameters())

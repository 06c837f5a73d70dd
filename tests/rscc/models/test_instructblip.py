import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_instructblip import PROMPTS, check_gradients, save_tiny_folder, tiny_instructblip, tiny_whole
from tiny_models import random_images
from torch import nn

from benchmarks import instructblip_dry_run as dry_run
from rscc.errors import ConfigInvalid, WeightsNotFound
from rscc.models.instructblip import (
    CLIP_MEAN,
    CLIP_STD,
    InstructBlipVision,
    LoraRanks,
    load_instructblip,
    pack,
    unpack,
)
from rscc.models.language_model_decoder import LanguageModelDecoder
from rscc.models.trunks import build_backbone


@pytest.fixture(scope="module")
def vision() -> InstructBlipVision:
    parts = tiny_instructblip()
    parts.rest.fusion.eval()
    return parts.eval()


def images(seed: int = 0) -> torch.Tensor:
    return random_images(2, 28, 28, seed=seed)[0]


def trainable(module: nn.Module) -> dict[str, nn.Parameter]:
    return {name: p for name, p in module.named_parameters() if p.requires_grad}


# The ViT


def test_tokens_and_attention_are_those_of_the_plain_model() -> None:
    """Against transformers' own eager attention in every layer; adapters begin without effect."""
    plain = tiny_whole().eval().vision_model
    plain.set_attn_implementation("eager")
    mean, std = (torch.tensor(value).view(1, 3, 1, 1) for value in (CLIP_MEAN, CLIP_STD))
    fresh = tiny_instructblip(adapters=False).eval()
    with torch.no_grad():
        expected = plain((images().float() - mean) / std, output_attentions=True)
        tokens, attention = fresh.encode(images())
    assert tokens.shape == (2, 1 + 16, 16)
    assert attention.shape == (2, 4, 4)
    torch.testing.assert_close(tokens, expected.last_hidden_state)
    by_hand = torch.stack([expected.attentions[-1][:, head, 0, 1:] for head in range(2)]).mean(0)
    torch.testing.assert_close(attention.flatten(1), by_hand)
    kept = 1 - expected.attentions[-1][:, :, 0, 0].mean(1)
    torch.testing.assert_close(attention.sum((1, 2)), kept)


def test_only_the_last_layer_computes_its_weights_and_clips_statistics_normalise(vision) -> None:
    layers = vision.stages[0].encoder.layers
    assert [layer.self_attn.config._attn_implementation for layer in layers] == ["sdpa", "eager"]
    assert torch.allclose(vision.mean.flatten() / 255, torch.tensor([0.48145466, 0.4578275, 0.40821073]))
    assert torch.allclose(vision.std.flatten() / 255, torch.tensor([0.26862954, 0.26130258, 0.27577711]))


def test_other_sizes_are_resized(vision) -> None:
    flat = torch.full((1, 3, 28, 28), 90, dtype=torch.uint8)
    with torch.no_grad():
        expected, _ = vision.encode(flat)
        found, attention = vision.encode(torch.full((1, 3, 64, 48), 90, dtype=torch.uint8))
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
    assert attention.shape == (1, 4, 4)


def test_one_map_carries_tokens_and_attention(vision) -> None:
    with torch.no_grad():
        tokens, attention = vision.encode(images())
        (packed,) = vision(images())
    assert packed.shape == (2, *vision.channels, 4, 4) == (2, 33, 4, 4)
    assert all(torch.equal(*both) for both in zip(unpack(packed), (tokens, attention), strict=True))
    assert torch.equal(packed[1, :16, 2, 3], tokens[1, 1 + 2 * 4 + 3])


def test_packing_keeps_rows_and_columns_apart() -> None:
    tokens, attention = torch.randn(2, 1 + 6, 5), torch.rand(2, 2, 3)
    packed = pack(tokens, attention)
    assert packed.shape == (2, 11, 2, 3)
    assert torch.equal(unpack(packed)[0], tokens)
    assert torch.equal(unpack(packed)[1], attention)
    assert torch.equal(packed[0, :5, 1, 0], tokens[0, 1 + 3])


# The Q-Former


@torch.no_grad()
def test_answers_stand_in_the_order_of_time_and_depend_on_their_own_prompt_alone(
    vision,
) -> None:
    fusion = vision.rest.fusion
    before, after = (vision.encode(images(seed=seed))[0] for seed in (1, 2))
    found = fusion(before, after, PROMPTS)
    back = fusion(after, before, PROMPTS)
    assert found.shape == (2, 2 * 5, 20)
    torch.testing.assert_close(found[:, :5], back[:, 5:])
    assert not torch.allclose(found, back)
    for row, prompt in enumerate(PROMPTS):
        alone = fusion(before[row : row + 1], after[row : row + 1], [prompt])
        torch.testing.assert_close(alone[0], found[row])
    assert not torch.allclose(fusion(before, after, PROMPTS[::-1]), found)
    fusion(before, after, ["house road " * 200] * 2)  # longer than its table of positions


def test_the_q_former_is_asked_as_instructblip_asks_it() -> None:
    """Against transformers' own path from pixels to the language model's inputs."""
    whole = tiny_whole().eval()
    fresh = tiny_instructblip(adapters=False)
    fusion = fresh.rest.fusion.eval()
    encoded = fusion.tokenizer(PROMPTS, padding=True, return_tensors="pt")
    with torch.no_grad():
        pixels = (images().float() - fresh.mean) / fresh.std
        expected = whole.get_image_features(
            pixels,
            qformer_input_ids=encoded["input_ids"],
            qformer_attention_mask=encoded["attention_mask"],
        ).pooler_output
        tokens, _ = fresh.eval().encode(images())
        found = fusion(tokens, tokens, PROMPTS)
    torch.testing.assert_close(found[:, :5], expected)
    torch.testing.assert_close(found[:, 5:], expected)


# The adapters


def test_adapters_alone_are_trained_and_their_number_is_ranks_times_sides() -> None:
    vision = tiny_instructblip(ranks=LoraRanks(vision=2, fusion=3, language=5))
    found = {
        name: sum(p.numel() for p in trainable(part).values())
        for name, part in (
            ("vision", vision),
            ("fusion", vision.rest.fusion),
            ("language", vision.rest.language_model),
        )
    }
    cross = (12 + 12) + 2 * (16 + 12)  # in one of the two layers
    assert found == {
        "vision": 2 * 2 * (16 + 48),
        "fusion": 3 * (2 * 3 * (12 + 12) + cross),
        "language": 5 * 2 * 3 * (20 + 20),
    }
    for part in (vision, vision.rest.fusion, vision.rest.language_model):
        assert all("lora_" in name for name in trainable(part))


def test_every_adapter_learns_from_attention_and_caption() -> None:
    vision = tiny_instructblip()
    fusion = vision.rest.fusion
    decoder = LanguageModelDecoder(
        language_model=vision.rest.language_model, vocabulary=vision.rest.vocabulary
    )
    (before, attention), (after, _) = (vision.encode(images(seed=seed)) for seed in (1, 2))
    memory = decoder.prefix(fusion(before, after, PROMPTS), PROMPTS)
    tokens = torch.tensor([decoder.vocabulary.encode("a house appears", 30)] * 2)
    caption = decoder(memory, tokens).logits.log_softmax(-1).square().mean()
    (attention.square().sum()).backward(retain_graph=True)
    qkv = {name: p.grad for name, p in trainable(vision).items()}
    assert all(grad is not None and grad.abs().sum() > 0 for grad in qkv.values())
    caption.backward()
    for part in (vision, fusion, decoder):
        check_gradients(part)


def test_only_adapters_are_saved_and_they_load(tmp_path) -> None:
    trained, other = tiny_instructblip(0), tiny_instructblip(0, adapters=False)
    one, two = (
        nn.ModuleDict({"v": v, "f": v.rest.fusion, "l": v.rest.language_model}) for v in (trained, other)
    )
    state = one.state_dict()
    assert set(state) == set(trainable(one))
    save_file(state, tmp_path / "adapters.safetensors")
    two.load_state_dict(load_file(tmp_path / "adapters.safetensors"))  # strict
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    missing = {name: value for name, value in list(state.items())[1:]}
    with pytest.raises(RuntimeError, match="Missing key"):
        two.load_state_dict(missing)


# Loading


def test_a_local_folder_loads_by_the_trunks_name(tmp_path) -> None:
    folder = save_tiny_folder(tmp_path / "blip")
    vision = build_backbone(f"instructblip/{folder}")
    assert isinstance(vision, InstructBlipVision)
    assert vision.stages[0].embeddings.class_embedding.dtype == torch.bfloat16
    assert {p.dtype for p in trainable(vision).values()} == {torch.float32}
    exact = load_instructblip(str(folder), dtype=torch.float32).eval()
    with torch.no_grad():
        expected, attention = tiny_instructblip(adapters=False).eval().encode(images())
        found = exact.encode(images())
        torch.testing.assert_close(found[0], expected)
        torch.testing.assert_close(found[1], attention)
        coarse = unpack(vision.eval()(images())[0])
    torch.testing.assert_close(coarse[0], expected, atol=0.15, rtol=0.15)
    assert exact.rest.vocabulary == tiny_instructblip().rest.vocabulary


def test_bfloat16_runs_from_pixels_to_words(tmp_path) -> None:
    vision = load_instructblip(str(save_tiny_folder(tmp_path / "blip")))
    rest = vision.rest
    decoder = LanguageModelDecoder(language_model=rest.language_model, vocabulary=rest.vocabulary)
    tokens, _ = unpack(vision(images())[0])
    memory = decoder.prefix(rest.fusion(tokens, tokens, PROMPTS), PROMPTS)
    words = torch.tensor([rest.vocabulary.encode("a house", 30)] * 2)
    decoder(memory, words).logits.float().square().mean().backward()
    assert all(p.grad is not None for p in (*trainable(vision).values(), *trainable(decoder).values()))


@pytest.mark.parametrize(
    ("lacking", "message"),
    [
        ("config.json", "blip"),
        ("tokenizer.json", "blip"),
        ("qformer_tokenizer/tokenizer.json", "blip"),
        ("model.safetensors", "safetensors"),  # pickled weights are not read
    ],
)
def test_incomplete_folders_are_refused(lacking, message, tmp_path) -> None:
    folder = save_tiny_folder(tmp_path / "blip")
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / lacking).unlink()
    with pytest.raises(WeightsNotFound, match=message) as caught:
        load_instructblip(str(folder))
    assert "\n" not in str(caught.value)


def test_another_kind_of_model_is_refused(tmp_path) -> None:
    whole = tiny_whole()
    whole.language_model.config.save_pretrained(tmp_path)
    with pytest.raises(ConfigInvalid, match="llama"):
        load_instructblip(str(tmp_path))


# The full size


@pytest.mark.slow
def test_the_full_size_runs_on_the_meta_device_with_the_published_numbers_of_parameters() -> None:
    full = dry_run.full_size()
    found = {count.part: count for count in dry_run.counts(full)}
    millions = {part: round((count.total - count.trained) / 1e6) for part, count in found.items()}
    assert millions == {
        "EVA-ViT-G": 986,
        "Q-Former and query tokens": 186,
        "projection": 3,
        "Vicuna-7B": 6738,
    }
    assert {part: count.trained for part, count in found.items()} == dry_run.adapters_by_formula(LoraRanks())
    assert sum(count.trained for count in found.values()) == 7_532_544
    assert {p.device.type for p in full.parameters()} == {"meta"}
    assert dry_run.shapes(full) == {
        "patch tokens of a date": (2, 257, 1408),
        "[CLS]-to-patch attention of a date": (2, 16, 16),
        "answers of the Q-Former, both dates": (2, 64, 4096),
        "prefix of the language model": (2, 82, 4096),
        "logits": (2, 20, 32001),
    }

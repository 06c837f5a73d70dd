import pytest
import torch
from foundation_models import PROMPTS, save_tiny_folder, tiny_instructblip, tiny_whole
from safetensors.torch import load_file, save_file
from tiny_models import random_images
from torch import nn

from rscc.errors import WeightsNotFound
from rscc.models.backbones import build_backbone
from rscc.models.instructblip import CLIP_MEAN, CLIP_STD, InstructBlipVision, load_instructblip, unpack

pytestmark = pytest.mark.slow


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


# The adapters


def test_adapters_alone_are_trained_and_their_number_is_ranks_times_sides() -> None:
    vision = tiny_instructblip()
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
        "vision": 4 * 2 * (16 + 48),
        "fusion": 4 * (2 * 3 * (12 + 12) + cross),
        "language": 8 * 2 * 3 * (20 + 20),
    }
    for part in (vision, vision.rest.fusion, vision.rest.language_model):
        assert all("lora_" in name for name in trainable(part))


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
    with pytest.raises(RuntimeError):
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
    assert exact.rest.vocabulary.words == tiny_instructblip().rest.vocabulary.words


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
    with pytest.raises(WeightsNotFound) as caught:
        load_instructblip(str(folder))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("download", [False, True])
def test_nothing_is_downloaded_unasked(download, monkeypatch) -> None:
    def offline(name, *, local_files_only):
        assert (name, local_files_only) == ("some/hub", not download)
        raise OSError("no such file")

    monkeypatch.setattr("transformers.AutoConfig.from_pretrained", offline)
    with pytest.raises(WeightsNotFound):
        load_instructblip("some/hub", download=download)

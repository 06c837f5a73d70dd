"""Segmenters by transformers' and timm's own classes, with random weights of tiny or real sizes."""

import pickle

import numpy as np
import pytest
import torch
from foundation_models import tiny_sam
from safetensors.torch import save_file

from rscc.errors import WeightsNotFound
from rscc.models.shared.segmenters import MobileSamEncoder, SamSegmenter, load_segmenter

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("sam")
    tiny_sam().save_pretrained(path)
    return path


def image(height=48, width=64) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (3, height, width)).astype(np.uint8)


def prompts(count, height=48, width=64):
    rng = np.random.default_rng(1)
    left, top = rng.uniform(0, width / 2, count), rng.uniform(0, height / 2, count)
    boxes = np.stack([left, top, left + width / 3, top + height / 3], 1).astype(np.float32)
    return boxes, ((boxes[:, :2] + boxes[:, 2:]) / 2).astype(np.float32)


def test_masks_have_the_images_size_and_one_per_prompt(folder) -> None:
    segmenter = load_segmenter(f"sam:{folder}")
    for count, height, width in ((3, 48, 64), (3, 64, 40), (3, 30, 30)):
        masks = segmenter.segment(image(height, width), *prompts(count, height, width))
        assert masks.shape == (count, height, width) and masks.dtype == bool


def test_prompts_of_an_image_that_is_not_square_lie_where_they_lay(folder, monkeypatch) -> None:
    segmenter, given = load_segmenter(f"sam:{folder}"), {}
    forward = segmenter._sam.forward
    monkeypatch.setattr(segmenter._sam, "forward", lambda **named: given.update(named) or forward(**named))
    boxes = np.array([[0, 0, 40, 7]], np.float32)
    segmenter.segment(image(7, 40), boxes, boxes[:, :2])
    assert given["input_boxes"].flatten().tolist() == [0, 0, 64, 11]


def test_sam_sees_what_its_own_processor_would_show(folder) -> None:
    """Sizes, scales and normalisation are those of transformers' own preparation."""
    from transformers import SamImageProcessor

    segmenter = load_segmenter(f"sam:{folder}")
    picture, (boxes, points) = image(24, 32), prompts(2, 24, 32)
    processor = SamImageProcessor(
        size={"longest_edge": 64}, pad_size={"height": 64, "width": 64}, mask_size={"longest_edge": 16}
    )
    shown = processor(picture.transpose(1, 2, 0), return_tensors="pt")
    sam = tiny_sam()
    with torch.no_grad():
        logits = sam(
            pixel_values=shown["pixel_values"],
            input_boxes=torch.from_numpy(boxes)[None] * 2,
            input_points=torch.from_numpy(points)[None, :, None] * 2,
            input_labels=torch.ones(1, 2, 1, dtype=torch.int64),
            multimask_output=False,
        ).pred_masks[0, :, 0]
    wide = torch.nn.functional.interpolate(logits[None], (64, 64), mode="bilinear")[..., :48, :64]
    wanted = torch.nn.functional.interpolate(wide, (24, 32), mode="bilinear")[0] > 0
    found = torch.from_numpy(segmenter.segment(picture, boxes, points))
    assert (found == wanted).float().mean() > 0.97


# MobileSAM: the checkpoint's names, its sizes, no weights of others


def published_names(encoder, sam) -> dict[str, torch.Tensor]:
    """Give our parts' tensors the names that the published checkpoint has."""
    state = {}
    for name, value in encoder.state_dict().items():
        name = name.removeprefix("trunk.")
        name = name.replace("patch_embed.conv1.", "patch_embed.seq.0.")
        name = name.replace("patch_embed.conv2.", "patch_embed.seq.2.")
        if name.startswith("stages."):
            _, stage, rest = name.split(".", 2)
            place = int(stage) - 1 if rest.startswith("downsample.") else int(stage)
            name = f"layers.{place}.{rest}"
        if name.endswith(".conv.weight") and not name.startswith("neck."):
            name = name.removesuffix("conv.weight") + "c.weight"
        state[f"image_encoder.{name}"] = value
    whole = {
        "mask_decoder.upscale_conv1.": "mask_decoder.output_upscaling.0.",
        "mask_decoder.upscale_layer_norm.": "mask_decoder.output_upscaling.1.",
        "mask_decoder.upscale_conv2.": "mask_decoder.output_upscaling.3.",
        "mask_embed.conv1.": "mask_downscaling.0.",
        "mask_embed.layer_norm1.": "mask_downscaling.1.",
        "mask_embed.conv2.": "mask_downscaling.3.",
        "mask_embed.layer_norm2.": "mask_downscaling.4.",
        "mask_embed.conv3.": "mask_downscaling.6.",
        "prompt_encoder.point_embed.": "prompt_encoder.point_embeddings.",
        "shared_embedding.positional_embedding": "pe_layer.positional_encoding_gaussian_matrix",
        "layer_norm_final_attn.": "norm_final_attn.",
        "proj_out.": "layers.2.",
    }
    for name, value in sam.state_dict().items():
        if name.startswith(("vision_encoder.", "shared_image_embedding.")):
            continue
        if "mlps" in name or "prediction_head" in name:
            name = name.replace("layers.0.", "layers.1.").replace("proj_in.", "layers.0.")
        for ours, theirs in whole.items():
            name = name.replace(ours, theirs)
        if "transformer.layers" in name:
            name = name.replace("layer_norm", "norm")
        state[name] = value
    state["image_encoder.head.weight"] = torch.zeros(3, 320)  # of the classifier, which is not needed
    return state


@pytest.fixture(scope="module")
def mobile(tmp_path_factory):
    """A checkpoint in the published form with random weights, and what it was made of."""
    from transformers import SamConfig, SamModel

    torch.manual_seed(0)
    config = SamConfig(vision_config={"num_hidden_layers": 0, "hidden_size": 8, "num_attention_heads": 1})
    sam, encoder = SamModel(config).eval(), MobileSamEncoder().eval()
    sam.shared_image_embedding.positional_embedding.data = (
        sam.prompt_encoder.shared_embedding.positional_embedding.data.clone()
    )
    for buffer in (b for n, b in encoder.named_buffers() if n.endswith("running_mean")):
        buffer.normal_(std=0.1)
    path = tmp_path_factory.mktemp("mobile") / "mobile_sam.pt"
    torch.save(published_names(encoder, sam), path)
    return path, sam, encoder


def test_mobile_sams_names_find_their_places(mobile, tmp_path) -> None:
    path, sam, encoder = mobile
    state = torch.load(path, weights_only=True)
    assert {
        *("image_encoder.patch_embed.seq.2.bn.running_var", "image_encoder.layers.0.blocks.1.conv2.c.weight"),
        *("image_encoder.layers.2.downsample.conv1.c.weight", "image_encoder.neck.3.bias"),
        *("image_encoder.layers.1.blocks.0.attn.attention_biases", "prompt_encoder.mask_downscaling.6.bias"),
        *("image_encoder.layers.3.blocks.1.local_conv.c.weight", "mask_decoder.output_upscaling.1.weight"),
        *("mask_decoder.transformer.layers.1.norm4.bias", "mask_decoder.iou_prediction_head.layers.2.bias"),
        *("mask_decoder.output_hypernetworks_mlps.3.layers.1.weight", "prompt_encoder.no_mask_embed.weight"),
        *("prompt_encoder.pe_layer.positional_encoding_gaussian_matrix", "mask_decoder.mask_tokens.weight"),
    } <= set(state), "names of the published checkpoint"
    loaded = load_segmenter(f"mobile_sam:{path}")
    wanted = SamSegmenter(sam=sam, encoder=encoder, size=1024)
    pixels = torch.randn(1, 3, 128, 128, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert encoder(pixels).shape == (1, 256, 8, 8)
    for one, other in ((loaded._encoder, encoder), (loaded._sam.mask_decoder, sam.mask_decoder)):
        for name, value in other.state_dict().items():
            assert torch.equal(one.state_dict()[name], value), name
    for name, value in sam.prompt_encoder.state_dict().items():
        assert torch.equal(loaded._sam.prompt_encoder.state_dict()[name], value), name
    assert loaded.size == wanted.size == 1024
    safe = tmp_path / "mobile_sam.safetensors"
    save_file({name: value.contiguous() for name, value in state.items()}, safe)
    assert load_segmenter(f"mobile_sam:{safe}").size == 1024


class Harm:
    def __reduce__(self):
        return (print, ("code of the file was run",))


def test_files_of_another_kind_are_refused(mobile, tmp_path, capsys) -> None:
    harmful = tmp_path / "harmful.pt"
    harmful.write_bytes(pickle.dumps({"image_encoder.neck.0.weight": Harm()}, protocol=2))
    zipped = tmp_path / "zipped.pt"
    torch.save({"image_encoder.neck.0.weight": Harm()}, zipped)
    listed, lacking, wrong = (tmp_path / name for name in ("listed.pt", "lacking.pt", "wrong.pt"))
    torch.save([torch.zeros(1)], listed)
    state = torch.load(mobile[0], weights_only=True)
    torch.save({name: value for name, value in state.items() if "neck" not in name}, lacking)
    torch.save(state | {"mask_decoder.iou_token.weight": torch.zeros(1, 3)}, wrong)
    for path in (harmful, zipped, listed, lacking, wrong, tmp_path / "none.pt"):
        with pytest.raises(WeightsNotFound) as caught:
            load_segmenter(f"mobile_sam:{path}")
        assert "\n" not in str(caught.value)
    assert "run" not in capsys.readouterr().out

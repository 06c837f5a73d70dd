"""Promptable segmenters from local files, for DAVIR's change masks (Eq. 3).

* ``sam:FOLDER`` is Segment Anything (the paper: ViT-H) in the format of transformers, safetensors only.
* ``mobile_sam:FILE`` is MobileSAM, SAM with a TinyViT of 5 M parameters as its image encoder. Its checkpoint
  ``mobile_sam.pt`` is read without unpickling anything but tensors; a safetensors file with the same names
  works too. The TinyViT is timm's, whose last stage is changed to keep the size of its map as MobileSAM's
  does; prompt encoder and mask decoder are transformers'.

A prompt is a box with a point inside; the answer is one mask per prompt.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rscc.errors import ConfigInvalid, WeightsNotFound, extra, first_line
from rscc.models.shared.blocks import enlarge_maps
from rscc.weights import read_tensors

_MEAN = (123.675, 116.28, 103.53)
_STD = (58.395, 57.12, 57.375)
_PROMPTS_AT_ONCE = 32

# From tensor names of MobileSAM's (and Segment Anything's) checkpoint to those of transformers.
_DECODER_NAMES = (
    (r"\.norm(\d)\.", r".layer_norm\1."),
    (r"\.norm_final_attn\.", ".layer_norm_final_attn."),
    (r"^mask_decoder\.output_upscaling\.0\.", "mask_decoder.upscale_conv1."),
    (r"^mask_decoder\.output_upscaling\.1\.", "mask_decoder.upscale_layer_norm."),
    (r"^mask_decoder\.output_upscaling\.3\.", "mask_decoder.upscale_conv2."),
    (r"(mlps\.\d|prediction_head)\.layers\.0\.", r"\1.proj_in."),
    (r"(mlps\.\d|prediction_head)\.layers\.1\.", r"\1.layers.0."),
    (r"(mlps\.\d|prediction_head)\.layers\.2\.", r"\1.proj_out."),
    (r"^prompt_encoder\.point_embeddings\.", "prompt_encoder.point_embed."),
    (r"^prompt_encoder\.mask_downscaling\.0\.", "prompt_encoder.mask_embed.conv1."),
    (r"^prompt_encoder\.mask_downscaling\.1\.", "prompt_encoder.mask_embed.layer_norm1."),
    (r"^prompt_encoder\.mask_downscaling\.3\.", "prompt_encoder.mask_embed.conv2."),
    (r"^prompt_encoder\.mask_downscaling\.4\.", "prompt_encoder.mask_embed.layer_norm2."),
    (r"^prompt_encoder\.mask_downscaling\.6\.", "prompt_encoder.mask_embed.conv3."),
    (
        r"^prompt_encoder\.pe_layer\.positional_encoding_gaussian_matrix$",
        "prompt_encoder.shared_embedding.positional_embedding",
    ),
)
# From tensor names of MobileSAM's TinyViT to timm's, which puts each reduction before the next stage.
_ENCODER_NAMES = (
    (r"^patch_embed\.seq\.0\.", "patch_embed.conv1."),
    (r"^patch_embed\.seq\.2\.", "patch_embed.conv2."),
    (r"^layers\.(\d)\.blocks\.", r"stages.\1.blocks."),
    (r"\.c\.weight$", ".conv.weight"),
)


class SamSegmenter:
    """Prompt encoder and mask decoder of Segment Anything on the features of an image encoder.

    Attributes:
        size: side in pixels of the encoder's input; the longer side of an image is resized to it.
    """

    def __init__(self, *, sam: Any, encoder: nn.Module | None = None, size: int | None = None):
        """Use a ``SamModel`` of transformers; None for its own encoder and size.

        ``encoder`` maps (B, 3, size, size) to features (B, C, h, w).
        """
        self._sam = sam.eval().requires_grad_(False)
        self._encoder = None if encoder is None else encoder.eval().requires_grad_(False)
        self.size = int(size or sam.config.vision_config.image_size)

    def to(self, device: torch.device | str) -> SamSegmenter:
        """Move to a device."""
        self._sam.to(device)
        if self._encoder is not None:
            self._encoder.to(device)
        return self

    @torch.no_grad()
    def segment(self, image: np.ndarray, boxes: np.ndarray, points: np.ndarray) -> np.ndarray:
        """Segment one image for K prompts, at least one: (K, H, W) bool.

        Args:
            image: (3, H, W) uint8 RGB.
            boxes: (K, 4) float32, left, top, right and bottom edge in pixels.
            points: (K, 2) float32, x and y in pixels, one inside each object.
        """
        height, width = image.shape[1:]
        device = next(self._sam.parameters()).device
        scale = self.size / max(height, width)
        shape = (max(1, round(height * scale)), max(1, round(width * scale)))
        encode = self._encoder or self._sam.get_image_embeddings
        features = encode(self._prepared(image, shape).to(device))
        # From pixels of the image to pixels of the square, with one scale each for x and y.
        to_square = torch.tensor([shape[1] / width, shape[0] / height], device=device)
        corners = torch.tensor(boxes, dtype=torch.float32, device=device).view(1, -1, 2, 2) * to_square
        inside = torch.tensor(points, dtype=torch.float32, device=device).view(1, -1, 1, 2) * to_square
        masks = []
        for start in range(0, len(boxes), _PROMPTS_AT_ONCE):
            part = slice(start, start + _PROMPTS_AT_ONCE)
            some = inside[:, part]
            logits = self._sam(
                image_embeddings=features,
                input_boxes=corners[:, part].flatten(2),
                input_points=some,
                input_labels=torch.ones(some.shape[:3], dtype=torch.int64, device=device),
                multimask_output=False,
            ).pred_masks[0]  # (K, 1, side, side) logits of the square
            square = enlarge_maps(logits[:, 0], (self.size, self.size))
            masks.append(enlarge_maps(square[:, : shape[0], : shape[1]], (height, width)) > 0)
        return torch.cat(masks).cpu().numpy()

    def _prepared(self, image: np.ndarray, shape: tuple[int, int]) -> Tensor:
        """Resize (3, H, W) to ``shape``, normalise, pad to the square below and on the right."""
        pixels = torch.from_numpy(np.ascontiguousarray(image)).float().unsqueeze(0)
        resized = F.interpolate(pixels, shape, mode="bilinear", align_corners=False, antialias=True)
        mean, std = (torch.tensor(values).view(1, 3, 1, 1) for values in (_MEAN, _STD))
        return F.pad((resized - mean) / std, (0, self.size - shape[1], 0, self.size - shape[0]))


class MobileSamEncoder(nn.Module):
    """MobileSAM's image encoder: timm's TinyViT-5M for 1024 px, and the neck to SAM's 256 channels."""

    def __init__(self) -> None:
        super().__init__()
        with extra("train", "MobileSAM"):
            import timm

        self.trunk = timm.create_model("tiny_vit_5m_224", pretrained=False, num_classes=0)
        self.trunk.head = nn.Identity()
        # SAM's decoder expects 64 x 64: the last reduction changes channels only.
        self.trunk.stages[3].downsample.conv2.conv.stride = (1, 1)
        self.neck = nn.Sequential(
            nn.Conv2d(320, 256, 1, bias=False),
            _ChannelNorm(256),
            nn.Conv2d(256, 256, 3, padding=1, bias=False),
            _ChannelNorm(256),
        )

    def forward(self, pixels: Tensor) -> Tensor:
        """Map (B, 3, H, W) to (B, 256, H / 16, W / 16)."""
        return self.neck(self.trunk.stages(self.trunk.patch_embed(pixels)))


class _ChannelNorm(nn.LayerNorm):
    """LayerNorm over the channels of (B, C, h, w)."""

    def __init__(self, channels: int):
        super().__init__(channels, eps=1e-6)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def load_segmenter(kind: str) -> SamSegmenter:
    """Load the segmenter of a config."""
    family, _, place = kind.partition(":")
    if not place or family not in ("sam", "mobile_sam"):
        raise ConfigInvalid(
            f"model.options.segmenter is {kind!r}; use 'none', 'sam:FOLDER' or 'mobile_sam:FILE'"
        )
    with extra("train", "a segmenter"):
        from transformers import SamConfig, SamModel
    if family == "mobile_sam":
        return _load_mobile_sam(Path(place), SamConfig, SamModel)
    if not Path(place).is_dir():
        raise WeightsNotFound(
            f"{place}: no such folder; give one that holds Segment Anything in the format of transformers"
        )
    try:
        sam, loaded = SamModel.from_pretrained(
            place, local_files_only=True, use_safetensors=True, output_loading_info=True
        )
        # transformers would fill missing tensors with random values.
        if missing := sorted(loaded["missing_keys"]):
            raise ValueError(f"{len(missing)} of its tensors are missing, such as {missing[0]}")
    except Exception as error:  # a damaged file can raise anything in the library
        raise WeightsNotFound(
            f"{place}: not a Segment Anything model with safetensors weights ({first_line(error)}); "
            "give a local folder in the format of transformers"
        ) from error
    return SamSegmenter(sam=sam)


def _load_mobile_sam(path: Path, config: Any, model: Any) -> SamSegmenter:
    state = read_tensors(path, "MobileSAM's checkpoint (mobile_sam.pt)")
    # SAM's own encoder is not used, so it is made as small as possible.
    sam = model(config(vision_config={"num_hidden_layers": 0, "hidden_size": 8, "num_attention_heads": 1}))
    encoder = MobileSamEncoder()
    for part, renamed in ((encoder, _encoder_state(state)), (sam, _decoder_state(state))):
        expected = {name for name in part.state_dict() if not name.startswith("vision_encoder.")}
        missing, unknown = expected - set(renamed), set(renamed) - expected
        resized = [
            name for name in expected & set(renamed) if part.state_dict()[name].shape != renamed[name].shape
        ]
        if missing or unknown or resized:
            raise WeightsNotFound(
                f"{path}: not MobileSAM's checkpoint ({len(missing)} tensors are missing, {len(unknown)} are "
                f"unknown, {len(resized)} have another size)"
            )
        part.load_state_dict(renamed, strict=False)
    return SamSegmenter(sam=sam, encoder=encoder, size=1024)


def _encoder_state(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Rename the encoder's tensors to timm's names, without TinyViT's classifier."""
    renamed = {}
    for name, value in state.items():
        head, _, rest = name.partition(".")
        if head != "image_encoder" or rest.startswith(("head.", "norm_head.")):
            continue
        if rest.startswith("neck."):
            renamed[rest] = value
            continue
        after = re.match(r"layers\.(\d)\.downsample\.(.*)", rest)
        if after:
            rest = f"stages.{int(after[1]) + 1}.downsample.{after[2]}"
        renamed["trunk." + _translated(rest, _ENCODER_NAMES)] = value
    return renamed


def _decoder_state(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Rename prompt encoder and mask decoder to transformers' names; they share one position encoding."""
    renamed = {
        _translated(name, _DECODER_NAMES): value
        for name, value in state.items()
        if not name.startswith(("image_encoder.", "pixel_"))
    }
    shared = renamed.get("prompt_encoder.shared_embedding.positional_embedding")
    if shared is not None:
        renamed["shared_image_embedding.positional_embedding"] = shared
    return renamed


def _translated(name: str, rules: tuple[tuple[str, str], ...]) -> str:
    for pattern, new in rules:
        name = re.sub(pattern, new, name)
    return name

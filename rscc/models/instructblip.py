"""The large size of DAVIR: InstructBLIP of transformers with LoRA by peft (Appendix B).

Choices where the paper is ambiguous:

* "LoRA adapters with rank r = 4 to the QKV projections of EVA-ViT-G and Q-Former, and rank r = 8 for
  Vicuna-7B": the QKV projections are read as the target in all three. They are one fused layer in the ViT;
  query, key and value of self- and cross-attention in the Q-Former; q, k and v in Vicuna. The scale alpha is
  not given: it is twice the rank, without dropout. "All other parameters remain frozen" is applied to the
  query tokens and the language projection too.
* The shared Q-Former reads one date after the other, and the language model reads both answers in temporal
  order. One pass over the patches of both dates would not do: cross-attention ignores the order of its
  inputs, so that before and after could be exchanged without effect.
* The prompt goes to the Q-Former (Eq. 10) and, after the images, to the language model (Eq. 11), as
  InstructBLIP does with its instructions.
* Images of another size are resized to the ViT's own (Sec. 4.2: 224 x 224).
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rscc.errors import ConfigInvalid, WeightsNotFound, extra, first_line
from rscc.models.davir_compact import Encoded, QFormerOutput, patches_to_compare
from rscc.models.language_model_decoder import PROMPT_TOKENS, LanguageModelDecoder
from rscc.models.trunks.backbone import Backbone
from rscc.structures import PairView
from rscc.text.encoders import padded_tokens
from rscc.text.tokenizer import TokenizerVocabulary

CLIP_MEAN = (122.7709383, 116.7460125, 104.09373615)
CLIP_STD = (68.5005327, 66.6321579, 70.32316305)
# Ranks of the adapters (Appendix B), and alpha divided by the rank.
VISION_RANK, FUSION_RANK, LANGUAGE_RANK, LORA_SCALE = 4, 4, 8, 2
# Held while a hook is on a layer that all threads share.
_HOOKED = threading.Lock()


class InstructBlipVision(Backbone):
    """The ViT as a trunk.

    It has one map, at its patches' stride, of 2 D + 1 channels: the patch tokens, the [CLS] token repeated
    at every position, and the attention of [CLS] to the patch in the last layer. In this form the ViT's
    outputs are handled like the maps of other trunks; :func:`unpack` reverses it.

    Attributes:
        rest: the other parts of InstructBLIP; they are not registered here.
    """

    def __init__(self, vision_model: Any, rest: InstructBlipRest):
        super().__init__(
            [vision_model], channels=(2 * vision_model.config.hidden_size + 1,), mean=CLIP_MEAN, std=CLIP_STD
        )
        self.rest = rest
        self.vocabulary = rest.vocabulary
        self.size = int(vision_model.config.image_size)
        self.patch = int(vision_model.config.patch_size)
        # Fused attention returns no weights; only the last layer needs them.
        attention = vision_model.encoder.layers[-1].self_attn
        attention.config = copy.deepcopy(attention.config)
        attention.config._attn_implementation = "eager"

    def encode(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Encode (B, 3, H, W) RGB in 0..255.

        Returns:
            Tokens (B, 1 + h * w, D), [CLS] first, and the last layer's attention of [CLS] to the patches
            (B, h, w), mean over the heads (Eq. 5): above 0, with a sum of 1 minus what [CLS] gives itself.
        """
        vision_model: Any = self.stages[0]
        if images.shape[-2:] != (self.size, self.size):
            images = F.interpolate(
                images.float(), (self.size, self.size), mode="bicubic", align_corners=False, antialias=True
            ).clamp(0, 255)
        outputs: list[Tensor] = []
        with _HOOKED:
            hook = vision_model.encoder.layers[-1].self_attn.register_forward_hook(
                lambda _module, _inputs, output: outputs.append(output[1])
            )
            try:
                tokens = vision_model((images.float() - self.mean) / self.std).last_hidden_state
            finally:
                hook.remove()
        side = self.size // self.patch
        attention = outputs[0][:, :, 0, 1:].float().mean(1)  # (B, heads, 1 + N, 1 + N) to (B, N)
        return tokens, attention.view(-1, side, side)

    def forward(self, images: Tensor) -> list[Tensor]:
        """Map (B, 3, H, W) RGB in 0..255 to one map (B, 2 D + 1, h, w) in float32."""
        return [pack(*self.encode(images))]


def pack(tokens: Tensor, attention: Tensor) -> Tensor:
    """Put tokens (B, 1 + h * w, D) and attention (B, h, w) into one map (B, 2 D + 1, h, w)."""
    h, w = attention.shape[1:]
    patches = tokens[:, 1:].transpose(1, 2).unflatten(2, (h, w))
    everywhere = tokens[:, 0, :, None, None].expand_as(patches)
    return torch.cat([patches.float(), everywhere.float(), attention.float().unsqueeze(1)], dim=1)


def unpack(packed: Tensor) -> tuple[Tensor, Tensor]:
    """Undo :func:`pack`: tokens (B, 1 + h * w, D) and attention (B, h, w)."""
    width = packed.shape[1] // 2
    patches = packed[:, :width].flatten(2).transpose(1, 2)
    first = packed[:, width : 2 * width, 0, 0].unsqueeze(1)
    return torch.cat([first, patches], dim=1), packed[:, -1]


class InstructBlipFusion(nn.Module):
    """The shared Q-Former with its query tokens and the projection into the language model's width."""

    def __init__(self, *, whole: Any, tokenizer: Any):
        super().__init__()
        self.qformer = whole.qformer
        self.query_tokens = nn.Parameter(whole.query_tokens.detach(), requires_grad=False)
        self.language_projection = whole.language_projection
        self.tokenizer = tokenizer

    def forward(self, before: Tensor, after: Tensor, prompts: Sequence[str]) -> Tensor:
        """Run the Q-Former on both dates' tokens, each (B, 1 + N, D), with the same prompts.

        Returns the K answers of the first date, then those of the second: (B, 2 K, D_lm).
        """
        room = min(PROMPT_TOKENS, int(self.qformer.config.max_position_embeddings))
        ids, real = padded_tokens(self.tokenizer, prompts, room, before.device)
        answers = [self._answers(tokens, ids, real) for tokens in (before, after)]
        return torch.cat(answers, dim=1)

    def _answers(self, tokens: Tensor, ids: Tensor, real: Tensor) -> Tensor:
        count = self.query_tokens.shape[1]
        output = self.qformer(
            input_ids=ids,
            attention_mask=torch.cat([real.new_ones(len(real), count), real], dim=1),
            query_embeds=self.query_tokens.expand(len(ids), -1, -1),
            encoder_hidden_states=tokens.to(self.query_tokens.dtype),
        )
        return self.language_projection(output.last_hidden_state[:, :count])


class InstructBlipParts(nn.Module):
    """Connects ViT, Q-Former and language model; what :class:`~rscc.models.davir_compact.CompactParts` is."""

    def __init__(self, *, fusion: InstructBlipFusion, decoder: LanguageModelDecoder, instruction: str):
        """Use the Q-Former; ``instruction`` is the [Prompt] of Eq. 10."""
        super().__init__()
        self.fusion = fusion
        self.instruction = instruction
        self._decoder = [decoder]  # a list: the captioner registers it

    def encode(self, pair: PairView) -> Encoded:
        """Eq. 4-5, unpacked from the trunk's maps."""
        before, attention_before = unpack(pair.maps_before)
        after, attention_after = unpack(pair.maps_after)
        return Encoded(before, after, attention_before, attention_after, patches_to_compare(pair))

    def run_qformer(
        self, encoded: Encoded, entities: Tensor | None, names: Callable[[], list[tuple[str, ...]]]
    ) -> QFormerOutput:
        """Eq. 10-11 from the entities' names, which may be empty; their features are not used."""
        prompts = [self.prompt(some) for some in names()]
        visual = self.fusion(encoded.before, encoded.after, prompts)
        return QFormerOutput(visual, self._decoder[0].prefix(visual, prompts))

    def prompt(self, names: Sequence[str]) -> str:
        """Eq. 10: the instruction, and after "Entity:" the names."""
        return f"{self.instruction} Entity: {', '.join(names)}" if names else self.instruction


@dataclass(frozen=True)
class InstructBlipRest:
    """The parts of InstructBLIP besides the ViT."""

    fusion: InstructBlipFusion
    language_model: Any
    vocabulary: TokenizerVocabulary


def from_whole(whole: Any, *, tokenizer: Any, qformer_tokenizer: Any) -> InstructBlipVision:
    """Freeze an ``InstructBlipForConditionalGeneration``, add the adapters, and split it into parts.

    Args:
        whole: the model; it is not usable as a whole afterwards.
        tokenizer, qformer_tokenizer: of transformers, for the language model and the Q-Former.

    Raises:
        ConfigInvalid: the language model is not causal with q, k and v projections, or its tokenizer does not
            fit it.
    """
    if not whole.config.use_decoder_only_language_model:
        raise ConfigInvalid("DAVIR needs an InstructBLIP with a causal language model, such as Vicuna")
    vocabulary = TokenizerVocabulary.of_transformers(tokenizer)
    table = whole.language_model.get_input_embeddings().weight.shape[0]
    if len(vocabulary) > table:
        raise ConfigInvalid(
            f"the tokenizer has {len(vocabulary)} pieces, the language model knows {table}; they do not "
            "belong together"
        )
    whole.requires_grad_(False)
    for part, targets, rank in (
        (whole.vision_model, ("qkv",), VISION_RANK),
        (whole.qformer, ("query", "key", "value"), FUSION_RANK),
        (whole.language_model, ("q_proj", "k_proj", "v_proj"), LANGUAGE_RANK),
    ):
        add_adapters(part, targets, rank=rank)
    fusion = InstructBlipFusion(whole=whole, tokenizer=qformer_tokenizer)
    vision = InstructBlipVision(
        whole.vision_model, InstructBlipRest(fusion, whole.language_model, vocabulary)
    )
    for part in (vision, fusion, whole.language_model):
        keep_adapters_only(part)
    return vision


def add_adapters(part: nn.Module, targets: Sequence[str], *, rank: int) -> None:
    """Add LoRA adapters in float32 to the linear layers of these names; only they are trained."""
    with extra("davir", "fine-tuning InstructBLIP"):
        from peft import LoraConfig, inject_adapter_in_model
    config = LoraConfig(r=rank, lora_alpha=rank * LORA_SCALE, target_modules=list(targets), lora_dropout=0.0)
    try:
        inject_adapter_in_model(config, part)
    except ValueError as error:
        raise ConfigInvalid(
            f"{type(part).__name__} has no layers named {', '.join(targets)} ({first_line(error)})"
        ) from error
    for name, parameter in part.named_parameters():
        parameter.requires_grad_("lora_" in name)
        if parameter.requires_grad:
            parameter.data = parameter.data.float()


def keep_adapters_only(part: nn.Module) -> None:
    """Leave frozen parameters out of ``state_dict``, and do not require them when one is loaded.

    They are billions, never change, and come from the folder or hub that the model was built from.
    """
    frozen = [name for name, parameter in part.named_parameters() if not parameter.requires_grad]
    endings = tuple(f".{name}" for name in frozen)

    def drop(_module: nn.Module, state: dict[str, Any], prefix: str, _metadata: object) -> None:
        for name in frozen:
            state.pop(prefix + name, None)

    def allow_missing(_module: nn.Module, keys: Any) -> None:
        keys.missing_keys[:] = [key for key in keys.missing_keys if not f".{key}".endswith(endings)]

    part.register_state_dict_post_hook(drop)
    part.register_load_state_dict_post_hook(allow_missing)


def load_instructblip(
    name: str, *, download: bool = False, dtype: torch.dtype = torch.bfloat16
) -> InstructBlipVision:
    """Load InstructBLIP from a local folder or, by its hub name, from the hub or its cache.

    Only safetensors files are read. The folder holds the language model's tokenizer, and the Q-Former's in
    ``qformer_tokenizer``. With ``download`` transformers may download missing files.
    """
    with extra("davir", "InstructBLIP"):
        from transformers import (
            AutoConfig,
            AutoTokenizer,
            InstructBlipConfig,
            InstructBlipForConditionalGeneration,
        )
    local: dict[str, Any] = {"local_files_only": not download}
    try:
        config = AutoConfig.from_pretrained(name, **local)
        if not isinstance(config, InstructBlipConfig):
            raise ConfigInvalid(f"{name} holds a model of type {config.model_type!r}, not 'instructblip'")
        tokenizer = AutoTokenizer.from_pretrained(name, **local)
        qformer_tokenizer = AutoTokenizer.from_pretrained(name, subfolder="qformer_tokenizer", **local)
        whole = InstructBlipForConditionalGeneration.from_pretrained(
            name, use_safetensors=True, dtype=dtype, **local
        )
    except (OSError, ValueError, KeyError) as error:
        raise WeightsNotFound(
            f"instructblip/{name}: not a complete InstructBLIP with safetensors weights "
            f"({first_line(error)}); give a local folder in the format of transformers, or go online once"
        ) from error
    return from_whole(whole, tokenizer=tokenizer, qformer_tokenizer=qformer_tokenizer)

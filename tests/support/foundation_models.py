"""CLIP, InstructBLIP and Segment Anything with random weights, tiny or on the meta device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import WORDS, randomise
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch import nn

import rscc  # noqa: F401  (makes transformers' import of torchvision sound)
from rscc.models.instructblip import InstructBlipVision, from_whole

NAME = "tiny-clip"
WIDTH = 8


def write_tiny_clip(file: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make an architecture known to open_clip and write a checkpoint of it, safetensors by the file's name.

    Skips the test where open_clip is not installed.
    """

    open_clip = pytest.importorskip(
        "open_clip", reason="open_clip is not installed: pip install 'rscc[train]'"
    )
    from open_clip import factory
    from safetensors.torch import save_file

    config = {
        "embed_dim": WIDTH,
        "vision_cfg": {"image_size": 32, "layers": 1, "width": 16, "head_width": 8, "patch_size": 16},
        "text_cfg": {"context_length": 16, "vocab_size": 49408, "width": 8, "heads": 2, "layers": 1},
    }
    monkeypatch.setitem(factory._MODEL_CONFIGS, NAME, config)
    torch.manual_seed(0)
    state = open_clip.create_model(NAME).state_dict()
    save_file(state, file) if file.suffix == ".safetensors" else torch.save(state, file)
    return file


SENTENCES = [
    *(" ".join(WORDS[start : start + 6]) for start in range(0, len(WORDS) - 5)),
    "Describe the change between the two images. Entities: a house, the road, villas.",
]

PROMPTS = ["Describe the change.", "Describe the change between the two images. Entities: a house, the road."]


def llama_like_tokenizer() -> Any:
    """Pieces of words with a mark where a word begins, as Vicuna's tokenizer has them."""
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    special = ["<unk>", "<s>", "</s>", "[PAD]"]
    tokenizer.train_from_iterator(
        SENTENCES, trainers.BpeTrainer(vocab_size=90, special_tokens=special, show_progress=False)
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="</s>", pad_token="[PAD]"
    )


def bert_like_tokenizer() -> Any:
    """Pieces between [CLS] and [SEP], as the Q-Former's tokenizer has them."""
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    tokenizer.train_from_iterator(
        SENTENCES, trainers.WordPieceTrainer(vocab_size=90, special_tokens=special, show_progress=False)
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]"
    )


def tiny_whole(seed: int = 0) -> Any:
    """Build the whole model: 28 px, patches of 7, 5 query tokens, widths of 16, 12 and 20."""
    from transformers import InstructBlipConfig, InstructBlipForConditionalGeneration

    layers = {"num_hidden_layers": 2, "num_attention_heads": 2}
    config = InstructBlipConfig(
        vision_config={"hidden_size": 16, "intermediate_size": 24, "image_size": 28, "patch_size": 7}
        | layers,
        qformer_config={
            **{"vocab_size": 96, "hidden_size": 12, "intermediate_size": 20, "encoder_hidden_size": 16},
            **{"max_position_embeddings": 64, **layers},
        },
        text_config={
            **{"model_type": "llama", "vocab_size": 96, "hidden_size": 20, "intermediate_size": 32},
            **{"pad_token_id": 3, "bos_token_id": 1, "eos_token_id": 2, "max_position_embeddings": 256},
            **layers,
        },
        num_query_tokens=5,
    )
    whole = InstructBlipForConditionalGeneration(config)
    randomise(whole, seed)
    return whole


def tiny_instructblip(seed: int = 0, *, adapters: bool = True) -> InstructBlipVision:
    """Build the parts; ``adapters`` makes them matter, which as they begin they do not."""
    vision = from_whole(
        tiny_whole(seed),
        tokenizer=llama_like_tokenizer(),
        qformer_tokenizer=bert_like_tokenizer(),
    )
    if adapters:
        generator = torch.Generator().manual_seed(seed + 1)
        for part in (vision, vision.rest.fusion, vision.rest.language_model):
            for parameter in part.parameters():
                if parameter.requires_grad:
                    parameter.data.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)
    return vision


def save_tiny_folder(folder: Path) -> Path:
    """Write a folder as the hub has it: config, safetensors, both tokenizers."""
    tiny_whole().save_pretrained(folder)
    llama_like_tokenizer().save_pretrained(folder)
    bert_like_tokenizer().save_pretrained(folder / "qformer_tokenizer")
    return folder


def check_gradients(part: nn.Module) -> None:
    """Assert that every trained parameter has got a gradient, and no frozen one."""
    for name, parameter in part.named_parameters():
        if parameter.requires_grad:
            assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name
        else:
            assert parameter.grad is None, name


def tiny_sam():
    from transformers import SamConfig, SamModel

    config = SamConfig(
        vision_config={
            **{"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 64},
            **{"output_channels": 16, "mlp_dim": 24, "global_attn_indexes": [0], "window_size": 2},
            "num_pos_feats": 8,
        },
        prompt_encoder_config={"hidden_size": 16, "image_size": 64, "mask_input_channels": 4},
        mask_decoder_config={
            **{"hidden_size": 16, "mlp_dim": 24, "num_attention_heads": 2, "iou_head_hidden_dim": 16},
            **{"num_hidden_layers": 1},
        },
    )
    torch.manual_seed(0)
    return SamModel(config).eval()

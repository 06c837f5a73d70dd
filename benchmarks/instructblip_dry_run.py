"""Build DAVIR's InstructBLIP in full size without weights, count its parameters and run its shapes.

    python benchmarks/instructblip_dry_run.py

Everything lies on PyTorch's meta device: sizes without numbers, so that it takes seconds and little memory.
The sizes are those of InstructBLIP with EVA-ViT-G, Q-Former and Vicuna-7B (Appendix B), written out here so
that nothing is read from a network. The tokenizers are stand-ins with the right number of pieces.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

import rscc  # noqa: F401  (makes transformers' import of torchvision sound)
from rscc.models.instructblip import InstructBlipVision, LoraRanks, from_whole, unpack
from rscc.models.language_model_decoder import LanguageModelDecoder

VISION = {
    **{"hidden_size": 1408, "num_hidden_layers": 39, "num_attention_heads": 16, "intermediate_size": 6144},
    **{"image_size": 224, "patch_size": 14},
}
QFORMER = {
    **{"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072},
    **{"vocab_size": 30523, "cross_attention_frequency": 2, "encoder_hidden_size": 1408},
}
VICUNA = {
    **{"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32},
    **{"intermediate_size": 11008, "vocab_size": 32001, "max_position_embeddings": 2048},
    **{"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2},
}
QUERY_TOKENS = 32
PROMPT = "Describe the change between the two images. Entity: a house, a road, trees"


@dataclass(frozen=True)
class Count:
    """Parameters of one part: all of them, and those that are trained."""

    part: str
    total: int
    trained: int


def full_size() -> InstructBlipVision:
    """Build the parts with the paper's adapters on the meta device."""
    from transformers import InstructBlipConfig, InstructBlipForConditionalGeneration

    config = InstructBlipConfig(
        vision_config=VISION, qformer_config=QFORMER, text_config=VICUNA, num_query_tokens=QUERY_TOKENS
    )
    with torch.device("meta"):
        whole = InstructBlipForConditionalGeneration(config)
        return from_whole(
            whole,
            tokenizer=stand_in_tokenizer(VICUNA["vocab_size"]),
            qformer_tokenizer=stand_in_tokenizer(QFORMER["vocab_size"]),
        )


def stand_in_tokenizer(pieces: Any) -> Any:
    """Make a tokenizer with so many pieces, to which every word is unknown: it decides lengths only."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    special = ["<pad>", "<s>", "</s>", "<unk>"]
    names = [*special, *(f"piece{i}" for i in range(len(special), int(pieces)))]
    tokenizer = Tokenizer(models.WordLevel({name: i for i, name in enumerate(names)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        **dict(zip(("pad_token", "bos_token", "eos_token", "unk_token"), special, strict=True)),
    )


def counts(vision: InstructBlipVision) -> list[Count]:
    """Count the parameters part by part."""
    fusion, language_model = vision.rest.fusion, vision.rest.language_model
    parts: dict[str, list[nn.Parameter]] = {
        "EVA-ViT-G": list(vision.parameters()),
        "Q-Former and query tokens": [*fusion.qformer.parameters(), fusion.query_tokens],
        "projection": list(fusion.language_projection.parameters()),
        "Vicuna-7B": list(language_model.parameters()),
    }
    return [
        Count(name, sum(p.numel() for p in some), sum(p.numel() for p in some if p.requires_grad))
        for name, some in parts.items()
    ]


def adapters_by_formula(ranks: LoraRanks) -> dict[str, int]:
    """Adapter sizes from the sides of the layers alone: rank x (inputs + outputs) of every QKV projection."""
    wide, narrow, language = (int(sizes["hidden_size"]) for sizes in (VISION, QFORMER, VICUNA))  # type: ignore[call-overload]
    layers = [int(sizes["num_hidden_layers"]) for sizes in (VISION, QFORMER, VICUNA)]  # type: ignore[call-overload]
    crossing = layers[1] // int(QFORMER["cross_attention_frequency"])
    own = 3 * (narrow + narrow)
    cross = (narrow + narrow) + 2 * (wide + narrow)
    return {
        "EVA-ViT-G": ranks.vision * layers[0] * (wide + 3 * wide),
        "Q-Former and query tokens": ranks.fusion * (layers[1] * own + crossing * cross),
        "projection": 0,
        "Vicuna-7B": ranks.language * layers[2] * 3 * (language + language),
    }


def shapes(vision: InstructBlipVision, *, pairs: int = 2, words: int = 20) -> dict[str, tuple[int, ...]]:
    """Run pairs of images through all parts and name the shapes on the way."""
    rest = vision.rest
    decoder = LanguageModelDecoder(language_model=rest.language_model, vocabulary=rest.vocabulary)
    # transformers looks into masks for padding, and knows not to in tensors that are fake by name.
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    with torch.no_grad(), fake, torch.device("meta"):
        dates = [torch.zeros(pairs, 3, 224, 224, dtype=torch.uint8) for _ in range(2)]
        packed = vision(torch.cat(dates))[0]
        tokens, attention = unpack(packed)
        visual = rest.fusion(tokens[:pairs], tokens[pairs:], [PROMPT] * pairs)
        memory = decoder.prefix(visual, [PROMPT] * pairs)
        output = decoder(memory, torch.ones(pairs, words, dtype=torch.long))
    return {
        "patch tokens of a date": tuple(tokens[:pairs].shape),
        "[CLS]-to-patch attention of a date": tuple(attention[:pairs].shape),
        "answers of the Q-Former, both dates": tuple(visual.shape),
        "prefix of the language model": tuple(memory.shape),
        "logits": tuple(output.logits.shape),
    }


def operations(vision: InstructBlipVision, *, words: int = 20) -> int:
    """Floating-point operations of one pair and one caption, a multiplication and an addition being two."""
    with FlopCounterMode(display=False) as counter:
        shapes(vision, pairs=1, words=words)
    return counter.get_total_flops()


def main() -> None:
    """Print the counts, the check of the adapters, the shapes and the operations."""
    vision = full_size()
    formula = adapters_by_formula(LoraRanks())
    found = counts(vision)
    print(f"{'part':<28}{'parameters':>16}{'trained':>12}{'by formula':>12}")
    for count in found:
        print(f"{count.part:<28}{count.total:>16,}{count.trained:>12,}{formula[count.part]:>12,}")
    total, trained = sum(c.total for c in found), sum(c.trained for c in found)
    print(f"{'all':<28}{total:>16,}{trained:>12,}{sum(formula.values()):>12,}")
    print(f"trained share: {100 * trained / total:.3f} %")
    for name, shape in shapes(vision).items():
        print(f"{name}: {' x '.join(map(str, shape))}")
    print(f"operations for a pair and a caption of 20 tokens: {operations(vision) / 1e12:.2f} T")
    if {count.part: count.trained for count in found} != formula:
        raise SystemExit("the adapters are not those of the formula")


if __name__ == "__main__":
    main()

"""Print parameters and operations per pair of every model in the size of its paper, as Markdown.

    python benchmarks/model_sizes.py

That is the size of the shipped LEVIR-CC configs: ResNet-101, width 512, 14 x 14 positions; DAVIR is in its
compact size. Weights are random and images generated. One pair is encoded and exactly 20 words are decoded
greedily; the change head is not run.
"""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from rscc.config import ModelConfig
from rscc.configs import CONFIG_FOLDER, load_config
from rscc.evaluation.markdown import table
from rscc.models.backbones import build_backbone
from rscc.models.papers import MODELS
from rscc.models.shared.captioner import ChangeCaptioner
from rscc.text.vocabulary import SPECIAL, Vocabulary

VOCABULARY, ENTITIES, TEXT_WIDTH, WORDS = 500, 100, 384, 20
PARTS = ("trunk", "encoder", "decoder", "heads", "auxiliary")
SIDE = 224


def paper_configs() -> dict[str, ModelConfig]:
    """Return the papers' configs by model; without a shipped one the shared values."""
    shared = dataclasses.replace(load_config("rdd_levir_cc").model, options={})
    return {
        paper: load_config(f"{paper}_levir_cc").model
        if (CONFIG_FOLDER / f"{paper}_levir_cc.toml").is_file()
        else dataclasses.replace(shared, paper=paper)
        for paper in MODELS
    }


def build(config: ModelConfig, encoder: Any = None) -> ChangeCaptioner:
    """Build a model with random weights as for training, with its retrieval memory.

    Only the sizes of a text encoder matter, which is no part of the model, unless a real one is given.
    """
    kind = MODELS[config.paper]
    if kind.prepares:
        names = [f"entity {number}" for number in range(ENTITIES)]
        entities = {"entity_names": names, "entity_width": TEXT_WIDTH}
        config = dataclasses.replace(config, options={**config.options, **entities})
    encoder = encoder or SimpleNamespace(width=TEXT_WIDTH, token_width=TEXT_WIDTH)
    words = (f"word{number}" for number in range(VOCABULARY - len(SPECIAL)))
    model = kind(
        config=config,
        backbone=build_backbone(config.backbone),
        vocabulary=Vocabulary((*SPECIAL, *words)),
        text_encoder=encoder,
    ).eval()
    for name, buffer in model.named_buffers():
        if name.startswith("retriever."):
            buffer.copy_(nn.functional.normalize(torch.randn_like(buffer), dim=-1))
    return model


def generated_pair() -> tuple[Tensor, Tensor]:
    """Return two dates (1, 3, SIDE, SIDE) uint8 of smooth colours, the second with a bright rectangle."""
    coarse = torch.rand(1, 3, 8, 8, generator=torch.Generator().manual_seed(1)) * 120 + 40
    before = nn.functional.interpolate(coarse, size=(SIDE, SIDE), mode="bilinear").to(torch.uint8)
    after = before.clone()
    after[..., SIDE // 4 : SIDE // 2, SIDE // 4 : SIDE // 2] = 230
    return before, after


def caption(model: ChangeCaptioner, before: Tensor, after: Tensor) -> Tensor:
    """Encode pairs and decode exactly ``WORDS`` words greedily; returns the last logits (B, V)."""
    memory = model.memory(model.encode(before, after, head=False))
    cache = model.decoder.start(memory)
    words = torch.full((before.shape[0],), model.vocabulary.bos)
    for _ in range(WORDS):
        logits = model.decoder.step(words, cache)
        words = logits.argmax(dim=-1)
    return logits


def count_parts(model: ChangeCaptioner) -> dict[str, int]:
    """Count the parameters by part; no caption depends on auxiliary ones.

    Heads are the shared ones: change per pixel and P(anything changed).
    """
    features = model.encode(*generated_pair(), head=False)
    model.decode(features, torch.tensor([[1, 5, 6]])).logits.square().sum().backward()
    counts = dict.fromkeys(PARTS, 0)
    owners = {"backbone": "trunk", "decoder": "decoder", "change_head": "heads", "changed_head": "heads"}
    for name, parameter in model.named_parameters():
        part = owners.get(name.split(".")[0], "encoder" if parameter.grad is not None else "auxiliary")
        counts[part] += parameter.numel()
    model.zero_grad()
    return counts


def operations(model: ChangeCaptioner) -> int:
    """Count floating-point operations of one pair, a multiplication and an addition being two."""
    model.requires_grad_(False)  # the counter fails on parameters with gradients
    # It does not know the fused kernels of the CPU: run attention as matrix products.
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        caption(model, *generated_pair())
    return counter.get_total_flops()


def main() -> None:
    """Print the table."""
    rows = []
    for paper, config in paper_configs().items():
        torch.manual_seed(1)
        model = build(config)
        counts = count_parts(model)
        cells = [f"{count / 1e6:.2f}" for count in (*counts.values(), sum(counts.values()))]
        rows.append([paper, *cells, f"{operations(model) / 1e9:.1f}"])
    print(table(["model", *(f"{part} (M)" for part in PARTS), "all (M)", "GFLOP"], rows))


if __name__ == "__main__":
    main()

"""Print size and speed of every model: parameters, operations and time per pair, as Markdown.

    python benchmarks/model_sizes.py [--threads 2] [--no-times]

Two sizes: that of the papers (the shipped LEVIR-CC configs: ResNet-101, width 512, 14 x 14 positions; DAVIR
in its compact size), and that of ``compare_models.toml``. Weights are random and images generated, which
hardly matters. One pair is encoded and exactly 20 words are decoded greedily; the change head is not run.
"""

from __future__ import annotations

import argparse
import dataclasses
import platform
import statistics
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from compare_models import HERE, read_variants
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from rscc.config import ModelConfig
from rscc.configs import CONFIG_FOLDER, config_from_dict, load_config
from rscc.evaluation.markdown import table
from rscc.models.backbones import build_backbone
from rscc.models.papers import MODELS
from rscc.models.shared.captioner import ChangeCaptioner
from rscc.text.vocabulary import SPECIAL, Vocabulary

VOCABULARY, ENTITIES, TEXT_WIDTH, WORDS = 500, 100, 384, 20
PARTS = ("trunk", "encoder", "decoder", "heads", "auxiliary")


def paper_configs() -> dict[str, ModelConfig]:
    """Return the papers' configs by model; without a shipped one the shared values."""
    shared = dataclasses.replace(load_config("rdd_levir_cc").model, options={})
    return {
        paper: load_config(f"{paper}_levir_cc").model
        if (CONFIG_FOLDER / f"{paper}_levir_cc.toml").is_file()
        else dataclasses.replace(shared, paper=paper)
        for paper in MODELS
    }


def comparison_configs() -> dict[str, ModelConfig]:
    """Return the configs of the comparison by model."""
    _, variants = read_variants(HERE / "compare_models.toml")
    return {paper: config_from_dict(variants[paper], paper).model for paper in MODELS if paper in variants}


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


def generated_pair(batch: int, side: int) -> tuple[Tensor, Tensor]:
    """Return two dates (B, 3, side, side) uint8 of smooth colours, the second with a bright rectangle."""
    generator = torch.Generator().manual_seed(1)
    coarse = torch.rand(batch, 3, 8, 8, generator=generator) * 120 + 40
    before = nn.functional.interpolate(coarse, size=(side, side), mode="bilinear").to(torch.uint8)
    after = before.clone()
    after[..., side // 4 : side // 2, side // 4 : side // 2] = 230
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


def count_parts(model: ChangeCaptioner, side: int) -> dict[str, int]:
    """Count the parameters by part; no caption depends on auxiliary ones.

    Heads are the shared ones: change per pixel and P(anything changed).
    """
    features = model.encode(*generated_pair(1, side), head=False)
    model.decode(features, torch.tensor([[1, 5, 6]])).logits.square().sum().backward()
    counts = dict.fromkeys(PARTS, 0)
    owners = {"backbone": "trunk", "decoder": "decoder", "change_head": "heads", "changed_head": "heads"}
    for name, parameter in model.named_parameters():
        part = owners.get(name.split(".")[0], "encoder" if parameter.grad is not None else "auxiliary")
        counts[part] += parameter.numel()
    model.zero_grad()
    return counts


def operations(model: ChangeCaptioner, side: int) -> int:
    """Count floating-point operations of one pair, a multiplication and an addition being two."""
    model.requires_grad_(False)  # the counter fails on parameters with gradients
    # It does not know the fused kernels of the CPU: run attention as matrix products.
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        caption(model, *generated_pair(1, side))
    return counter.get_total_flops()


def seconds_per_pair(model: ChangeCaptioner, side: int, batch: int, *, repeats: int, bf16: bool) -> float:
    """Return the median time of ``repeats`` batches after a warm-up, divided by the batch size."""
    images = generated_pair(batch, side)
    times = []
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        for _ in range(1 + repeats):
            start = time.perf_counter()
            caption(model, *images)
            times.append(time.perf_counter() - start)
    return statistics.median(times[1:]) / batch


def measured(configs: dict[str, ModelConfig], side: int, arguments: argparse.Namespace) -> str:
    """Return the table of one size."""
    batches = [] if arguments.no_times else arguments.batches
    head = ["model", *(f"{part} (M)" for part in PARTS), "all (M)", "GFLOP"]
    head += [f"ms per pair, batch {batch}" for batch in batches]
    rows = []
    for paper, config in configs.items():
        torch.manual_seed(1)
        model = build(config)
        counts = count_parts(model, side)
        cells = [f"{count / 1e6:.2f}" for count in (*counts.values(), sum(counts.values()))]
        cells.append(f"{operations(model, side) / 1e9:.1f}")
        for batch in batches:
            seconds = seconds_per_pair(model, side, batch, repeats=arguments.repeats, bf16=arguments.bf16)
            cells.append(f"{1000 * seconds:.0f}")
        rows.append([paper, *cells])
    return table(head, rows)


def processor() -> str:
    """Return the name of the processor."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def main() -> None:
    """Print both tables and what they were made on."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--repeats", type=int, default=5, help="timed batches; their median counts")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--bf16", action="store_true", help="bfloat16, as rscc takes where it is fast")
    parser.add_argument("--no-times", action="store_true", help="count only")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    precision = "bfloat16" if arguments.bf16 else "float32"
    print(f"{processor()}, {arguments.threads} threads, torch {torch.__version__}, {precision}")
    for title, configs, side in (
        ("Size of the papers: 224 px", paper_configs(), 224),
        ("Size of the comparison: 256 px", comparison_configs(), 256),
    ):
        print(f"\n{title}\n\n{measured(configs, side, arguments)}", flush=True)


if __name__ == "__main__":
    main()

"""What trunk and change head in 8-bit integers bring and cost beside the float ones, as Markdown.

    python benchmarks/int8_trunk.py --data LEVIR-CC [--model rscc-base] [--split val] [--rounds 5]

Processor seconds are those of four pairs of 512 x 512 random pixels through trunk, change and fact heads,
one thread, in turns, the fastest round of each; the F1 is that of the masks' pixels at the card's threshold.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from model_sizes import processor
from search_tiles import f1

from rscc import Captioner
from rscc.data.benchmarks.levir_cc import LevirCC
from rscc.data.pairs import PairRecord, read_pair
from rscc.freed_memory import keep_freed_memory
from rscc.markdown import table


def seconds(captioner: Captioner, dates: np.ndarray) -> float:
    """Return the processor time of one pass over (2, B, 3, H, W)."""
    begin = time.process_time()
    captioner.survey(*dates)
    return time.process_time() - begin


def mask_f1(captioner: Captioner, records: Sequence[PairRecord]) -> float:
    """Return the F1 of the changed pixels of all pairs that have a mask."""
    samples = [sample for sample in map(read_pair, records) if sample.mask is not None]
    found = [captioner.search(one.before[None], one.after[None])[0] for one in samples]
    threshold = captioner.card.threshold
    return f1([one >= threshold for one in found], [one.mask > 0 for one in samples if one.mask is not None])


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure both and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="LEVIR-CC's folder")
    parser.add_argument("--model", default="rscc-base")
    parser.add_argument("--split", default="val")
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args(arguments)
    torch.set_num_threads(1)
    keep_freed_memory()
    ways = {
        name: Captioner.load(asked.model, device="cpu", int8=int8)
        for name, int8 in (("float", False), ("8-bit integers", True))
    }
    if not ways["8-bit integers"].int8:
        raise SystemExit("this model or this processor does without 8-bit integers")
    dates = np.random.default_rng(0).integers(0, 256, (2, 4, 3, 512, 512), dtype=np.uint8)
    rounds = [{name: seconds(way, dates) for name, way in ways.items()} for _ in range(asked.rounds + 1)]
    fastest = {name: min(one[name] for one in rounds[1:]) for name in ways}  # the first round warms up
    records = LevirCC(asked.data, asked.split).records
    rows = [
        [
            name,
            f"{fastest[name]:.2f}",
            f"{fastest['float'] / fastest[name]:.2f}",
            f"{mask_f1(way, records):.4f}",
        ]
        for name, way in ways.items()
    ]
    print(f"{processor()}, {'bfloat16' if ways['float'].bf16 else 'float32'} else\n")
    print(table(["computes in", "s", "times", f"mask F1, {asked.split}"], rows))


if __name__ == "__main__":
    main()

"""What training by the papers' protocols costs: seconds, memory, operations of measured steps, as Markdown.

    python benchmarks/step_cost.py [--batch 4] [--steps 3] [--device cpu] [--tflops 312 --utilisation 0.3]

Every paper's shipped LEVIR-CC config is built in full size with random weights (ResNet-101 to its third
stage, 14 x 14 x 1024, width 512; RDD with the text tower of CLIP ViT-B/32) and takes a few optimiser steps on
generated pairs, each model in a process of its own. From that follows what the whole protocol takes here.
On a CPU the time is that of the processor, summed over the threads, which other work does not lengthen.

Hours on another device are an estimate, not a measurement: the operations, which do not depend on the
device, over ``--tflops`` times ``--utilisation``; the reading of the images by one process comes on top.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from model_sizes import VOCABULARY, build, generated_pair, processor
from PIL import Image
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from rscc.config import Config, load_config
from rscc.data.pairs import PairRecord
from rscc.data.sources import CaptionText, ImageCaptionSource
from rscc.markdown import table
from rscc.models.shared.captioner import ChangeCaptioner
from rscc.structures import PairBatch
from rscc.text.encoders import OpenClipTextEncoder, TextEncoder
from rscc.text.vocabulary import SPECIAL, Vocabulary
from rscc.training.loop import build_optimizer, freeze

PAPERS = ("scorer", "dirl", "cheers", "rdd", "davir")

# Training pairs of the official splits, each seen once in an epoch. LEVIR-CC, Spot-the-Diff, Image Editing
# Request and Dubai-CC: counted in their annotation files; CLEVR-Change and CLEVR-DC: as the papers give them.
TRAINING_PAIRS = {
    "levir_cc": 6815,
    "clevr_change": 67660,
    "clevr_dc": 40800,
    "spot_the_diff": 9524,
    "image_editing_request": 3061,
    "dubai_cc": 300,
}
WORDS = 12  # of a generated caption
CAPTION = "a large house appears beside the road and many trees are removed"


@dataclass(frozen=True)
class StepCost:
    """What one training step of a config takes.

    Attributes:
        batch: pairs in the measured steps.
        seconds: median of the measured steps.
        operations: floating-point operations of one step, a multiplication and an addition being two.
        state_bytes: weights, and gradients, moments and average of those that are trained.
        kept_bytes: what the forward pass of the step keeps for the backward pass.
        peak_bytes: largest memory of the process (CPU) or of the device's tensors.
    """

    batch: int
    seconds: float
    operations: int
    state_bytes: int
    kept_bytes: int
    peak_bytes: int


def clip_text_tower() -> TextEncoder:
    """Build the text tower that the RDD+ACR configs are trained with, with random weights."""
    import open_clip

    model = open_clip.create_model("ViT-B-32", pretrained=None, load_weights=False)
    return OpenClipTextEncoder(model, open_clip.get_tokenizer("ViT-B-32"))


def generated_batch(model: ChangeCaptioner, size: int, pairs: int) -> PairBatch:
    """Make a batch in which everything is known, so that no term of the loss is left out."""
    before, after = generated_pair(pairs, size)
    generator = torch.Generator().manual_seed(2)
    words = torch.randint(len(SPECIAL), len(model.vocabulary), (pairs, WORDS), generator=generator)
    ends = [torch.full((pairs, 1), mark) for mark in (model.vocabulary.bos, model.vocabulary.eos)]
    mask = torch.zeros(pairs, size, size)
    mask[:, size // 4 : size // 2, size // 4 : size // 2] = 1
    known = torch.ones(pairs, dtype=torch.bool)
    return PairBatch(
        before=before,
        after=after,
        tokens=torch.cat([ends[0], words, ends[1]], dim=1),
        nouns=[f"large house {number} and road and many trees" for number in range(pairs)],
        verbs=[f"appears {number} and are removed" for number in range(pairs)],
        mask=mask,
        mask_known=known,
        changed=torch.arange(pairs).remainder(2).float(),
        changed_known=known,
        extracted=nn.functional.max_pool2d(mask.unsqueeze(1), 16).squeeze(1),
        references=[[CAPTION]] * pairs,
    )


class Stepper:
    """Takes optimiser steps of a config's model on one batch, as the training loop does."""

    def __init__(self, config: Config, model: ChangeCaptioner, batch: PairBatch, device: str):
        self.config, self.model = config, model.to(device).train()
        freeze(self.model, config.train.frozen)
        for name in config.train.frozen:
            self.model.get_submodule(name).eval()
        self.optimizer = build_optimizer(self.model, config.train)
        self.device = torch.device(device)
        moved: dict[str, Any] = {
            k: v.to(device) if isinstance(v, Tensor) else v for k, v in vars(batch).items()
        }
        self.batch = PairBatch(**moved)

    def loss(self) -> Tensor:
        """Return the weighted sum of all terms."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.config.train.bf16):
            terms = self.model.losses(self.batch, self.config.loss)
        return torch.stack([self.config.loss[name] * value.float() for name, value in terms.items()]).sum()

    def step(self) -> None:
        """Take one step."""
        total = self.loss()
        self.optimizer.zero_grad(set_to_none=True)
        total.backward()
        trained = [p for p in self.model.parameters() if p.grad is not None]
        nn.utils.clip_grad_norm_(trained, self.config.train.clip)
        self.optimizer.step()

    def seconds(self) -> float:
        """Return the time of one step: of the processor on a CPU, of the clock elsewhere."""
        if self.device.type == "cpu":
            start = time.process_time()
            self.step()
            return time.process_time() - start
        torch.cuda.synchronize(self.device)
        start = time.perf_counter()
        self.step()
        torch.cuda.synchronize(self.device)
        return time.perf_counter() - start

    def peak_bytes(self) -> int:
        """Return the largest memory so far."""
        if self.device.type == "cuda":
            return torch.cuda.max_memory_allocated(self.device)
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit

    def operations(self) -> int:
        """Count the operations of one step, forward and backward."""
        # The fused kernels of the CPU are unknown to it: attention is run as the products it is made of.
        with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            self.loss().backward()
        return counter.get_total_flops()

    def kept_bytes(self) -> int:
        """Sum up what the forward pass keeps for the backward pass, parameters left out."""
        own = {p.untyped_storage().data_ptr() for p in (*self.model.parameters(), *self.model.buffers())}
        kept: dict[int, Tensor] = {}  # holds the tensors, so that no address is used twice

        def pack(value: Tensor) -> Tensor:
            if value.untyped_storage().data_ptr() not in own:
                kept.setdefault(value.untyped_storage().data_ptr(), value)
            return value

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda value: value):
            self.loss()
        return sum(value.untyped_storage().nbytes() for value in kept.values())

    def state_bytes(self) -> int:
        """Return the bytes of weights, gradients, Adam's moments and the average of the weights."""
        averages = 1 if self.config.train.ema else 0
        copies = 3 + averages
        return sum(
            p.numel() * p.element_size() * (1 + (copies if p.requires_grad else 0))
            for p in self.model.parameters()
        )


def measure(config: Config, model: ChangeCaptioner, *, pairs: int, steps: int, device: str) -> StepCost:
    """Measure the training steps of a model; one step before them warms up."""
    stepper = Stepper(config, model, generated_batch(model, config.data.size, pairs), device)
    times = [stepper.seconds() for _ in range(1 + steps)][1:]
    peak = stepper.peak_bytes()  # before the counters, which need memory of their own
    return StepCost(
        batch=pairs,
        seconds=statistics.median(times),
        operations=stepper.operations(),
        state_bytes=stepper.state_bytes(),
        kept_bytes=stepper.kept_bytes(),
        peak_bytes=peak,
    )


def reading_seconds(size: int, *, pairs: int = 32) -> float:
    """Return the seconds in which the training loop reads and augments a pair, from generated PNG files."""
    generator = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        records = []
        for number in range(pairs):
            files = [Path(folder) / f"{number}{part}.png" for part in ("a", "b", "mask")]
            for file, shape in zip(files, ((256, 256, 3), (256, 256, 3), (256, 256)), strict=True):
                coarse = generator.integers(
                    0, 256, (shape[0] // 4, shape[1] // 4, *shape[2:]), dtype=np.uint8
                )
                Image.fromarray(coarse).resize((256, 256)).save(file)
            records.append(
                PairRecord(str(number), files[0], files[1], mask=files[2], captions=(CAPTION,), changed=True)
            )
        text = CaptionText(Vocabulary((*SPECIAL, *CAPTION.split())), max_words=40)
        source = ImageCaptionSource(records, text, batch_size=8, size=size, augment=True, seed=1)
        start = time.process_time()
        count = sum(len(batch.references or ()) for batch in source.epoch(0))
        return (time.process_time() - start) / count


def hours(cost: StepCost, pairs: int, epochs: int) -> float:
    """Return the hours of all steps at the measured speed."""
    return cost.seconds / cost.batch * pairs * epochs / 3600


def estimated_hours(cost: StepCost, pairs: int, epochs: int, *, tflops: float, utilisation: float) -> float:
    """Return the hours of all steps by their operations alone."""
    return cost.operations / cost.batch * pairs * epochs / (tflops * 1e12 * utilisation) / 3600


def step_rows(costs: dict[str, StepCost]) -> str:
    """Return the table of the measured steps."""
    head = ["config", "batch here", "s per step", "GFLOP per pair", "peak GB here"]
    head += ["batch of the config", "weights and optimiser, GB", "kept per pair, MB", "together, GB"]
    rows = []
    for name, cost in costs.items():
        batch = load_config(name).train.batch_size
        together = cost.state_bytes + cost.kept_bytes / cost.batch * batch
        rows.append(
            (
                *(name, str(cost.batch), f"{cost.seconds:.2f}"),
                *(f"{cost.operations / cost.batch / 1e9:.1f}", f"{cost.peak_bytes / 1e9:.1f}"),
                *(str(batch), f"{cost.state_bytes / 1e9:.2f}", f"{cost.kept_bytes / cost.batch / 1e6:.0f}"),
                f"{together / 1e9:.1f}",
            )
        )
    return table(head, rows)


def protocol_rows(costs: dict[str, StepCost], reading: float, *, tflops: float, utilisation: float) -> str:
    """Return the table of whole protocols; every data set at the cost per pair of the LEVIR-CC config."""
    head = ["config", "training pairs", "epochs", "steps", "hours here", "hours of reading"]
    head += [f"hours at {tflops:g} TFLOP/s x {utilisation:g}, estimated"]
    rows = []
    for measured, cost in costs.items():
        paper = measured.split("_")[0]
        for name, pairs in TRAINING_PAIRS.items():
            settings = load_config(f"{paper}_{name}").train
            steps = math.ceil(pairs / settings.batch_size) * settings.epochs
            device = estimated_hours(cost, pairs, settings.epochs, tflops=tflops, utilisation=utilisation)
            here = hours(cost, pairs, settings.epochs)
            read = reading * pairs * settings.epochs / 3600
            cells = (f"{here:.0f}", f"{read:.1f}", f"{device:.2f}")
            rows.append((f"{paper}_{name}", str(pairs), str(settings.epochs), str(steps), *cells))
    return table(head, rows)


def measured_apart(name: str, arguments: argparse.Namespace) -> StepCost:
    """Measure one config in a process of its own, whose largest memory is then that of this config."""
    command = [sys.executable, __file__, "--one", name, "--batch", str(arguments.batch)]
    command += ["--steps", str(arguments.steps), "--device", arguments.device]
    command += ["--threads", str(arguments.threads)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{name} failed:\n{done.stderr}")
    return StepCost(**json.loads(done.stdout.splitlines()[-1]))


def measure_one(name: str, arguments: argparse.Namespace) -> StepCost:
    """Build a shipped config's model with random weights and measure it in this process."""
    torch.manual_seed(1)
    config = load_config(name)
    model = build(config.model, clip_text_tower() if config.model.paper == "rdd" else None)
    return measure(config, model, pairs=arguments.batch, steps=arguments.steps, device=arguments.device)


def main(argv: Sequence[str] | None = None) -> None:
    """Print both tables and what they were made on."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batch", type=int, default=4, help="pairs in a measured step")
    parser.add_argument("--steps", type=int, default=3, help="measured steps; their median counts")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tflops", type=float, default=312, help="peak of the device of the estimate")
    parser.add_argument("--utilisation", type=float, default=0.3, help="share of the peak that is reached")
    parser.add_argument("--one", metavar="CONFIG", help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    torch.set_num_threads(arguments.threads)
    if arguments.one:
        print(json.dumps(asdict(measure_one(arguments.one, arguments))))
        return
    costs = {f"{paper}_levir_cc": measured_apart(f"{paper}_levir_cc", arguments) for paper in PAPERS}
    reading = reading_seconds(load_config("rdd_levir_cc").data.size)
    device = processor() if arguments.device == "cpu" else torch.cuda.get_device_name(arguments.device)
    print(
        f"{device} ({platform.machine()}), {arguments.threads} threads, torch {torch.__version__}, bfloat16"
    )
    print(f"vocabulary of {VOCABULARY} words; a pair is read and augmented in {1000 * reading:.0f} ms\n")
    print(step_rows(costs), end="\n\n")
    print(protocol_rows(costs, reading, tflops=arguments.tflops, utilisation=arguments.utilisation))


if __name__ == "__main__":
    main()

"""Train the network that finds veils on weather drawn over real pairs; no label is needed.

Each sample is a pair over one date of which clouds, shadows, haze, or nothing is drawn, in a quarter of them
with look-alikes. The network learns the drawn opacity and shade of each cell::

    loss = mean over cells of w (BCE(p, y) + |p - y|),   w = 1 for opacity, 2 for shade

Folders hold training pairs as images of one name in A and B::

    python benchmarks/veil_training.py LEVIR-CC/images/train --output veils.safetensors
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from drawn_veils import Veiled, with_clouds, with_haze, with_look_alikes, with_other_light, with_weather
from torch import Tensor
from torch.nn import functional as F

from rscc.data.pairs import read_rgb
from rscc.visibility.cells import CELL, CHANNELS, WHOLE, cells_of
from rscc.visibility.detector import WEIGHTS, VeilNetwork
from rscc.weights import load_weights, save_weights

UNCHANGED, OTHER_LIGHT, LOOK_ALIKES = 0.15, 0.3, 0.55
"""Shares of samples of one date twice, under another sun on one date, and with look-alikes."""
CLOUDS, WEATHER = 0.45, 0.65
"""Shares of samples with clouds alone, and with any weather; the rest is clear."""
OPAQUE, SMALL = 0.7, 0.45
"""Shares of clouds alone that are opaque, and that are small."""
_WEIGHTS = (1.0, 2.0)
_RATE, _BATCH = 1.5e-3, 16


@dataclass(frozen=True)
class VeilSamples:
    """Samples of one size.

    Attributes:
        cells: (N, 2 * CHANNELS, h, w) float16, of the veiled date and of the other, see
            :func:`rscc.visibility.cells.cells_of`.
        veils: (N, 2, h, w) float16, drawn opacity and shade.
    """

    cells: np.ndarray
    veils: np.ndarray


def draw_samples(pairs: Iterable[tuple[np.ndarray, np.ndarray]], rng: np.random.Generator) -> VeilSamples:
    """Draw weather over pairs, (3, H, W) uint8 each and all of one size, a multiple of 32."""
    cells, veils = [], []
    for dates in pairs:
        own, other = dates[:: rng.choice((-1, 1))]
        if rng.random() < UNCHANGED:
            other = own
        seen = _veiled(own, rng)
        valid = np.ones(own.shape[1:], bool)
        both = cells_of(seen.image, valid)[:CHANNELS], cells_of(other, valid)[:CHANNELS]
        cells.append(np.concatenate(both).astype(np.float16))
        veils.append(np.stack([_by_cell(seen.opacity), _by_cell(seen.shade)]).astype(np.float16))
    return VeilSamples(np.stack(cells), np.stack(veils))


def train_veils(network: VeilNetwork, samples: VeilSamples, *, steps: int, seed: int) -> None:
    """Train with AdamW, the rate falling to 0 over ``steps``; batches are flipped and turned."""
    if any(side % WHOLE for side in samples.cells.shape[2:]):
        raise ValueError(f"sides of samples must be multiples of {CELL * WHOLE} pixels")
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    optimizer = torch.optim.AdamW(network.parameters(), _RATE, weight_decay=1e-4)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = _RATE * min(1, (step + 1) / 100) * (1 - step / steps) ** 0.9
        cells, veils = _batch(samples, _BATCH, rng)
        loss = veil_loss(network(cells), veils)
        if not math.isfinite(loss.item()):
            raise FloatingPointError(f"the loss of step {step} is {loss.item()}")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def veil_loss(logits: Tensor, veils: Tensor) -> Tensor:
    """Return the loss of the module docstring for logits and drawn veils, (B, 2, h, w) each."""
    weights = torch.tensor(_WEIGHTS, device=logits.device)[:, None, None]
    entropy = F.binary_cross_entropy_with_logits(logits, veils, reduction="none")
    return (weights * (entropy + (logits.sigmoid() - veils).abs())).mean()


def _veiled(image: np.ndarray, rng: np.random.Generator) -> Veiled:
    if rng.random() < OTHER_LIGHT:
        image = with_other_light(image, rng)
    if rng.random() < LOOK_ALIKES:
        image = with_look_alikes(image, rng)
    kind = rng.random()
    if kind < CLOUDS:
        thinnest = 0.95 if rng.random() < OPAQUE else 0.3
        return with_clouds(image, rng, thinnest=thinnest, small=rng.random() < SMALL)
    return with_weather(image, rng) if kind < WEATHER else with_haze(image, 0.0)


def _by_cell(values: np.ndarray) -> np.ndarray:
    height, width = values.shape
    return values.reshape(height // CELL, CELL, width // CELL, CELL).mean(axis=(1, 3))


def _batch(samples: VeilSamples, size: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Return cells with a channel of validity, (B, 2 * CHANNELS + 1, h, w), and veils, turned alike."""
    chosen = rng.integers(len(samples.cells), size=size)
    cells, veils = (part[chosen].astype(np.float32) for part in (samples.cells, samples.veils))
    cells = np.concatenate([cells, np.ones_like(cells[:, :1])], axis=1)
    turns, flip = int(rng.integers(4)), slice(None, None, int(rng.choice((-1, 1))))
    given, drawn = (
        torch.from_numpy(np.rot90(part[..., flip], turns, (2, 3)).copy()) for part in (cells, veils)
    )
    return given, drawn


def crops_of(
    folders: Sequence[Path], count: int, side: int, rng: np.random.Generator
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield crops, (3, side, side) uint8, of random pairs; smaller images are left out."""
    paths = [path for folder in folders for path in sorted((folder / "A").iterdir())]
    while count:
        path = paths[rng.integers(len(paths))]
        dates = [read_rgb(one) for one in (path, path.parents[1] / "B" / path.name)]
        height, width = dates[0].shape[1:]
        if min(height, width) >= side:
            top, left = rng.integers(height - side + 1), rng.integers(width - side + 1)
            before, after = (date[:, top : top + side, left : left + side] for date in dates)
            yield before, after
            count -= 1


def main() -> None:
    """Draw samples, train on them, and write the weights."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--samples", type=int, default=3000)
    parser.add_argument("--side", type=int, default=256)
    parser.add_argument("--steps", type=int, default=2500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fresh", action="store_true", help="do not start from the shipped weights")
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    samples = draw_samples(crops_of(arguments.folders, arguments.samples, arguments.side, rng), rng)
    torch.manual_seed(arguments.seed)  # for the weights that --fresh starts from
    network = VeilNetwork()
    if not arguments.fresh:
        network.load_state_dict({name: value.float() for name, value in load_weights(WEIGHTS).items()})
    train_veils(network, samples, steps=arguments.steps, seed=arguments.seed)
    state = {
        name: value.half() if value.is_floating_point() else value
        for name, value in network.state_dict().items()
    }
    save_weights(state, arguments.output)


if __name__ == "__main__":
    main()

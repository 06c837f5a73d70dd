"""Trains small heads on a frozen trunk: the loop for all, the road head, the measure of familiar ground.

Road masks are of single dates, at other places than any captioned pair. A quarter of the images is held out
to measure how well roads are found; the head that is kept is fitted on all. The measure of familiar ground is
fitted on training pairs, see :mod:`rscc.facts.familiarity`.
"""

import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rscc.config import Config
from rscc.data.pairs import PairRecord
from rscc.data.single_dates import road_crops
from rscc.facts.familiarity import AXES, Familiarity, blocks
from rscc.facts.road_head import RoadHead
from rscc.models.shared.captioner import ChangeCaptioner
from rscc.models.shared.change_detector import average_positions
from rscc.sequences import evenly
from rscc.training.logistic import area_under_curve
from rscc.training.training_run import Report
from rscc.training.validation import image_batches

BATCH, RATE, WEIGHT_DECAY = 32, 3e-3, 0.05
ROAD_EPOCHS = 15
HELD_OUT = 4
"""One image in so many is held out to measure the road head."""
ROAD_SHARE = 0.3
"""Share of a position's pixels from which it counts as road when the head is measured."""

Head = TypeVar("Head", bound=nn.Module)


def fit_head(
    head: Head,
    members: np.ndarray,
    loss: Callable[[Tensor], Tensor],
    *,
    epochs: int,
    seed: int,
    rate: float = RATE,
) -> Head:
    """Fit the parameters of a head that require a gradient, and return it in evaluation mode.

    Args:
        members: (N,) numbers of the items to learn; items that fill no batch are left out of an epoch.
        loss: loss of a batch by its numbers, (B,) int64.
    """
    trained = [parameter for parameter in head.parameters() if parameter.requires_grad]
    optimiser = torch.optim.AdamW(trained, rate, weight_decay=WEIGHT_DECAY)
    steps = max(1, len(members) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, rate, total_steps=epochs * steps + 1)
    order = np.random.default_rng(seed)
    for _ in range(epochs):
        shuffled = torch.from_numpy(order.permutation(members))
        for step in range(steps):
            optimiser.zero_grad()
            loss(shuffled[step * BATCH : (step + 1) * BATCH]).backward()
            optimiser.step()
            schedule.step()
    return head.eval()


def fit_roads(
    model: ChangeCaptioner, root: Path, config: Config, *, report: Report = lambda line: None
) -> RoadHead:
    """Train a road head on the device of the model; the model is not changed.

    Args:
        root: folder of single dates with masks; those of class ``road`` are used, see
            :func:`rscc.data.single_dates.read_single_date`.
        config: gives ``data.size``, ``data.gsd`` and ``train.seed``.

    Returns:
        The head; the area it stores is of one that was fitted without the held-out images.
    """
    (maps, shares, held), seed = _view_crops(model, root, config), config.train.seed
    report(f"roads: {len(maps)} crops read")
    everything = np.arange(len(maps))
    measured = _fit_road_head(maps, shares, everything[~held], seed)
    with torch.no_grad():
        logits = torch.cat([measured(part.float()) for part in maps[held].split(64)])
    is_road = shares[held] >= ROAD_SHARE
    area = area_under_curve(logits.cpu().numpy().ravel(), is_road.cpu().numpy().ravel())
    report(f"roads: area under the ROC curve {area:.3f} on held-out images")
    head = _fit_road_head(maps, shares, everything, seed).cpu()
    head.stored["area"] = round(area, 4)
    return head


@torch.no_grad()
def _view_crops(model: ChangeCaptioner, root: Path, config: Config) -> tuple[Tensor, Tensor, np.ndarray]:
    """Return of N crops the trunk's maps (N, P, C) float16, road shares (N, P), and held out (N,) bool."""
    maps, shares, held = [], [], []
    model.eval()
    device = next(model.parameters()).device
    for name, image, road in road_crops(root, config.data.size, config.data.gsd):
        last = model.backbone(torch.from_numpy(image.copy())[None].to(device))[-1]
        maps.append(last[0].flatten(1).T.half())
        share = F.adaptive_avg_pool2d(torch.from_numpy(road.copy())[None].float(), last.shape[-2:])
        shares.append(share.flatten())
        held.append(zlib.crc32(name.encode()) % HELD_OUT == 0)
    return torch.stack(maps), torch.stack(shares).to(device), np.array(held)


def _fit_road_head(maps: Tensor, shares: Tensor, members: np.ndarray, seed: int) -> RoadHead:
    torch.manual_seed(seed)
    head = RoadHead(channels=maps.shape[-1]).to(maps.device)
    positions = maps[torch.from_numpy(members[::4])].float().flatten(0, 1)
    head.mean.copy_(positions.mean(0))
    head.scale.copy_(positions.std(0) + 1e-3)

    def loss(part: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(head(maps[part].float()), shares[part])

    return fit_head(head, members, loss, epochs=ROAD_EPOCHS, seed=seed)


PAIRS = 150
"""Largest number of training pairs, and of pairs of other places."""
FEWEST_BLOCKS = 4 * AXES
"""Training blocks that are needed: fewer would span nearly all of their space."""


def fit_familiarity(
    model: ChangeCaptioner, train: Sequence[PairRecord], held_out: Sequence[PairRecord], *, size: int
) -> Familiarity | None:
    """Fit the measure for the trunk of a model, on its device; None with too few pairs.

    Args:
        held_out: pairs of other places of the same kind, which centre and scale the distance.
        size: side of the pictures that the model sees, in pixels.
    """
    fitted, others = (block_features(model, some, size=size) for some in (train, held_out))
    return familiarity_of(fitted, others) if len(fitted) >= FEWEST_BLOCKS and len(others) > 1 else None


def familiarity_of(fitted: Tensor, others: Tensor) -> Familiarity:
    """Return the measure for features (N, 2C) of training blocks and (M, 2C) of those of other places."""
    measure = Familiarity(channels=fitted.shape[1] // 2).to(fitted.device)
    measure.mean.copy_(fitted.mean(0))
    measure.scale.copy_(fitted.std(0) + 1e-3)
    _, _, axes = torch.pca_lowrank((fitted - measure.mean) / measure.scale, q=AXES, center=False, niter=8)
    measure.axes.copy_(axes.T.half())
    distances = measure.distance(others)
    measure.centre.copy_(distances.mean())
    measure.spread.copy_(distances.std() + 1e-3)
    return measure.eval()


@torch.no_grad()
def block_features(model: ChangeCaptioner, records: Sequence[PairRecord], *, size: int) -> Tensor:
    """Return the features of the blocks of both dates of some of the pairs, (N, 2C)."""
    device = next(model.parameters()).device
    features = [torch.zeros(0, 0, device=device)]
    for batch in image_batches(evenly(records, PAIRS), size=size):
        for images in (batch.before, batch.after):
            assert images is not None
            maps = average_positions(model.backbone(images.to(device))[-1], model.config.pool)
            features.append(blocks(maps, size // maps.shape[-1]).flatten(0, -2))
    return torch.cat(features[1:] or features)

"""Fits the measure of familiar ground of a trunk on training pairs, see :mod:`rscc.facts.familiarity`."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from rscc.data.pairs import PairRecord
from rscc.facts.familiarity import AXES, Familiarity, blocks
from rscc.models.shared.captioner import ChangeCaptioner
from rscc.models.shared.change_detector import average_positions
from rscc.sequences import evenly
from rscc.training.validation import image_batches

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

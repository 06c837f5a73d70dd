"""Learns roads on a frozen trunk from masks of single dates.

The masks are of other places than any captioned pair, so nothing of those is seen. A quarter of the images is
held out to measure how well roads are known; the head that is kept is fitted on all.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from rscc.data.single_dates import road_crops
from rscc.inference.roads import RoadHead
from rscc.models.shared.captioner import ChangeCaptioner
from rscc.training.calibration import area_under_curve
from rscc.training.heads import fit_head

EPOCHS = 15
HELD_OUT = 4
"""One image of so many is held out to be measured."""
ROAD = 0.3
"""Share of a position's pixels from which it counts as road when the head is measured."""


@dataclass(frozen=True)
class _Seen:
    """What a trunk sees of N crops: maps (N, P, C) float16, shares of road (N, P), the held out (N,) bool.

    Maps and shares lie on the device of the trunk.
    """

    maps: Tensor
    shares: Tensor
    held: np.ndarray


def fit_roads(
    model: ChangeCaptioner,
    root: Path,
    *,
    size: int,
    gsd: float,
    seed: int = 1,
    report: Callable[[str], None] = lambda line: None,
) -> RoadHead:
    """Learn roads, on the device of the model; the model stays as it is.

    Args:
        root: folder of single dates with masks; those of class ``road`` are read, see
            :func:`rscc.data.single_dates.read_single_date`.
        size: side of the model's input in pixels.
        gsd: metres per pixel that the model works at.

    Returns:
        The head; the area that it stores is of one that was fitted on the images that are not held out.

    Raises:
        DatasetLayoutInvalid: the folder has another layout, or no roads.
    """
    seen = _look(model, root, size, gsd)
    report(f"roads: {len(seen.maps)} crops seen")
    everything = np.arange(len(seen.maps))
    measured, held = _fit(seen, everything[~seen.held], seed), torch.from_numpy(seen.held)
    with torch.no_grad():
        logits = torch.cat([measured(part.float()) for part in seen.maps[held].split(64)])
    shares = seen.shares[held]
    area = area_under_curve(logits.cpu().numpy().ravel(), (shares >= ROAD).cpu().numpy().ravel())
    report(f"roads: area under the ROC curve {area:.3f} on images held out")
    head = _fit(seen, everything, seed).cpu()
    head.stored["area"] = round(area, 4)
    return head


def _look(model: ChangeCaptioner, root: Path, size: int, gsd: float) -> _Seen:
    maps, shares, held = [], [], []
    model.eval()
    device = next(model.parameters()).device
    with torch.no_grad():
        for name, image, road in road_crops(root, size, gsd):
            last = model.backbone(torch.from_numpy(image.copy())[None].to(device))[-1]
            maps.append(last[0].flatten(1).T.half())
            share = F.adaptive_avg_pool2d(torch.from_numpy(road.copy())[None].float(), last.shape[-2:])
            shares.append(share.flatten())
            held.append(zlib.crc32(name.encode()) % HELD_OUT == 0)
    return _Seen(torch.stack(maps), torch.stack(shares).to(device), np.array(held))


def _fit(seen: _Seen, members: np.ndarray, seed: int) -> RoadHead:
    """Return a head fitted on some of the crops."""
    torch.manual_seed(seed)
    head = RoadHead(channels=seen.maps.shape[-1]).to(seen.maps.device)
    positions = seen.maps[torch.from_numpy(members[::4])].float().flatten(0, 1)
    head.mean.copy_(positions.mean(0))
    head.scale.copy_(positions.std(0) + 1e-3)

    def loss(part: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(head(seen.maps[part].float()), seen.shares[part])

    return fit_head(head, members, loss, epochs=EPOCHS, seed=seed)

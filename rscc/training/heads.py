"""Fits small heads on what a frozen trunk was seen to give: one loop for all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, nn

BATCH, RATE, DECAY = 32, 3e-3, 0.05

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
        members: (N,) numbers of what it learns from; an epoch leaves out what fills no batch.
        loss: of the numbers of a batch, (B,) int64.
        rate: the largest learning rate, of one cycle.
    """
    learnt = [parameter for parameter in head.parameters() if parameter.requires_grad]
    optimiser = torch.optim.AdamW(learnt, rate, weight_decay=DECAY)
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

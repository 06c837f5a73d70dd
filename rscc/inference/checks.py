"""Whether a network is asked about images, and answers with numbers."""

from __future__ import annotations

import numpy as np
import torch

from rscc.errors import NonFiniteOutput


def check_pairs(
    before: np.ndarray, after: np.ndarray, position: int, focus: np.ndarray | None = None
) -> None:
    """Refuse what a network would take for images that it does not know.

    Raises:
        ValueError: they are not both (B, 3, H, W) uint8, of one shape, with B at least 1 and H and W
            multiples of ``position`` (else the last position sticks out, and what is found is drawn beside
            its place), or ``focus`` is not (B, h, w) in 0..1.
    """
    dates = (before, after)
    if not all(isinstance(one, np.ndarray) and one.dtype == np.uint8 and one.ndim == 4 for one in dates) or (
        before.shape != after.shape or before.shape[1] != 3 or len(before) < 1
    ):
        came = " and ".join(_kind(one) for one in dates)
        raise ValueError(
            f"before and after must be uint8 arrays (B, 3, H, W) of one shape, B at least 1; got {came}"
        )
    height, width = before.shape[2:]
    if not (height and width) or height % position or width % position:
        raise ValueError(
            f"the sides of images must be multiples of {position} px, the model's positions; got {height} x "
            f"{width}; cut, pad or resize them"
        )
    if focus is None:
        return
    fits = isinstance(focus, np.ndarray) and focus.ndim == 3 and len(focus) == len(before) and focus.size
    if not fits or not ((focus >= 0) & (focus <= 1)).all():
        raise ValueError(f"focus must be an array ({len(before)}, h, w) of 0..1; got {_kind(focus)}")


def _kind(value: object) -> str:
    return f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__


def check_finite(name: str, *answers: torch.Tensor | None) -> None:
    """Refuse NaN and infinity in answers (B, ...) of the model ``name``.

    Raises:
        NonFiniteOutput: with the places of the pairs that have them.
    """
    for answer in answers:
        if answer is None:
            continue
        sound = answer.isfinite().reshape(len(answer), -1).all(1)
        if not bool(sound.all()):
            pairs = (~sound).nonzero().flatten().tolist()
            raise NonFiniteOutput(
                f"{name}: the network answers NaN or infinity for pair {pairs[0] + 1} of "
                f"{len(answer)}; get a sound copy of the model, or try another device",
                pairs,
            )

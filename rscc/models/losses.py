"""Loss terms as pure functions of tensors."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def caption_cross_entropy(
    logits: Tensor, tokens: Tensor, *, pad: int, label_smoothing: float = 0.0
) -> Tensor:
    """Cross-entropy of the next word, mean over each caption's words, then over captions (RDD+ACR Eq. 15).

    Args:
        logits: (B, L - 1, V), prediction of ``tokens[:, 1:]``.
        tokens: (B, L) ids, begin token first.
        pad: id that is not learned from.
        label_smoothing: share of the probability spread over the vocabulary.
    """
    target = tokens[:, 1:]
    entropy = F.cross_entropy(
        logits.transpose(1, 2).float(),
        target,
        ignore_index=pad,
        label_smoothing=label_smoothing,
        reduction="none",
    )  # (B, L - 1), 0 at padding
    return (entropy.sum(1) / (target != pad).sum(1)).mean()


def info_nce(one: Tensor, other: Tensor, *, temperature: float, same: Tensor | None = None) -> Tensor:
    """Symmetric InfoNCE over a batch (RDD+ACR Eq. 11-13): row k of ``one`` belongs to row k of ``other``.

    Args:
        one, other: (B, D); compared by cosine similarity.
        temperature: tau, above 0.
        same: (B, B) bool; True off the diagonal marks pairs that carry the same words. They are no
            negatives of each other and are left out of the sums. None takes every other row as a negative.
    """
    similarity = F.normalize(one.float(), dim=-1) @ F.normalize(other.float(), dim=-1).T / temperature
    if same is not None:
        diagonal = torch.eye(len(one), dtype=torch.bool, device=one.device)
        similarity = similarity.masked_fill(same & ~diagonal, float("-inf"))
    target = torch.arange(len(one), device=one.device)
    return (F.cross_entropy(similarity, target) + F.cross_entropy(similarity.T, target)) / 2


def change_mask_loss(logits: Tensor, mask: Tensor, known: Tensor) -> Tensor:
    """Binary cross-entropy plus soft Dice over the samples whose mask is known.

    Args:
        logits: (B, h, w), enlarged bilinearly to the mask.
        mask: (B, H, W) in {0, 1}.
        known: (B,) bool. Without any known sample the loss is 0.
    """
    logits = F.interpolate(
        logits.unsqueeze(1).float(), size=mask.shape[-2:], mode="bilinear", align_corners=False
    )
    weight = known.to(logits.dtype).view(-1, 1, 1)
    logits = logits.squeeze(1)
    pixels = weight.sum() * mask.shape[-1] * mask.shape[-2]
    entropy = F.binary_cross_entropy_with_logits(logits, mask, reduction="none")
    entropy = (entropy * weight).sum() / pixels.clamp(min=1)
    probability = logits.sigmoid() * weight
    target = mask * weight
    dice = 1 - (2 * (probability * target).sum() + 1) / (probability.sum() + target.sum() + 1)
    return entropy + dice * known.any().to(dice.dtype)


def changed_loss(logits: Tensor, changed: Tensor, known: Tensor) -> Tensor:
    """Binary cross-entropy of P(anything changed): logits, changed in {0, 1} and known, each (B,)."""
    weight = known.to(logits.dtype)
    entropy = F.binary_cross_entropy_with_logits(logits.float(), changed, reduction="none")
    return (entropy * weight).sum() / weight.sum().clamp(min=1)

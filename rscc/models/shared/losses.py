"""Loss terms as pure functions of tensors."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from rscc.errors import ConfigInvalid
from rscc.models.shared.blocks import enlarge_maps


def caption_cross_entropy(
    logits: Tensor, tokens: Tensor, *, pad: int, label_smoothing: float = 0.0
) -> Tensor:
    """Cross-entropy of the next word, mean over each caption's words, then over captions (RDD+ACR Eq. 15).

    DIRL+CCR (Eq. 15) and CHEERS (Eq. 18) print a sum over the words of a caption, which gives their other
    terms less weight; the released code of SCORER+CBR and DIRL+CCR takes the mean over all words of a batch,
    which gives long captions more weight. SCORER+CBR (Eq. 12, not legible) and DAVIR (Eq. 12) do not specify.

    Args:
        logits: (B, L - 1, V), prediction of ``tokens[:, 1:]``.
        tokens: (B, L) ids, begin token first.
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


def info_nce(
    one: Tensor, other: Tensor, *, temperature: float, same: Tensor | None = None, cosine: bool = True
) -> Tensor:
    """Symmetric InfoNCE over a batch: rows k of ``one`` and ``other``, (B, D), are a positive pair.

    RDD+ACR Eq. 11-13 by cosine similarity, DIRL+CCR Eq. 13-14 by the dot product; the temperature is above 0.
    """
    one, other = one.float(), other.float()
    if cosine:
        one, other = F.normalize(one, dim=-1), F.normalize(other, dim=-1)
    similarity = one @ other.T
    return matrix_info_nce(similarity, similarity.T, temperature=temperature, same=same)


def matrix_info_nce(forth: Tensor, back: Tensor, *, temperature: float, same: Tensor | None = None) -> Tensor:
    """Mean of the InfoNCE of both directions from the similarities of a batch (SCORER+CBR Eq. 4 and 11).

    Args:
        forth: (B, B), similarity of rows of the first kind to columns of the second; positives are diagonal.
        back: (B, B), similarity of rows of the second kind to columns of the first.
        temperature: tau, above 0.
        same: (B, B) bool; True off the diagonal marks pairs with the same words, which are left out of the
            negatives. None takes every other row as a negative.
    """
    forth, back = forth.float() / temperature, back.float() / temperature
    if same is not None:
        left_out = same & ~torch.eye(len(same), dtype=torch.bool, device=same.device)
        forth = forth.masked_fill(left_out, float("-inf"))
        back = back.masked_fill(left_out.T, float("-inf"))
    target = torch.arange(len(forth), device=forth.device)
    return (F.cross_entropy(forth, target) + F.cross_entropy(back, target)) / 2


def decorrelation_loss(
    one: Tensor, other: Tensor, *, alpha: float, diagonal: float = 1.0, scale: float = 1.0
) -> Tensor:
    """Bring the correlation of two representations' channels close to the identity (DIRL+CCR Eq. 3-4).

    Args:
        one, other: (S, D), S corresponding samples of D channels.
        alpha: weight of the squared correlations of different channels.
        diagonal: weight of the distance of corresponding channels from a correlation of 1; 1 in the paper.
        scale: factor on every correlation; 1 in the paper.
    """
    correlation = F.normalize(one.float(), dim=0).T @ F.normalize(other.float(), dim=0)
    correlation = scale * correlation.float()  # Eq. 3: (D, D); bfloat16 under autocast
    corresponding = correlation.diagonal()
    different = correlation.square().sum() - corresponding.square().sum()
    return diagonal * (1 - corresponding).square().sum() + alpha * different  # Eq. 4


def masked_mean(x: Tensor, mask: Tensor) -> Tensor:
    """Mean of (B, L, D) over the positions where ``mask`` (B, L) is true, at least one: (B, D)."""
    weights = mask.unsqueeze(-1).to(x.dtype)
    return (x * weights).sum(1) / weights.sum(1)


def change_mask_loss(logits: Tensor, mask: Tensor, known: Tensor) -> Tensor:
    """Binary cross-entropy plus soft Dice over the samples whose mask is ``known``, (B,) bool; 0 without any.

    The logits (B, h, w) are enlarged bilinearly to the mask, (B, H, W) in {0, 1}.
    """
    height, width = mask.shape[-2:]
    logits = enlarge_maps(logits, (height, width))
    weight = known.to(logits.dtype).view(-1, 1, 1)
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


def check_loss_weights(terms: Sequence[str], weights: dict[str, float]) -> None:
    """Refuse a loss table that lacks a term, has an unknown one, or no weight above 0.

    An unknown term with weight 0 is accepted: it may be a term of another variant of the model.
    """
    missing = [name for name in terms if name not in weights]
    unknown = [name for name, weight in weights.items() if name not in terms and weight != 0]
    if missing:
        raise ConfigInvalid(f"loss.{missing[0]} has no weight; set it (0 leaves the term out)")
    if unknown:
        raise ConfigInvalid(f"loss.{unknown[0]} is no term of this model; terms are {', '.join(terms)}")
    if not any(weight > 0 for weight in weights.values()) or any(weight < 0 for weight in weights.values()):
        raise ConfigInvalid("loss weights must not be negative, and one at least must be above 0")


def required(value: Tensor | None, term: str, what: str) -> Tensor:
    """Return a value of a batch that a loss term needs."""
    if value is None:
        raise ConfigInvalid(
            f"loss.{term} needs {what}, which this data set does not give; set its weight to 0"
        )
    return value

"""Calibration of P(changed) and of caption scores, so that events with probability p occur with frequency p.

Networks are overconfident. Their outputs are therefore mapped by logistic regressions that are fitted on the
validation split (Platt scaling), with slopes of at least 0, so that more evidence never lowers a probability:

* ``P(changed) = sigmoid(a * changed_logit + b * evidence + c)``. The evidence is the logit of the change
  probability that at least 50 square metres of the tile reach: a change head trained on masks finds small
  changes that the mean over a tile's tokens hides. Without such a head b is 0.
* ``P(good | changed) = sigmoid(slope * log(likelihood) + offset)``. A sentence is good when it agrees with
  the references of its pair (CIDEr) as well as three in four references of the split agree with the other
  references of their pair. The likelihood is the geometric mean of the words' probabilities.

:mod:`rscc.training.confidence` fits them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch

    from rscc.structures import DifferenceFeatures

FEWEST = 5
"""Minimum number of pairs of a kind to fit or judge on."""

EVIDENCE_AREA = 50.0
"""Minimum area in square metres that must reach a change probability: half a house."""
LOGIT_LIMIT = 12.0
"""Logits are clipped to this, in either sign."""


@dataclass(frozen=True)
class Reliability:
    """Observed frequency by bins of predicted probability.

    Attributes:
        said: mean predicted probability of each non-empty bin, rising, 0..1.
        found: observed share in the bin, 0..1.
        counts: number of predictions in the bin.
    """

    said: tuple[float, ...]
    found: tuple[float, ...]
    counts: tuple[int, ...]

    @property
    def error(self) -> float:
        """Expected calibration error: mean of |said - found|, weighted by counts, 0..1."""
        gaps = np.abs(np.array(self.said) - np.array(self.found))
        return float(np.average(gaps, weights=self.counts))


def reliability(probabilities: np.ndarray, truth: np.ndarray, bins: int = 10) -> Reliability:
    """Compare probabilities (N,) in 0..1 with the outcomes (N,) bool, N at least 1, in bins of equal width.

    Empty bins are left out.
    """
    index = np.minimum((np.asarray(probabilities) * bins).astype(int), bins - 1)
    members = [index == number for number in range(bins) if (index == number).any()]
    return Reliability(
        said=tuple(round(float(probabilities[member].mean()), 6) for member in members),
        found=tuple(round(float(truth[member].mean()), 6) for member in members),
        counts=tuple(int(member.sum()) for member in members),
    )


@dataclass(frozen=True)
class FlagCalibration:
    """P(anything changed in a tile), see the module's first equation.

    Attributes:
        a, b, c: the coefficients; a and b are at least 0.
        pixels: number of pixels that must reach a change probability for it to count as evidence.
        threshold: P(changed) with the highest accuracy on the validation split, the nearest to 0.5 of equals.
        accuracy, precision, recall: of the decision "changed" by cross-validation, with the threshold of each
            fold chosen without the pairs that it judges, 0..1.
        error_before, error_after: expected calibration error of sigmoid(changed_logit), and of P(changed) by
            cross-validation, 0..1.
        brier_before, brier_after: mean squared error of the same two, 0..1.
        bins: reliability of P(changed) by cross-validation.
    """

    a: float
    b: float
    c: float
    pixels: int
    threshold: float
    accuracy: float
    precision: float
    recall: float
    error_before: float
    error_after: float
    brier_before: float
    brier_after: float
    bins: Reliability

    @property
    def reads_evidence(self) -> bool:
        """Whether the change head must run for P(changed)."""
        return self.b > 0

    def probability(self, logits: np.ndarray, evidence: np.ndarray | None) -> np.ndarray:
        """Map logits (N,) and evidence (N,), which may be None when b is 0, to P(changed) (N,)."""
        total = self.a * logits.clip(-LOGIT_LIMIT, LOGIT_LIMIT) + self.c
        if self.reads_evidence:
            assert evidence is not None
            total = total + self.b * evidence.clip(-LOGIT_LIMIT, LOGIT_LIMIT)
        return sigmoid(total)


@dataclass(frozen=True)
class ScoreCalibration:
    """P(a sentence is good, given that something changed), see the module's second equation.

    Attributes:
        slope, offset: the coefficients; the slope is at least 0.
        level: CIDEr in percent from which a sentence is good.
        good: share of good sentences among the training sentences of the fit, 0..1.
        error_before, error_after: expected calibration error of the likelihood itself, and of the probability
            by cross-validation, 0..1.
        brier_before, brier_after: mean squared error of the same two, 0..1.
        bins: reliability by cross-validation.
    """

    slope: float
    offset: float
    level: float
    good: float
    error_before: float
    error_after: float
    brier_before: float
    brier_after: float
    bins: Reliability

    def probability(self, likelihood: float) -> float:
        """Map the geometric mean of the words' probabilities, 0..1, to P(good | changed)."""
        return float(sigmoid(self.slope * log_likelihood(np.array(likelihood)) + self.offset))


@dataclass(frozen=True)
class Calibration:
    """Maps a model's outputs to probabilities.

    Attributes:
        changed: of P(changed); None where the model never learnt it, or there were too few pairs.
        score: of the caption's score; None where there were too few pairs.
    """

    changed: FlagCalibration | None = None
    score: ScoreCalibration | None = None


def change_evidence(change_logits: torch.Tensor, pixels: int) -> torch.Tensor:
    """Return the logit that a number of pixels of each tile reach, (B,) float32.

    The logits of the change head, (B, H / 4, W / 4), are enlarged to (B, H, W) as its maps are.
    """
    from rscc.models.shared.blocks import enlarge_maps

    height, width = change_logits.shape[1:]
    flat = enlarge_maps(change_logits, (4 * height, 4 * width)).flatten(1)
    return flat.topk(min(pixels, flat.shape[1]), dim=1).values[:, -1]


def changed_probability(features: DifferenceFeatures, flag: FlagCalibration | None) -> torch.Tensor:
    """Return P(anything changed) of encoded pairs, (B,) float32; uncalibrated without ``flag``."""
    logits = features.changed_logits.float()
    if flag is None:
        return logits.sigmoid()
    evidence = None
    if flag.reads_evidence:
        assert features.change_logits is not None, "P(changed) of this model needs the change head"
        evidence = change_evidence(features.change_logits, flag.pixels).cpu().numpy()
    return logits.new_tensor(flag.probability(logits.cpu().numpy(), evidence))


def sigmoid(values: np.ndarray) -> np.ndarray:
    """Return 1 / (1 + exp(-values)), of any shape, without loading scipy, which cards do not need."""
    return 1 / (1 + np.exp(-values))


def log_likelihood(likelihoods: np.ndarray) -> np.ndarray:
    """Return the logarithm of likelihoods in 0..1, of any shape; 0 counts as a millionth."""
    return np.log(np.maximum(likelihoods, 1e-6))

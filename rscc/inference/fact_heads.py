"""Heads on a frozen trunk that tell what came, what is gone, and what stands around a change.

For the trunk's last maps b and a of the two dates and the change head's probability c, a small network h
gives one logit per position and object class::

    came(x)  = h(b(x), a(x), c(x))         gone(x) = h(a(x), b(x), c(x))

One network serves both: what is gone is what came when time runs backwards. A region R is a bag of positions
(multiple-instance learning): its logit is a mean of theirs that leans to the largest::

    logit(R) = log( sum_x R(x) exp(logit(x)) / sum_x R(x) )

so that heads learnt from what people say of whole pairs answer for an outline of a map as well.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import torch
import torch.nn.functional as F
from scipy.special import expit, logsumexp
from torch import Tensor, nn

from rscc.text.facts import BUILT, ChangeFacts

CHANGING = ("building", "road", "parking lot", "trees")
"""Object classes that come and go."""
AROUND = ("building", "road", "trees", "grass", "bare ground", "water", "parking lot")
"""Object classes that captions name, whether they changed or tell where the change is."""
COVERS = ("trees", "bare ground", "grass", "water")
"""Classes that cover the ground a change stands on."""
ANSWERS = (
    *(f"came {name}" for name in CHANGING),
    *(f"gone {name}" for name in CHANGING),
    *(f"around {name}" for name in AROUND),
)
"""What the pooled logits of a region stand for, in order."""
BUILDING = CHANGING.index("building")

OF_AROUND = slice(-len(AROUND), None)
"""Where the answers about :data:`AROUND` are among all."""

SURE = 0.5
"""Calibrated probability from which a fact is stated, chosen on held-out places."""
SURE_ON_MAPS = 0.7
"""The same of what came or is gone on a map, at least: beside one house a drive is soon taken for a road.

Chosen by reading the sentences of the validation scenes.
"""
COVERED = 1 / 3
"""Share of the ground under a change on a map from which it is stated what covered it, chosen like that."""
LEAST_KNOWN = 0.05
"""Probability that a building came or is gone, from which a change that is there for certain is either."""


REDUCED = 128
"""Channels of the trunk that the heads read, at most."""


class FactHeads(nn.Module):
    """The network h; its first layer brings the trunk's channels down and is not learnt by labels."""

    def __init__(self, *, channels: int, reduced: int = REDUCED, width: int = 48, hidden: int = 64) -> None:
        super().__init__()
        self.sizes = {"channels": channels, "reduced": reduced, "width": width, "hidden": hidden}
        self.reduce = nn.Linear(channels, reduced)
        self.project = nn.Linear(reduced, width)
        self.drop = nn.Dropout(0.3)
        self.layers = nn.Sequential(
            nn.LayerNorm(3 * width + 2),
            nn.Linear(3 * width + 2, hidden),
            nn.GELU(),
            nn.Dropout(0.3),
            nn.Linear(hidden, len(CHANGING) + len(AROUND)),
        )
        self.register_buffer("stands", torch.tensor([name in BUILT for name in AROUND]), persistent=False)

    def positions(self, before: Tensor, after: Tensor, change: Tensor) -> Tensor:
        """Return the logits of every position, (B, N, len(ANSWERS)).

        What stands beside a building that went is, but while it learns, what h sees beside it coming,
        backwards in time: nearly all that it learnt from was built.

        Args:
            before, after: (B, N, reduced), maps after :attr:`reduce`.
            change: (B, N, 2), see :func:`change_cells`.
        """
        b, a = self.project(self.drop(before)), self.project(self.drop(after))
        forward = self.layers(torch.cat([b, a, a - b, change], -1))
        backward = self.layers(torch.cat([a, b, b - a, change], -1))
        count = len(CHANGING)
        around = forward[..., count:]
        if not self.training:
            went = (backward[..., BUILDING] > 0) & (backward[..., BUILDING] > forward[..., BUILDING])
            around = torch.where(went[..., None] & self.stands, backward[..., count:], around)
        return torch.cat([forward[..., :count], backward[..., :count], around], -1)

    def maps(self, before: Tensor, after: Tensor, change: Tensor) -> Tensor:
        """Return the logits of every position as maps, (B, len(ANSWERS), h, w).

        Args:
            before, after: (B, C, h, w), the trunk's last maps.
            change: (B, H, W) in 0..1, change probability.
        """
        grid = (before.shape[-2], before.shape[-1])
        first, second = (self.reduce(maps.flatten(2).transpose(1, 2)) for maps in (before, after))
        logits = self.positions(first, second, change_cells(change, grid))
        return logits.transpose(1, 2).unflatten(2, grid)


def change_cells(change: Tensor, grid: tuple[int, int]) -> Tensor:
    """Return the mean and the largest change probability of each position, (B, h * w, 2)."""
    both = (F.adaptive_avg_pool2d(change, grid), F.adaptive_max_pool2d(change, grid))
    return torch.stack(both, -1).flatten(1, 2)


def region_logits(maps: Tensor, region: Tensor) -> Tensor:
    """Return the logits of a region in each pair, (B, K), of those of all positions, (B, K, h, w).

    ``region`` is (B, H, W) in 0..1; a pair without any counts as a whole.
    """
    weights = F.adaptive_avg_pool2d(region.float(), (maps.shape[-2], maps.shape[-1])).flatten(1)
    return pooled(maps.flatten(2).transpose(1, 2), weights)


def pooled(logits: Tensor, weights: Tensor) -> Tensor:
    """Return the logits of bags, (B, K), of those of their positions, (B, N, K), weighed by (B, N)."""
    weights = torch.where(weights.sum(1, keepdim=True) > 0, weights, torch.ones_like(weights))
    shares = weights / weights.sum(1, keepdim=True)
    return torch.logsumexp(logits.float() + shares.clamp_min(1e-12).log()[..., None], 1)


def bag_logits(logits: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the logits of one bag, (K,), of those of its positions (K, n), weighed by (n,), not all 0."""
    pooled: np.ndarray = logsumexp(logits, axis=1, b=weights) - np.log(weights.sum())
    return pooled


@dataclass(frozen=True)
class FactRules:
    """What turns logits into facts.

    Attributes:
        slopes, offsets: of the calibrated probability, ``sigmoid(slope * logit + offset)``, for each of
            :data:`ANSWERS`; a slope of 0 where there was too little to learn it from: never stated.
        sure: calibrated probability from which each is stated.
        scores: of held-out places, for the card: area under the ROC curve and F1 by answer.
        around: what stands around a change in a picture, instead of slopes and offsets, which are of pairs
            without a change as well: for each of :data:`AROUND` the weights of all their logits and an
            offset, (len(AROUND), len(AROUND) + 1). Empty where that was not learnt.
    """

    slopes: tuple[float, ...]
    offsets: tuple[float, ...]
    sure: tuple[float, ...] = (SURE,) * len(ANSWERS)
    scores: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    around: tuple[tuple[float, ...], ...] = ()

    def on_maps(self) -> FactRules:
        """Return the rules for changes on a map, see :data:`SURE_ON_MAPS`; covers are shares there."""
        least = (0.0 if name.startswith("around ") else SURE_ON_MAPS for name in ANSWERS)
        return replace(self, sure=tuple(map(max, self.sure, least)), around=())

    def calibrated(self, logits: np.ndarray) -> np.ndarray:
        """Return the calibrated probability of each answer, of the same shape, (..., len(ANSWERS))."""
        values: np.ndarray = expit(self.calibrated_logits(logits))
        return values

    def calibrated_logits(self, logits: np.ndarray) -> np.ndarray:
        """Return the logits of :meth:`calibrated`."""
        values: np.ndarray = np.array(self.slopes) * logits + np.array(self.offsets)
        if self.around:
            weights = np.array(self.around)
            values[..., OF_AROUND] = logits[..., OF_AROUND] @ weights[:, :-1].T + weights[:, -1]
        return values

    def probability(self, answer: int, logits: np.ndarray) -> np.ndarray:
        """Return the calibrated probability of one answer, of the shape of its logits; 0 where unlearnt."""
        slope = self.slopes[answer]
        values: np.ndarray = expit(slope * logits.astype(np.float32) + self.offsets[answer])
        return values if slope else np.zeros_like(values)

    def is_sure(self, answer: int, logit: np.ndarray) -> bool:
        """Return whether one answer is stated of a region, whose ``logit`` of it is a single value."""
        return bool(self.probability(answer, logit) >= self.sure[answer])

    def probabilities(self, logits: np.ndarray, *, known: bool = False) -> dict[str, float]:
        """Return the calibrated probability of each answer by name; arguments as :meth:`facts`."""
        answers = dict(zip(ANSWERS, self.calibrated(logits).tolist(), strict=True))
        return answers | _either(answers) if known else answers

    def covers(self, logits: np.ndarray, weights: np.ndarray) -> dict[str, float]:
        """Return the share, 0..1, of some ground that each of :data:`COVERS` had before.

        Of trees those that are gone count: others still stand there.

        Args:
            logits: (len(ANSWERS), n), of positions.
            weights: (n,), how much of each is asked about; 0 everywhere makes all shares 0.
        """
        answers = {name: "gone trees" if name == "trees" else f"around {name}" for name in COVERS}
        numbers = {name: ANSWERS.index(answer) for name, answer in answers.items()}
        shares = weights / (weights.sum() or 1.0)
        return {
            name: float(self.probability(number, logits[number]) @ shares) for name, number in numbers.items()
        }

    def facts(
        self,
        logits: np.ndarray,
        *,
        known: bool = False,
        absent: Collection[str] = (),
        covers: Mapping[str, float] | None = None,
    ) -> ChangeFacts:
        """Return what is sure of a change; counts and places are the caller's to add.

        Args:
            logits: (len(ANSWERS),), of the region.
            known: something changed for certain, as in an outline of the change head.
            absent: answers that are not so, whatever their probability.
            covers: see :meth:`covers`, of the ground that changed itself. Trees of the region that it was not
                covered by stand beside it. None takes all that is around for what covered the ground.
        """
        values = self.probabilities(logits, known=known)
        sure = {
            name: value
            for (name, value), least, slope in zip(values.items(), self.sure, self.slopes, strict=True)
            if slope and value >= least and name not in absent
        }
        came, gone, around = (_of(sure, kind) for kind in ("came", "gone", "around"))
        ground = set(COVERS)
        if covers is None:
            before = {name: around[name] for name in COVERS if name in around}
        else:
            shares = sorted(covers.items(), key=lambda one: -one[1])
            # Where a building is gone the ground was its own: open ground around it tells no date.
            stood = ("trees",) if "building" in gone else COVERS
            before = {name: share for name, share in shares if share >= COVERED and name in stood}
            if "trees" not in before:
                ground.remove("trees")
        before = {name: value for name, value in before.items() if name not in came}
        beside = {name: around[name] for name in around if name not in (*ground, *came, *gone)}
        return ChangeFacts(came=came, gone=gone, before=before, beside=beside)


def _either(values: Mapping[str, float]) -> dict[str, float]:
    """Return the probabilities that a building came and that one is gone, if either is so for certain."""
    both = {name: values[name] for name in ("came building", "gone building")}
    total = sum(both.values())
    return both if total > 1 or total < LEAST_KNOWN else {name: value / total for name, value in both.items()}


def _of(values: Mapping[str, float], kind: str) -> dict[str, float]:
    chosen = {name.partition(" ")[2]: value for name, value in values.items() if name.startswith(f"{kind} ")}
    return dict(sorted(chosen.items(), key=lambda one: -one[1]))

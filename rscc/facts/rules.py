"""Rules that turn logits of the fact heads into facts: calibrated probabilities and thresholds."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import expit

from rscc.facts.answers import ANSWERS, COVERS, OF_AROUND
from rscc.text.change_facts import ChangeFacts

SURE = 0.5
"""Calibrated probability from which a fact is stated, chosen on held-out locations."""
SURE_ON_MAPS = 0.7
"""Minimum of the same for objects that came or are gone on a map, where a drive beside a house is easily
taken for a road; chosen by reading the sentences of the validation scenes."""
COVERED = 1 / 3
"""Share of the ground under a change on a map from which its former cover is stated."""
LEAST_KNOWN = 0.05
"""Probability that a building came or is gone, from which a certain change is attributed to buildings."""


@dataclass(frozen=True)
class FactRules:
    """Turns logits into facts.

    Attributes:
        slopes, offsets: of the calibrated probability, ``sigmoid(slope * logit + offset)``, for each of
            :data:`~rscc.facts.answers.ANSWERS`; a slope of 0 marks an answer that is never stated, for lack
            of training data.
        sure: calibrated probability from which each answer is stated.
        scores: on held-out locations, for the card: area under the ROC curve and F1 by answer.
        around: calibration of the answers about AROUND in pictures, used instead of slopes and offsets (which
            are fitted on pairs without a change as well): for each of AROUND the weights of all their logits
            and an offset, (len(AROUND), len(AROUND) + 1). Empty where it was not fitted.
    """

    slopes: tuple[float, ...]
    offsets: tuple[float, ...]
    sure: tuple[float, ...] = (SURE,) * len(ANSWERS)
    scores: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    around: tuple[tuple[float, ...], ...] = ()

    def on_maps(self) -> FactRules:
        """Return the rules for changes on a map, see :data:`SURE_ON_MAPS`."""
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
        """Return the calibrated probability of one answer, of the shape of its logits; 0 if never stated."""
        slope = self.slopes[answer]
        values: np.ndarray = expit(slope * logits.astype(np.float32) + self.offsets[answer])
        return values if slope else np.zeros_like(values)

    def is_sure(self, answer: int, logit: np.ndarray) -> bool:
        """Return whether one answer is stated of a region with this ``logit``, a single value."""
        return bool(self.probability(answer, logit) >= self.sure[answer])

    def probabilities(self, logits: np.ndarray, *, known: bool = False) -> dict[str, float]:
        """Return the calibrated probability of each answer by name; arguments as :meth:`facts`."""
        answers = dict(zip(ANSWERS, self.calibrated(logits).tolist(), strict=True))
        return answers | _one_of_both(answers) if known else answers

    def covers(self, logits: np.ndarray, weights: np.ndarray) -> dict[str, float]:
        """Return the share, 0..1, of some ground that each of COVERS had before.

        Only trees that are gone count: others still stand there.

        Args:
            logits: (len(ANSWERS), n), of positions.
            weights: (n,), weight of each position; all 0 makes all shares 0.
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
        """Return what is sure of a change; the caller adds counts and location.

        Args:
            logits: (len(ANSWERS),), of the region.
            known: something changed for certain, as in an outline of the change head.
            absent: answers that are ruled out, whatever their probability.
            covers: see :meth:`covers`, of the changed ground itself. Trees of the region that did not cover
                it stand beside it. None takes all that is around for the former cover.
        """
        values = self.probabilities(logits, known=known)
        sure = {
            name: value
            for (name, value), least, slope in zip(values.items(), self.sure, self.slopes, strict=True)
            if slope and value >= least and name not in absent
        }
        came, gone, around = (_of_kind(sure, kind) for kind in ("came", "gone", "around"))
        if covers is None:
            before = {name: around[name] for name in COVERS if name in around}
        else:
            before = _former_cover(covers, gone)
        ground = {name for name in COVERS if covers is None or name != "trees" or name in before}
        before = {name: value for name, value in before.items() if name not in came}
        beside = {name: around[name] for name in around if name not in (*ground, *came, *gone)}
        return ChangeFacts(came=came, gone=gone, before=before, beside=beside)


def _former_cover(covers: Mapping[str, float], gone: Collection[str]) -> dict[str, float]:
    """Return the covers with a large enough share, the largest first.

    Where a building is gone it was the cover itself: open ground around it may be of either date.
    """
    possible = ("trees",) if "building" in gone else COVERS
    shares = sorted(covers.items(), key=lambda item: -item[1])
    return {name: share for name, share in shares if share >= COVERED and name in possible}


def _one_of_both(values: Mapping[str, float]) -> dict[str, float]:
    """Return the probabilities that a building came and that one is gone, given that one of both is true."""
    both = {name: values[name] for name in ("came building", "gone building")}
    total = sum(both.values())
    return both if total > 1 or total < LEAST_KNOWN else {name: value / total for name, value in both.items()}


def _of_kind(values: Mapping[str, float], kind: str) -> dict[str, float]:
    chosen = {name.partition(" ")[2]: value for name, value in values.items() if name.startswith(f"{kind} ")}
    return dict(sorted(chosen.items(), key=lambda item: -item[1]))

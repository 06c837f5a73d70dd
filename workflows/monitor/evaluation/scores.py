"""Scores of reported events against dated truth."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from rasterio.features import rasterize
from scipy import ndimage
from scipy.optimize import linear_sum_assignment

from workflows.monitor.evaluation.truth import Box, PlaceTruth

# Share of a true event that must be reported, of a reported one that must be true, and of a true one that a
# reported one must cover to date it.
FOUND, HIT, DATED = 0.3, 0.3, 0.2
# A reported event is true this near to one, in pixels.
NEAR = 2
# Share of the box of a look-alike above which it counts as reported.
REPORTED = 0.3
CLOSE_MONTHS = 2
# SpaceNet 7: intersection over union of a match, its reward, and the weight of tracking.
SCOT_IOU, SCOT_REWARD, SCOT_BETA = 0.25, 100.0, 2.0


@dataclass(frozen=True)
class Reported:
    """A reported event.

    Attributes:
        mask: (h, w) bool.
        first: month in which it was first seen.
        gone: first month without it; None if it is there to the end.
    """

    mask: np.ndarray
    first: int
    gone: int | None = None


@dataclass
class StackScores:
    """Counts over places; see docs/medium.md for what each means."""

    sure: int = 0
    found: int = 0
    hits: int = 0
    false: int = 0
    look_alikes: int = 0
    look_alikes_reported: int = 0
    errors: list[int] = field(default_factory=list)
    years: float = 0.0
    scot: list[float] = field(default_factory=list)

    def add(
        self, truth: PlaceTruth, reported: Sequence[Reported], months: Sequence[int], size: tuple[int, int]
    ) -> None:
        """Count a place: reported events of scenes of some months and size (h, w) against the truth."""
        masks = [np.asarray(rasterize([(one.polygon, 1)], size)).astype(bool) for one in truth.events]
        pairs = [(one, mask) for one, mask in zip(truth.events, masks, strict=True) if mask.any()]
        nothing = np.zeros(size, bool)
        true = np.logical_or.reduce([nothing, *(mask for _, mask in pairs)])
        any_reported = np.logical_or.reduce([nothing, *(one.mask for one in reported)])
        doubtful = np.logical_or.reduce([nothing, *(_inside(box, size) for box in truth.doubtful)])
        for event, mask in pairs:
            is_found = (any_reported & mask).sum() >= FOUND * mask.sum()
            self.sure += event.sure
            self.found += event.sure and bool(is_found)
            covers = [(one.mask & mask).sum() for one in reported]
            if is_found and max(covers) >= DATED * mask.sum():
                first = reported[int(np.argmax(covers))].first
                self.errors.append(max(event.earliest - first, first - event.latest, 0))
        near = ndimage.binary_dilation(true, iterations=NEAR)
        for one in reported:
            if (one.mask & near).sum() >= HIT * one.mask.sum():
                self.hits += 1
            elif (one.mask & doubtful).sum() < HIT * one.mask.sum():
                self.false += 1
        for box in truth.look_alikes:
            inside = _inside(box, size)
            if inside.any() and not true[inside].any():
                self.look_alikes += 1
                self.look_alikes_reported += bool(any_reported[inside].mean() > REPORTED)
        self.years += (months[-1] - months[0] + 1) / 12
        self.scot.append(scot([Reported(mask, event.seen) for event, mask in pairs], reported, months))

    def as_dict(self) -> dict[str, float | int | None]:
        """Return the scores; None where nothing was counted."""
        errors = np.array(self.errors)
        return {
            "recall": _share(self.found, self.sure),
            "precision": _share(self.hits, self.hits + self.false),
            "dates_within_2_months": float((errors <= CLOSE_MONTHS).mean()) if len(errors) else None,
            "mean_date_error_months": float(errors.mean()) if len(errors) else None,
            "scot": float(np.mean(self.scot)) if self.scot else None,
            "false_per_place_and_year": self.false / self.years if self.years else None,
            "look_alikes_reported": _share(self.look_alikes_reported, self.look_alikes),
            "sure_events": self.sure,
            "reported_events": self.hits + self.false,
            "look_alikes": self.look_alikes,
        }


def scot(true: Sequence[Reported], reported: Sequence[Reported], months: Sequence[int]) -> float:
    """Return the SpaceNet change and object tracking score of a place, 0..1 (Van Etten et al. 2021).

    Footprints of each month are matched one to one at an intersection over union above 0.25. A match counts
    for tracking unless either side was last matched with another one. A match counts for change where both
    sides appear for the first time after the first month. The score is the F measure of both F1 scores, with
    tracking weighted by beta = 2.
    """
    overlap = _overlaps(true, reported)
    tracked, mismatched, changed = np.zeros(3), 0, np.zeros(3)  # true and false positives, false negatives
    last_of_true: dict[int, int] = {}
    last_of_reported: dict[int, int] = {}
    known_true: set[int] = set()
    known_reported: set[int] = set()
    for number, month in enumerate(months):
        here, there = (
            [
                i
                for i, one in enumerate(events)
                if one.first <= month and (one.gone is None or month < one.gone)
            ]
            for events in (true, reported)
        )
        matches = _matches(overlap, here, there)
        tracked += len(matches), len(there) - len(matches), len(here) - len(matches)
        for t, r in matches:
            mismatched += last_of_true.get(t, r) != r or last_of_reported.get(r, t) != t
            last_of_true[t], last_of_reported[r] = r, t
        if number:
            new_true, new_reported = set(here) - known_true, set(there) - known_reported
            both = sum(t in new_true and r in new_reported for t, r in matches)
            changed += both, len(new_reported) - both, len(new_true) - both
        known_true.update(here)
        known_reported.update(there)
    tracking = _f1(tracked + mismatched * np.array([-1, 1, 1]))
    change = _f1(changed)
    weight = SCOT_BETA**2 * change + tracking
    return (1 + SCOT_BETA**2) * change * tracking / weight if weight else 0.0


def _overlaps(true: Sequence[Reported], reported: Sequence[Reported]) -> np.ndarray:
    """Return intersection over union (true, reported)."""
    table = np.zeros((len(true), len(reported)))
    for row, one in enumerate(true):
        for col, other in enumerate(reported):
            table[row, col] = (one.mask & other.mask).sum() / max(1, (one.mask | other.mask).sum())
    return table


def _matches(overlap: np.ndarray, here: list[int], there: list[int]) -> list[tuple[int, int]]:
    part = overlap[np.ix_(here, there)]
    rows, cols = linear_sum_assignment((part > SCOT_IOU) * (SCOT_REWARD + part), maximize=True)
    return [(here[r], there[c]) for r, c in zip(rows, cols, strict=True) if part[r, c] > SCOT_IOU]


def _f1(counts: np.ndarray) -> float:
    """Return F1 of true positives, false positives and false negatives; 0 without any."""
    hits, more, missed = counts.tolist()
    total = hits + (more + missed) / 2
    return hits / total if total else 0.0


def _inside(box: Box, size: tuple[int, int]) -> np.ndarray:
    mask = np.zeros(size, bool)
    left, top, right, bottom = box
    mask[int(top) : int(np.ceil(bottom)), int(left) : int(np.ceil(right))] = True
    return mask


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None

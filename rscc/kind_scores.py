"""How well a model describes each kind of change: the figures of its card."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rscc.calibration_fit import FEWEST
from rscc.data.pairs import PairRecord
from rscc.errors import ExtraNotInstalled, WeightsNotFound
from rscc.metrics import cider
from rscc.object_classes import unnamed_objects
from rscc.scoring import kinds_named, kinds_read, subsets
from rscc.structures import NO_CHANGE_CAPTION

KindScores = dict[str, dict[str, float]]


def score_kinds(records: Sequence[PairRecord], captions: Sequence[str], called: np.ndarray) -> KindScores:
    """Score captions by kind of change.

    Args:
        records: pairs with references.
        captions: what the model says of each pair, given that it changed.
        called: (N,) bool, whether the model calls the pair changed; of others it says that nothing changed.

    Returns:
        By kind, which the data set names or the references tell, and for all changed and all unchanged pairs:
        ``pairs``; ``called_changed``, the share of them; of changed ones also ``cider`` in percent, where
        there are at least :data:`~rscc.calibration_fit.FEWEST` pairs, and ``other_objects``, the share of
        captions of pairs called changed that name an object which no reference names. Empty where the
        parser or the scorer is not installed.
    """
    said = {
        record.id: caption if seen else NO_CHANGE_CAPTION
        for record, caption, seen in zip(records, captions, called.tolist(), strict=True)
    }
    seen = {record.id: flag for record, flag in zip(records, called.tolist(), strict=True)}
    try:
        groups = subsets(records, kinds_named(records) or kinds_read(records))
        return {
            kind: _scores(members, said, seen, words=kind != "unchanged")
            for kind, members in groups.items()
            if kind != "all"
        }
    except (ExtraNotInstalled, WeightsNotFound):
        return {}


def _scores(
    members: Sequence[PairRecord], said: dict[str, str], seen: dict[str, bool], *, words: bool
) -> dict[str, float]:
    found = {"pairs": float(len(members)), "called_changed": float(np.mean([seen[r.id] for r in members]))}
    if words:
        found |= _of_words(members, said, seen)
    return {name: round(value, 4) for name, value in found.items()}


def _of_words(members: Sequence[PairRecord], said: dict[str, str], seen: dict[str, bool]) -> dict[str, float]:
    found = {}
    if len(members) >= FEWEST:
        found["cider"] = cider({r.id: said[r.id] for r in members}, {r.id: r.captions for r in members})
    called = [record for record in members if seen[record.id]]
    if called:
        wrong = unnamed_objects([said[record.id] for record in called], [r.captions for r in called])
        found["other_objects"] = float(np.mean([bool(classes) for classes in wrong]))
    return found

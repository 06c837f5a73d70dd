"""Pairs whose upper half turns bright, and a captioner that sees brightness."""

from dataclasses import replace

import numpy as np
from fakes import card
from PIL import Image

from rscc.data.pairs import PairRecord
from rscc.evaluation.report import EvaluationReport
from rscc.evaluation.rows import EvaluationRow
from rscc.evaluation.run import evaluate_records
from rscc.structures import Caption, ChangePrediction

VILLAS = ("two villas are built", "some villas appear", "villas are built near the road")
TREES = ("many trees are removed", "the trees disappear", "trees are cut down")
SIDE = 32


def write_pair(folder, name, *, changed, captions, size=(24, 40)) -> PairRecord:
    """Write a pair whose upper half turns bright when it changed, and its mask."""
    before = np.full((*size, 3), 60, np.uint8)
    after, mask = before.copy(), np.zeros(size, np.uint8)
    if changed:
        after[: size[0] // 2], mask[: size[0] // 2] = 200, 255
    paths = [folder / f"{name}_{part}.png" for part in ("before", "after", "mask")]
    for path, array in zip(paths, (before, after, mask), strict=True):
        Image.fromarray(array).save(path)
    return PairRecord(name, paths[0], paths[1], mask=paths[2], captions=captions, changed=changed)


def row_of(report: EvaluationReport, name: str, subset: str) -> EvaluationRow:
    """The one row of a report of this name and subset."""
    (row,) = (row for row in report.rows if (row.name, row.subset) == (name, subset))
    return row


class BrightnessCaptioner:
    """Sees a change where the brightness differs, with ``surest`` at most.

    What is brighter are new villas, what is darker villas that are gone; ``shapes`` keeps what it looked at.
    """

    def __init__(self, *, surest=1.0, **values):
        self.surest = surest
        self.card = replace(card(name="brightness", tile_size=SIDE), **values)
        self.shapes: list[tuple[int, ...]] = []

    def predict_change(self, before, after):
        self.shapes.append(before.shape)
        probability = np.minimum(np.abs(after.astype(np.float32) - before).mean(1) / 100, self.surest)
        return ChangePrediction(probability, probability.max((1, 2)))

    def describe(self, before, after, *, beams):
        return self.predict_change(before, after), self.caption(before, after, beams=beams)

    def caption(self, before, after, *, beams):
        darkest = np.abs(after.astype(np.float32) - before).mean(1).max((1, 2)) / 100
        differs = np.minimum(darkest, 1) >= self.card.changed_threshold
        words = np.where(after.mean((1, 2, 3)) > before.mean((1, 2, 3)), "are built", "are removed")
        return [
            Caption(f"two villas {what}" if one else "there is no difference", score=0.5, changed=one)
            for one, what in zip(differs.tolist(), words, strict=True)
        ]


def report_of(records, train, **options):
    captioner = options.pop("captioner", None) or BrightnessCaptioner()
    run = {"data": "made up", "split": "test"}
    return evaluate_records(captioner, records, train, run=run, java=False, **options)


def features_of(records):
    """Features that bring each asked pair next to one training pair."""
    values = {"a": 0, "b": 10, "c": 20, "d": 30, "one": 19, "two": 11, "three": 1, "four": 29}
    return np.array(
        [[[values[record.id]] * 3, [2 * values[record.id]] * 3] for record in records], np.float32
    )


def kinds_of(records) -> list[PairRecord]:
    """Two kinds of change; an unchanged pair has one as well, which does not count."""
    kinds = ("add", "drop", "drop", "")
    return [replace(record, kind=kind) for record, kind in zip(records, kinds, strict=True)]

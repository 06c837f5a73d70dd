"""Further tables of an evaluation: how sure the model's scores are, its flags and objects, its robustness."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from rscc.markdown import percent, table, unit

if TYPE_CHECKING:
    from rscc.bootstrap import Interval
    from rscc.evaluation_report import EvaluationRow
    from rscc.object_classes import Hallucinations
    from rscc.robustness import Robustness, Share

_MOST_CLASSES = 4


def certainty_tables(rows: Sequence[EvaluationRow], title: Callable[[str], str]) -> list[str]:
    """Return Markdown: the model's scores with their intervals, and its flags and objects, by subset.

    Args:
        rows: of the model, one per subset.
        title: what a subset is called.
    """
    name = rows[0].name
    masks = any(row.mask is not None for row in rows)
    heads = _SCORE_HEADS if masks else _SCORE_HEADS[: -len(_MASK_HEADS)]
    scores = [(title(row.subset), *_score_cells(row)[: len(heads)]) for row in rows]
    flags = [(title(row.subset), *_flag_cells(row)) for row in rows]
    return [
        table((f"{name}, 95 % intervals", *heads), scores),
        table((f"{name}, flags and objects", *_FLAG_HEADS), flags),
    ]


_MASK_HEADS = ("mask F1, %", "mask IoU, %")
_SCORE_HEADS = ("BLEU-4", "METEOR", "ROUGE-L", "CIDEr", "S*m", "flag acc., %", *_MASK_HEADS)


def _score_cells(row: EvaluationRow) -> list[str]:
    one, mask, intervals = row.captions, row.mask, row.intervals
    captions = {
        "bleu4": one.bleu4,
        "meteor": one.meteor,
        "rouge_l": one.rouge_l,
        "cider": one.cider,
        "s_m": one.s_m,
    }
    shares = {
        "flag_accuracy": row.flags.accuracy,
        "mask_f1": None if mask is None else mask.f1,
        "mask_iou": None if mask is None else mask.iou,
    }
    return [
        *(_with_interval(value, intervals.get(key)) for key, value in captions.items()),
        *(_share(value, intervals.get(key)) for key, value in shares.items()),
    ]


def _with_interval(value: float | None, interval: Interval | None) -> str:
    return percent(value) if interval is None else f"{percent(value)} ({interval[0]:.1f}-{interval[1]:.1f})"


_FLAG_HEADS = (
    "precision, %",
    "recall, %",
    "calibration error",
    "objects no reference names, %",
    "most often",
)


def _flag_cells(row: EvaluationRow) -> list[str]:
    flags, intervals = row.flags, row.intervals
    return [
        _share(flags.precision, intervals.get("flag_precision")),
        _share(flags.recall, intervals.get("flag_recall")),
        unit(flags.calibration_error),
        *_object_cells(row.objects, intervals),
    ]


def _object_cells(objects: Hallucinations | None, intervals: Mapping[str, Interval]) -> list[str]:
    if objects is None or not objects.captions:
        return ["–", "–"]
    rate = _share(objects.rate, intervals.get("hallucination_rate"))
    classes = [f"{name} {count}" for name, count in list(objects.by_class.items())[:_MOST_CLASSES]]
    return [f"{rate}, {objects.wrong} of {objects.captions}", ", ".join(classes) or "–"]


def robustness_tables(found: Robustness, name: str) -> list[str]:
    """Return Markdown: what the model says of pairs shown backwards, and of one image twice."""
    backwards = [
        ("captions that say it is gone", *_cells(found.removal)),
        ("called changed", *_cells(found.still_changed)),
    ]
    unchanged = [(what, *_cells(share)) for what, share in found.unchanged.items()]
    return [
        table((f"{name}, construction shown backwards", "pairs", "share, %"), backwards),
        table(
            (f"{name}, one image twice, called unchanged", "pairs", "share, %"),
            [*unchanged, ("all", *_cells(found.all_unchanged))],
        ),
    ]


def _cells(share: Share) -> tuple[str, str]:
    return str(share.pairs), _share(share.value, share.interval)


def _share(value: float | None, interval: Interval | None) -> str:
    """Return a share in 0..1 as a percentage with its interval."""
    if value is None:
        return "–"
    return _with_interval(100 * value, None if interval is None else (100 * interval[0], 100 * interval[1]))

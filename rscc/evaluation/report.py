"""The rows of an evaluation as Markdown and JSON, alone or beside the rows that papers print."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

from rscc.data.leaks import THRESHOLD, LeakCheck
from rscc.evaluation.bootstrap import Interval
from rscc.evaluation.masks import SizeRecall
from rscc.evaluation.papers import PaperTables, comparison
from rscc.evaluation.robustness import Robustness
from rscc.evaluation.rows import PEOPLE, SHARES, SUBSETS, EvaluationRow, FactScores, ObjectScores, Share
from rscc.markdown import percent, table, unit
from rscc.text.object_classes import Hallucinations


def run_record(command: str) -> dict[str, Any]:
    """Return what an evaluation ran with: command, date (UTC), machine, versions."""
    packages = ("rscc", "torch", "pycocoevalcap")
    return {
        "command": command,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"system": platform.system(), "processor": platform.machine(), "cpus": os.cpu_count()},
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in packages},
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


_SCORES = ("pairs", "BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "METEOR", "ROUGE-L", "CIDEr", "S*m")
_MASK = ("mask P", "mask R", "mask F1", "mask IoU")


@dataclass(frozen=True)
class EvaluationReport:
    """All rows of one evaluation.

    Attributes:
        rows: the model first, then the baselines; each on every subset that is neither empty nor the same
            pairs as an earlier one.
        run: command, data, split, counts, model, machine, date.
        papers: what papers print of the same data set.
        notes: what else a reader must know.
        facts: what captions state of changed pairs: of the model, of people, of the baselines; empty for data
            sets whose captions speak of other things.
        robustness: of the model; None when it was not asked for.
        leaks: whether images that were scored lie in training data; None where nobody looked.
    """

    rows: Sequence[EvaluationRow]
    run: dict[str, Any]
    papers: PaperTables = field(default_factory=PaperTables)
    notes: Sequence[str] = field(default_factory=tuple)
    facts: Sequence[FactScores] = ()
    robustness: Robustness | None = None
    leaks: LeakCheck | None = None

    def title(self, subset: str) -> str:
        """Return what a subset is called in the text, in the papers' words where they have some."""
        return self.papers.names.get(subset, f"{subset} pairs" if subset in SUBSETS else f"kind: {subset}")

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        papers = {"split": self.papers.split, "rows": [row.as_dict() for row in self.papers.rows]}
        return {
            "run": self.run,
            "rows": [row.as_dict() for row in self.rows],
            "facts": [scores.as_dict() for scores in self.facts],
            "papers": papers,
            "robustness": None if self.robustness is None else self.robustness.as_dict(),
            "leaks": None if self.leaks is None else leaks_record(self.leaks),
            "notes": self._all_notes(),
        }

    def as_text(self, *, compare: bool = False) -> str:
        """Return Markdown: one table per subset, then notes.

        Args:
            compare: also set the model's row of every subset among the rows that papers print of it.
        """
        data = f"Data: {self.run.get('data', '')}, split {self.run.get('split', '')}"
        parts = [data, *self._tables(), *certainty_tables(self._model_rows(), self.title)]
        if (mask := self.rows[0].mask) is not None and mask.by_size:
            parts.append(size_table(mask.by_size, self.rows[0].name))
        if self.facts:
            parts += facts_tables(self.facts)
        if self.robustness is not None:
            parts += robustness_tables(self.robustness, self.rows[0].name)
        if compare:
            parts += self._comparisons()
        parts.extend(f"Note: {note}." for note in self._all_notes())
        return "\n\n".join(parts)

    def _model_rows(self) -> list[EvaluationRow]:
        return [row for row in self.rows if row.name == self.rows[0].name]

    def _tables(self) -> list[str]:
        spice = any(row.captions.spice is not None for row in self.rows)
        masks = any(row.mask is not None for row in self.rows)
        head = (*_SCORES, *(("SPICE",) if spice else ()), "flag acc.", *(_MASK if masks else ()))
        return [
            table(
                (self.title(model_row.subset), *head),
                [
                    _cells(row, spice=spice, masks=masks)
                    for row in self.rows
                    if row.subset == model_row.subset
                ],
            )
            for model_row in self._model_rows()
        ]

    def _comparisons(self) -> list[str]:
        reported = {paper_row.subset for paper_row in self.papers.rows}
        ours = f"split {self.run.get('split', '')} of {self.run.get('data', '')}"
        decoding = self.run.get("decoding", "–")
        parts = [
            comparison(row, self.papers, title=self.title(row.subset), ours=ours, decoding=decoding)
            for row in self._model_rows()
            if row.subset in reported
        ]
        if not parts:
            return ["No paper of this project prints scores of these pairs: nothing to compare with."]
        trained = self.run.get("model", {}).get("trained_on", "")
        training = f"Ours was trained on: {trained} " if trained else ""
        return [
            *parts,
            f"{training}Papers train on the whole official training split. A dash under decoding: the "
            "method's own paper does not say it, or was not read.",
        ]

    def _all_notes(self) -> list[str]:
        """Return the notes of the model's rows, each once, with the subsets it is about."""
        rows = self._model_rows()
        about: dict[str, list[str]] = {}
        for row in rows:
            for note in row.captions.notes:
                about.setdefault(note, []).append(row.subset)
        from_rows = [
            note
            if len(subsets) == len(rows)
            else f"{' and '.join(self.title(subset) for subset in subsets)}: {note}"
            for note, subsets in about.items()
        ]
        return [leaks_note(self.leaks), *self.notes, *from_rows]


def _cells(row: EvaluationRow, *, spice: bool, masks: bool) -> list[str]:
    one, mask = row.captions, row.mask
    values = [one.bleu1, one.bleu2, one.bleu3, one.bleu4, one.meteor, one.rouge_l, one.cider, one.s_m]
    if spice:
        values.append(one.spice)
    shares: list[float | None] = [row.flags.accuracy]
    if masks:
        shares += [mask.precision, mask.recall, mask.f1, mask.iou] if mask else [None] * 4
    return [row.name, str(one.count), *map(percent, values), *map(unit, shares)]


_MOST_LEAKS = 3


def leaks_note(check: LeakCheck | None) -> str:
    """Say in a sentence whether images that were scored lie in training data."""
    if check is None:
        return "nobody looked whether these images lie in the training data (--check-leaks)"
    compared = f"{check.test:,} images were looked for in {check.training:,} training images"
    if not check.leaks:
        return f"{compared}: none lies there (largest correlation {check.largest:.2f})"
    named = [f"{leak.test} in {leak.training} ({leak.correlation:.2f})" for leak in check.leaks[:_MOST_LEAKS]]
    more = f" and {len(check.leaks) - _MOST_LEAKS:,} more" if len(check.leaks) > _MOST_LEAKS else ""
    several = "THE SCORES ARE FLATTERED: images that were scored lie in the training data"
    return f"{several}: {'; '.join(named)}{more}; {compared}"


def leaks_record(check: LeakCheck) -> dict[str, Any]:
    """Return plain values; names of files as they were given."""
    leaks = [
        {
            "test": str(leak.test),
            "training": str(leak.training),
            "correlation": round(leak.correlation, 3),
            "zoom": round(leak.zoom, 2),
        }
        for leak in check.leaks
    ]
    return {
        "test": check.test,
        "training": check.training,
        "threshold": THRESHOLD,
        "largest": round(check.largest, 3),
        "leaks": leaks,
        "unread": [str(path) for path in check.unread],
    }


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
    captions = {name: getattr(one, name) for name in ("bleu4", "meteor", "rouge_l", "cider", "s_m")}
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


def size_table(sizes: Sequence[SizeRecall], name: str) -> str:
    """Return Markdown: how many true objects of the masks are found, by their size."""
    ends = [f"to {size.least}" for size in sizes[1:]]
    rows = [
        (f"{size.least} {end}", str(size.objects), _share(size.recall, size.interval))
        for size, end in zip(sizes, [*ends, "and more"], strict=True)
    ]
    return table((f"{name}, objects of the masks by m2", "objects", "found, %"), rows)


def facts_tables(facts: Sequence[FactScores]) -> list[str]:
    """Return Markdown: what captions state, by captioner, and the model's objects by class beside people's.

    Args:
        facts: the model first, then people.
    """
    model, people = facts[0], next(scores.by_class for scores in facts if scores.name == PEOPLE)
    heads = (*(f"{fact}, %" for fact in SHARES), *_OBJECT_HEADS, "another object, %", "distinct sentences")
    tables = [
        table((f"facts of {model.pairs} changed pairs", *heads), [_fact_cells(scores) for scores in facts])
    ]
    rows = [
        (
            name,
            str(one.right + one.missed),
            *_object_scores(one),
            _object_scores(people[name])[-1] if name in people else "–",
        )
        for name, one in model.by_class.items()
    ]
    if rows:
        tables.append(table((f"{model.name}, objects", "pairs", *_OBJECT_HEADS, "F1 of people, %"), rows))
    return tables


_OBJECT_HEADS = ("objects P, %", "objects R, %", "objects F1, %")


def _fact_cells(scores: FactScores) -> list[str]:
    return [
        scores.name,
        *(_counted(scores.shares[fact]) for fact in SHARES),
        *(["–"] * 3 if scores.objects is None else _object_scores(scores.objects)),
        _counted(scores.other_objects),
        f"{scores.distinct:.0f}",
    ]


def _counted(one: Share | None) -> str:
    return f"{_share(one.value, one.interval)}, {one.right} of {one.counted}" if one and one.counted else "–"


def _object_scores(scores: ObjectScores) -> list[str]:
    return [_share(value, scores.intervals.get(name)) for name, value in scores.values.items()]


def robustness_tables(robustness: Robustness, name: str) -> list[str]:
    """Return Markdown: what the model says of pairs shown backwards, and of one image twice."""
    backwards = [
        ("captions that say it is gone", *_share_cells(robustness.removal)),
        ("called changed", *_share_cells(robustness.still_changed)),
    ]
    unchanged = [(what, *_share_cells(share)) for what, share in robustness.unchanged.items()]
    return [
        table((f"{name}, construction shown backwards", "pairs", "share, %"), backwards),
        table(
            (f"{name}, one image twice, called unchanged", "pairs", "share, %"),
            [*unchanged, ("all", *_share_cells(robustness.all_unchanged))],
        ),
    ]


def _share_cells(share: Share) -> tuple[str, str]:
    return str(share.counted), _share(share.value, share.interval)


def _share(value: float | None, interval: Interval | None) -> str:
    """Return a share in 0..1 as a percentage with its interval."""
    if value is None:
        return "–"
    return _with_interval(100 * value, None if interval is None else (100 * interval[0], 100 * interval[1]))

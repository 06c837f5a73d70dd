"""The results of an evaluation as Markdown and JSON, alone or beside the rows that papers print."""

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

from rscc.data.leaks import LeakCheck
from rscc.evaluation.bootstrap import Interval
from rscc.evaluation.markdown import percent, table, unit
from rscc.evaluation.papers import PaperTables, comparison
from rscc.evaluation.robustness import Robustness
from rscc.evaluation.score_rows import (
    PEOPLE,
    SHARES,
    SUBSETS,
    EvaluationRow,
    FactScores,
    ObjectScores,
    Share,
    SizeRecall,
)
from rscc.text.object_classes import Hallucinations

_SCORES = ("pairs", "BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "METEOR", "ROUGE-L", "CIDEr", "S*m")
_MASK = ("mask P", "mask R", "mask F1", "mask IoU")
_MASK_HEADS = ("mask F1, %", "mask IoU, %")
_SCORE_HEADS = ("BLEU-4", "METEOR", "ROUGE-L", "CIDEr", "S*m", "flag acc., %")
_FLAG_HEADS = ("precision, %", "recall, %", "calibration error")
_HALLUCINATION_HEADS = ("objects no reference names, %", "most often")
_OBJECT_HEADS = ("objects P, %", "objects R, %", "objects F1, %")
_MAX_LEAKS, _MAX_CLASSES = 3, 4
_NONE = "–"


def run_record(command: str) -> dict[str, Any]:
    """Return the record of a run: command, date (UTC), machine, versions."""
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


@dataclass(frozen=True)
class EvaluationReport:
    """All results of one evaluation.

    Attributes:
        rows: the model first, then the baselines, each on every subset, see
            :func:`rscc.evaluation.scoring.subsets`.
        papers: what papers print of the same data set.
        facts: of the model, of people, of the baselines; empty for data sets that are not overhead images.
    """

    rows: Sequence[EvaluationRow]
    run: dict[str, Any]
    papers: PaperTables = field(default_factory=PaperTables)
    notes: Sequence[str] = field(default_factory=tuple)
    facts: Sequence[FactScores] = ()
    robustness: Robustness | None = None
    leaks: LeakCheck | None = None

    def title(self, subset: str) -> str:
        """Return the name of a subset, the papers' name if they have one."""
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
            "leaks": None if self.leaks is None else self.leaks.as_dict(),
            "notes": self._all_notes(),
        }

    def as_text(self, *, compare: bool = False) -> str:
        """Return Markdown: one table per subset, further tables, then notes.

        Args:
            compare: also print the model's row of every subset among the papers' rows.
        """
        name, mask = self.rows[0].name, self.rows[0].mask
        parts = [
            f"Data: {self.run.get('data', '')}, split {self.run.get('split', '')}",
            *self._subset_tables(),
            *self._interval_tables(),
        ]
        if mask is not None and mask.by_size:
            parts.append(size_table(mask.by_size, name))
        if self.facts:
            parts += facts_tables(self.facts)
        if self.robustness is not None:
            parts += robustness_tables(self.robustness, name)
        if compare:
            parts += self._comparisons()
        parts.extend(f"Note: {note}." for note in self._all_notes())
        return "\n\n".join(parts)

    def _model_rows(self) -> list[EvaluationRow]:
        return [row for row in self.rows if row.name == self.rows[0].name]

    def _subset_tables(self) -> list[str]:
        spice = any(row.captions.spice is not None for row in self.rows)
        masks = any(row.mask is not None for row in self.rows)
        head = (*_SCORES, *(("SPICE",) if spice else ()), "flag acc.", *(_MASK if masks else ()))
        tables = []
        for subset in (row.subset for row in self._model_rows()):
            rows = [_cells(row, spice=spice, masks=masks) for row in self.rows if row.subset == subset]
            tables.append(table((self.title(subset), *head), rows))
        return tables

    def _interval_tables(self) -> list[str]:
        """Return the model's scores with intervals, and its flags and objects, with a row per subset."""
        rows, name = self._model_rows(), self.rows[0].name
        heads = (*_SCORE_HEADS, *(_MASK_HEADS if any(row.mask is not None for row in rows) else ()))
        scores = [(self.title(row.subset), *_score_cells(row)[: len(heads)]) for row in rows]
        flags = [(self.title(row.subset), *_flag_cells(row)) for row in rows]
        return [
            table((f"{name}, 95 % intervals", *heads), scores),
            table((f"{name}, flags and objects", *_FLAG_HEADS, *_HALLUCINATION_HEADS), flags),
        ]

    def _comparisons(self) -> list[str]:
        reported = {paper_row.subset for paper_row in self.papers.rows}
        ours = f"split {self.run.get('split', '')} of {self.run.get('data', '')}"
        decoding = self.run.get("decoding", _NONE)
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
        """Return all notes once; those of the model's rows name their subsets unless they hold for all."""
        rows = self._model_rows()
        subsets: dict[str, list[str]] = {}
        for row in rows:
            for note in row.captions.notes:
                subsets.setdefault(note, []).append(self.title(row.subset))
        from_rows = [
            note if len(titles) == len(rows) else f"{' and '.join(titles)}: {note}"
            for note, titles in subsets.items()
        ]
        return [leaks_note(self.leaks), *self.notes, *from_rows]


def leaks_note(check: LeakCheck | None) -> str:
    """Return in a sentence whether scored images are in the training data."""
    if check is None:
        return "these images were not searched for in the training data (--check-leaks)"
    compared = f"{check.test:,} images were searched for in {check.training:,} training images"
    if not check.leaks:
        return f"{compared}: none was found (largest correlation {check.largest:.2f})"
    named = [f"{leak.test} in {leak.training} ({leak.correlation:.2f})" for leak in check.leaks[:_MAX_LEAKS]]
    more = f" and {len(check.leaks) - _MAX_LEAKS:,} more" if len(check.leaks) > _MAX_LEAKS else ""
    warning = "THE SCORES ARE TOO HIGH: scored images are in the training data"
    return f"{warning}: {'; '.join(named)}{more}; {compared}"


def _cells(row: EvaluationRow, *, spice: bool, masks: bool) -> list[str]:
    scores, mask = row.captions, row.mask
    values: list[float | None] = [scores.bleu1, scores.bleu2, scores.bleu3, scores.bleu4]
    values += [scores.meteor, scores.rouge_l, scores.cider, scores.s_m]
    if spice:
        values.append(scores.spice)
    shares: list[float | None] = [row.flags.accuracy]
    if masks:
        shares += [mask.precision, mask.recall, mask.f1, mask.iou] if mask else [None] * 4
    return [row.name, str(scores.count), *map(percent, values), *map(unit, shares)]


def _score_cells(row: EvaluationRow) -> list[str]:
    names, mask, intervals = ("bleu4", "meteor", "rouge_l", "cider", "s_m"), row.mask, row.intervals
    shares: dict[str, float | None] = {
        "flag_accuracy": row.flags.accuracy,
        "mask_f1": mask.f1 if mask else None,
        "mask_iou": mask.iou if mask else None,
    }
    return [
        *(_with_interval(getattr(row.captions, name), intervals.get(name)) for name in names),
        *(_share_cell(value, intervals.get(name)) for name, value in shares.items()),
    ]


def _flag_cells(row: EvaluationRow) -> list[str]:
    flags, intervals = row.flags, row.intervals
    return [
        _share_cell(flags.precision, intervals.get("flag_precision")),
        _share_cell(flags.recall, intervals.get("flag_recall")),
        unit(flags.calibration_error),
        *_hallucination_cells(row.objects, intervals),
    ]


def _hallucination_cells(objects: Hallucinations | None, intervals: Mapping[str, Interval]) -> list[str]:
    if objects is None or not objects.captions:
        return [_NONE, _NONE]
    rate = _share_cell(objects.rate, intervals.get("hallucination_rate"))
    classes = [f"{name} {count}" for name, count in list(objects.by_class.items())[:_MAX_CLASSES]]
    return [f"{rate}, {objects.wrong} of {objects.captions}", ", ".join(classes) or _NONE]


def size_table(sizes: Sequence[SizeRecall], name: str) -> str:
    """Return a table of the true objects of the masks that are found, by size."""
    ends = [*(f"to {size.least}" for size in sizes[1:]), "and more"]
    rows = [
        (f"{size.least} {end}", str(size.objects), _share_cell(size.recall, size.interval))
        for size, end in zip(sizes, ends, strict=True)
    ]
    return table((f"{name}, objects of the masks by m2", "objects", "found, %"), rows)


def facts_tables(facts: Sequence[FactScores]) -> list[str]:
    """Return tables of the facts that captions state, and of the objects of the model, which comes first."""
    model, people = facts[0], next(scores.by_class for scores in facts if scores.name == PEOPLE)
    heads = (*(f"{fact}, %" for fact in SHARES), *_OBJECT_HEADS, "another object, %", "distinct sentences")
    tables = [table((f"facts of {model.pairs} changed pairs", *heads), list(map(_fact_cells, facts)))]
    rows = [
        (
            name,
            str(scores.right + scores.missed),
            *_object_cells(scores),
            _object_cells(people[name])[-1] if name in people else _NONE,
        )
        for name, scores in model.by_class.items()
    ]
    if rows:
        tables.append(table((f"{model.name}, objects", "pairs", *_OBJECT_HEADS, "F1 of people, %"), rows))
    return tables


def _fact_cells(scores: FactScores) -> list[str]:
    return [
        scores.name,
        *(_counted_cell(scores.shares[fact]) for fact in SHARES),
        *([_NONE] * 3 if scores.objects is None else _object_cells(scores.objects)),
        _counted_cell(scores.other_objects),
        f"{scores.distinct:.0f}",
    ]


def _object_cells(scores: ObjectScores) -> list[str]:
    return [_share_cell(value, scores.intervals.get(name)) for name, value in scores.values.items()]


def robustness_tables(robustness: Robustness, name: str) -> list[str]:
    """Return tables of the answers for pairs with swapped dates, and for one image twice."""
    swapped = {"captions that say it is gone": robustness.removal, "called changed": robustness.still_changed}
    same = {**robustness.unchanged, "all": robustness.all_unchanged}
    titles = ("construction shown backwards", "one image twice, called unchanged")
    return [
        table(
            (f"{name}, {title}", "pairs", "share, %"),
            [
                (what, str(share.counted), _share_cell(share.value, share.interval))
                for what, share in shares.items()
            ],
        )
        for title, shares in zip(titles, (swapped, same), strict=True)
    ]


def _counted_cell(share: Share | None) -> str:
    if share is None or not share.counted:
        return _NONE
    return f"{_share_cell(share.value, share.interval)}, {share.right} of {share.counted}"


def _with_interval(value: float | None, interval: Interval | None) -> str:
    return percent(value) if interval is None else f"{percent(value)} ({interval[0]:.1f}-{interval[1]:.1f})"


def _share_cell(value: float | None, interval: Interval | None) -> str:
    if value is None:
        return _NONE
    return _with_interval(100 * value, None if interval is None else (100 * interval[0], 100 * interval[1]))

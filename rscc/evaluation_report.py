"""The rows of an evaluation as Markdown and JSON, alone or beside the rows that papers print."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

from rscc.bootstrap import Interval
from rscc.comparison import PaperTables, comparison
from rscc.markdown import percent, table, unit
from rscc.mask_metrics import MaskScores
from rscc.metrics import CaptionScores
from rscc.object_classes import Hallucinations
from rscc.report_tables import certainty_tables, robustness_tables
from rscc.robustness import Robustness

SUBSETS = ("all", "changed", "unchanged")
"""The subsets by the true flag; the types of change that a data set names are further ones."""


@dataclass(frozen=True)
class FlagScores:
    """Scores of "changed or not", in 0..1.

    Attributes:
        accuracy: share of right flags.
        precision: None when no pair was called changed. recall: None when no pair changed.
        calibration_error: expected, of P(changed), see :class:`rscc.calibration.Reliability`; None for a
            captioner without that probability, and where all pairs changed or none did.
    """

    accuracy: float
    precision: float | None
    recall: float | None
    calibration_error: float | None = None


@dataclass(frozen=True)
class EvaluationRow:
    """Scores of one captioner on one subset of the pairs.

    Attributes:
        name: the model or the baseline.
        subset: ``all``, ``changed`` or ``unchanged`` (by the true flag), or a type of change as the data set
            names it, of which only changed pairs are counted.
        captions: in percent.
        flags: in 0..1.
        mask: in 0..1; None when the captioner gives no masks or no pair has one.
        objects: how often captions name objects that no reference names; None when not counted.
        intervals: 95 percent intervals by the names of the scores, those of the captions in percent, the
            others in 0..1; what is undefined is absent. Wilson's of ``flag_precision``, ``flag_recall`` and
            ``hallucination_rate``; of all others (captions, ``flag_accuracy``, ``mask_precision``,
            ``mask_recall``, ``mask_f1``, ``mask_iou``) by the bootstrap over pairs, :mod:`rscc.bootstrap`.
    """

    name: str
    subset: str
    captions: CaptionScores
    flags: FlagScores
    mask: MaskScores | None
    objects: Hallucinations | None = None
    intervals: Mapping[str, Interval] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "name": self.name,
            "subset": self.subset,
            **self.captions.as_dict(),
            "flag_accuracy": self.flags.accuracy,
            "flag_precision": self.flags.precision,
            "flag_recall": self.flags.recall,
            "calibration_error": self.flags.calibration_error,
            "mask": None if self.mask is None else self.mask.as_dict(),
            "hallucinations": None if self.objects is None else self.objects.as_dict(),
            "intervals": dict(self.intervals),
            "notes": list(self.captions.notes),
        }


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
        robustness: of the model; None when it was not asked for.
    """

    rows: Sequence[EvaluationRow]
    run: dict[str, Any]
    papers: PaperTables = field(default_factory=PaperTables)
    notes: Sequence[str] = field(default_factory=tuple)
    robustness: Robustness | None = None

    def row(self, name: str, subset: str) -> EvaluationRow:
        """Return one row.

        Raises:
            KeyError: there is none of that name and subset.
        """
        for row in self.rows:
            if (row.name, row.subset) == (name, subset):
                return row
        raise KeyError((name, subset))

    def title(self, subset: str) -> str:
        """Return what a subset is called in the text, in the papers' words where they have some."""
        return self.papers.names.get(subset, f"{subset} pairs" if subset in SUBSETS else f"kind: {subset}")

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        papers = {"split": self.papers.split, "rows": [row.as_dict() for row in self.papers.rows]}
        return {
            "run": self.run,
            "rows": [row.as_dict() for row in self.rows],
            "papers": papers,
            "robustness": None if self.robustness is None else self.robustness.as_dict(),
            "notes": self._all_notes(),
        }

    def as_text(self, *, compare: bool = False) -> str:
        """Return Markdown: one table per subset, then notes.

        Args:
            compare: also set the model's row of every subset among the rows that papers print of it.
        """
        data = f"Data: {self.run.get('data', '')}, split {self.run.get('split', '')}"
        parts = [data, *self._tables(), *certainty_tables(self._own(), self.title)]
        if self.robustness is not None:
            parts += robustness_tables(self.robustness, self.rows[0].name)
        if compare:
            parts += self._comparisons()
        parts.extend(f"Note: {note}." for note in self._all_notes())
        return "\n\n".join(parts)

    def _own(self) -> list[EvaluationRow]:
        return [row for row in self.rows if row.name == self.rows[0].name]

    def _tables(self) -> list[str]:
        spice = any(row.captions.spice is not None for row in self.rows)
        masks = any(row.mask is not None for row in self.rows)
        head = (*_SCORES, *(("SPICE",) if spice else ()), "flag acc.", *(_MASK if masks else ()))
        return [
            table(
                (self.title(own.subset), *head),
                [_cells(row, spice=spice, masks=masks) for row in self.rows if row.subset == own.subset],
            )
            for own in self._own()
        ]

    def _comparisons(self) -> list[str]:
        reported = {row.subset for row in self.papers.rows}
        ours = f"split {self.run.get('split', '')} of {self.run.get('data', '')}"
        parts = [
            comparison(own, self.papers, title=self.title(own.subset), ours=ours)
            for own in self._own()
            if own.subset in reported
        ]
        if not parts:
            return ["No paper of this project prints scores of these pairs: nothing to compare with."]
        trained = self.run.get("model", {}).get("trained_on", "")
        training = f"Ours was trained on: {trained} " if trained else ""
        return [
            *parts,
            f"{training}Papers train on the whole official training split. Ours decodes with beams of width "
            f"{self.run.get('beams', 1)}; SCORER+CBR, DIRL+CCR and CHEERS say that they decode greedily.",
        ]

    def _all_notes(self) -> list[str]:
        """Return the notes of the model's rows, each once, with the subsets it is about."""
        own = self._own()
        about: dict[str, list[str]] = {}
        for row in own:
            for note in row.captions.notes:
                about.setdefault(note, []).append(row.subset)
        told = [
            note
            if len(subsets) == len(own)
            else f"{' and '.join(self.title(subset) for subset in subsets)}: {note}"
            for note, subsets in about.items()
        ]
        return [*self.notes, *told]


def _cells(row: EvaluationRow, *, spice: bool, masks: bool) -> list[str]:
    one, mask = row.captions, row.mask
    values = [one.bleu1, one.bleu2, one.bleu3, one.bleu4, one.meteor, one.rouge_l, one.cider, one.s_m]
    if spice:
        values.append(one.spice)
    shares: list[float | None] = [row.flags.accuracy]
    if masks:
        shares += [mask.precision, mask.recall, mask.f1, mask.iou] if mask else [None] * 4
    return [row.name, str(one.count), *map(percent, values), *map(unit, shares)]

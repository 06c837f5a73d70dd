"""The table of an evaluation as Markdown and JSON, beside the rows that papers print."""

from __future__ import annotations

import os
import platform
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata, resources
from typing import Any

from rscc.mask_metrics import MaskScores
from rscc.metrics import CaptionScores

SUBSETS = ("all", "changed", "unchanged")


@dataclass(frozen=True)
class PaperRow:
    """Scores of one method as a paper prints them, in percent, and where they stand."""

    method: str
    venue: str
    bleu4: float
    meteor: float
    rouge_l: float
    cider: float
    source: str


@dataclass(frozen=True)
class EvaluationRow:
    """Scores of one captioner on one subset of the pairs.

    Attributes:
        name: the model or the baseline.
        subset: ``all``, ``changed`` or ``unchanged`` (by the true flag).
        captions: in percent.
        cider_interval: 95 percent bootstrap interval over pairs of CIDEr, in percent; None without CIDEr.
        flag_accuracy, flag_interval: in 0..1.
        mask: in 0..1; None when the captioner gives no masks or no pair has one.
    """

    name: str
    subset: str
    captions: CaptionScores
    cider_interval: tuple[float, float] | None
    flag_accuracy: float
    flag_interval: tuple[float, float]
    mask: MaskScores | None

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "name": self.name,
            "subset": self.subset,
            **self.captions.as_dict(),
            "cider_interval": self.cider_interval,
            "flag_accuracy": self.flag_accuracy,
            "flag_interval": self.flag_interval,
            "mask": None if self.mask is None else self.mask.as_dict(),
            "notes": list(self.captions.notes),
        }


def paper_rows(dataset: str) -> tuple[list[PaperRow], str]:
    """Return the papers' rows for a data set (none for one that no paper reports) and their split."""
    text = resources.files("rscc").joinpath("data", "papers.toml").read_text(encoding="utf-8")
    table = tomllib.loads(text).get(dataset, {"rows": [], "split": ""})
    return [PaperRow(**row) for row in table["rows"]], table["split"]


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


_COLUMNS = (
    *("pairs", "BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "METEOR", "ROUGE-L", "CIDEr", "S*m"),
    *("flag acc.", "mask P", "mask R", "mask F1", "mask IoU"),
)


@dataclass(frozen=True)
class EvaluationReport:
    """All rows of one evaluation.

    Attributes:
        rows: the model first, then the baselines; each on all subsets that hold a pair.
        papers: rows of papers for the same data set, ``papers_split`` what they were measured on.
        run: command, data, split, counts, model, machine, date.
    """

    rows: Sequence[EvaluationRow]
    run: dict[str, Any]
    papers: Sequence[PaperRow] = ()
    papers_split: str = ""
    notes: Sequence[str] = field(default_factory=tuple)

    def row(self, name: str, subset: str) -> EvaluationRow:
        """Return one row.

        Raises:
            KeyError: there is none of that name and subset.
        """
        for row in self.rows:
            if (row.name, row.subset) == (name, subset):
                return row
        raise KeyError((name, subset))

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "run": self.run,
            "rows": [row.as_dict() for row in self.rows],
            "papers": {"split": self.papers_split, "rows": [vars(row) for row in self.papers]},
            "notes": self._all_notes(),
        }

    def as_text(self) -> str:
        """Return Markdown: one table per subset, then the papers' rows, then notes."""
        parts = [f"Data: {self.run.get('data', '')}, split {self.run.get('split', '')}"]
        for subset in SUBSETS:
            rows = [row for row in self.rows if row.subset == subset]
            if rows:
                table = _table((f"{subset} pairs", *_COLUMNS), [_cells(row) for row in rows])
                parts.append(table)
        if self.papers:
            cells = [
                [_method(row), *(_percent(v) for v in _paper_values(row)), row.source] for row in self.papers
            ]
            own = next((row for row in self.rows if row.subset == "all"), None)
            if own is not None:
                values = (own.captions.bleu4, own.captions.meteor, own.captions.rouge_l, own.captions.cider)
                where = f"this run, {own.captions.count} pairs"
                cells.insert(0, [own.name, *(_percent(value) for value in values), where])
            parts.append(_table(("beside papers", "BLEU-4", "METEOR", "ROUGE-L", "CIDEr", "source"), cells))
            parts.append(f"Papers: {self.papers_split}. Scores on other pairs cannot be compared one to one.")
        parts.extend(f"Note: {note}." for note in self._all_notes())
        return "\n\n".join(parts)

    def _all_notes(self) -> list[str]:
        """Return the notes of the model's rows, each once, with the subsets it is about."""
        own = [row for row in self.rows if row.name == self.rows[0].name]
        about: dict[str, list[str]] = {}
        for row in own:
            for note in row.captions.notes:
                about.setdefault(note, []).append(row.subset)
        told = [
            note if len(subsets) == len(own) else f"{' and '.join(subsets)} pairs: {note}"
            for note, subsets in about.items()
        ]
        return [*self.notes, *told]


def _method(row: PaperRow) -> str:
    return f"{row.method} ({row.venue})" if row.venue else row.method


def _paper_values(row: PaperRow) -> tuple[float, ...]:
    return (row.bleu4, row.meteor, row.rouge_l, row.cider)


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


def _unit(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _cells(row: EvaluationRow) -> list[str]:
    one, mask = row.captions, row.mask
    values = (one.bleu1, one.bleu2, one.bleu3, one.bleu4, one.meteor, one.rouge_l, one.cider, one.s_m)
    shares = (row.flag_accuracy, *((mask.precision, mask.recall, mask.f1, mask.iou) if mask else (None,) * 4))
    return [row.name, str(one.count), *(_percent(v) for v in values), *(_unit(v) for v in shares)]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(line[column]) for line in (head, *rows)) for column in range(len(head))]

    def draw(line: Sequence[str]) -> str:
        padded = [line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True))]
        return f"| {' | '.join(padded)} |"

    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join(draw(line) for line in (head, rule, *rows))

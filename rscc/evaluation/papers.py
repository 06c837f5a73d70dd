"""The rows of the papers' own tables, and one of our rows among them, with what keeps the two apart."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from typing import TYPE_CHECKING, Any

from rscc.markdown import percent, table

if TYPE_CHECKING:
    from rscc.evaluation.rows import EvaluationRow

METRICS = {"bleu4": "BLEU-4", "meteor": "METEOR", "rouge_l": "ROUGE-L", "cider": "CIDEr", "spice": "SPICE"}
"""The metrics of the papers' tables by the key of ours."""

_SORTED_BY = ("cider", "meteor", "bleu4")


@dataclass(frozen=True)
class PaperRow:
    """Scores of one method on one subset as a paper prints them.

    Attributes:
        method, venue: whose they are.
        subset: of the pairs, as in :class:`~rscc.evaluation.rows.EvaluationRow`.
        scores: metric (a key of :data:`METRICS`) to percent; what the paper leaves blank is absent.
        sources: paper and table, more than one when several papers print these numbers.
        note: what sets the method apart (further data, a large language model ...).
        decoding: how its words were searched for; empty where its own paper does not say so or was not read.
    """

    method: str
    venue: str
    subset: str
    scores: Mapping[str, float]
    sources: tuple[str, ...]
    note: str = ""
    decoding: str = ""

    def agrees(self, other: PaperRow) -> bool:
        """Return whether both may be one line: the same method and subset, and no number in dispute."""
        shared = self.scores.keys() & other.scores.keys()
        same = (self.method, self.subset) == (other.method, other.subset)
        return same and all(self.scores[metric] == other.scores[metric] for metric in shared)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "method": self.method,
            "venue": self.venue,
            "subset": self.subset,
            **self.scores,
            "sources": list(self.sources),
            "note": self.note,
            "decoding": self.decoding,
        }


@dataclass(frozen=True)
class PaperTables:
    """What papers print of one data set.

    Attributes:
        split: what they measured on, in words; empty when no paper reports the data set.
        pairs: number of pairs they scored by subset, as far as it is known.
        names: what they call a subset, where that differs from its key.
        rows: one per method, subset and printed table.
    """

    split: str = ""
    pairs: Mapping[str, int] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    rows: tuple[PaperRow, ...] = ()

    def merged(self, subset: str) -> list[PaperRow]:
        """Return the rows of a subset, those that agree made one with all their sources.

        A method about which papers disagree keeps a row per opinion.
        """
        lines: list[PaperRow] = []
        for row in self.rows:
            if row.subset != subset:
                continue
            for index, line in enumerate(lines):
                if line.agrees(row):
                    lines[index] = replace(
                        line,
                        scores={**line.scores, **row.scores},
                        sources=(*line.sources, *row.sources),
                        note=max(line.note, row.note, key=len),
                    )
                    break
            else:
                lines.append(row)
        return lines


def paper_tables(dataset: str) -> PaperTables:
    """Return what papers print of a data set; empty for one that none of them reports."""
    text = resources.files("rscc").joinpath("data", "papers.toml").read_text(encoding="utf-8")
    content = tomllib.loads(text)
    venues: dict[str, str] = content.pop("venues")
    decoding: dict[str, str] = content.pop("decoding")
    tables = content.get(dataset)
    if tables is None:
        return PaperTables()
    rows = [
        PaperRow(
            method=line["method"],
            venue=venues.get(line["method"], ""),
            subset=subset,
            scores=scores,
            sources=(printed["source"],),
            note=line.get("note", ""),
            decoding=decoding.get(line["method"], ""),
        )
        for printed in tables["tables"]
        for line in printed["rows"]
        for subset, scores in _scores(printed, line)
    ]
    return PaperTables(tables["split"], tables.get("pairs", {}), tables.get("names", {}), tuple(rows))


def _scores(printed: dict[str, Any], line: dict[str, Any]) -> list[tuple[str, dict[str, float]]]:
    """Return (subset, scores) of one line of one printed table."""
    numbers = {key: value for key, value in line.items() if isinstance(value, float)}
    if "metric" in printed:
        return [(subset, {printed["metric"]: value}) for subset, value in numbers.items()]
    return [(printed.get("subset", "all"), numbers)]


def search_name(beams: int, support: int = 0) -> str:
    """Return what a search for words of this width is called, and by what else than likelihood it chooses."""
    if beams == 1:
        return "greedy"
    wide = f"beam of {max(beams, support)}"
    return f"{wide}, by support" if support else wide


def comparison(row: EvaluationRow, papers: PaperTables, *, title: str, ours: str, decoding: str) -> str:
    """Return Markdown: our row among the papers' rows of its subset, best CIDEr first, and what to mind.

    Args:
        row: our model's.
        papers: of the same data set.
        title: what the subset is called.
        ours: split and data of our row, in words.
        decoding: how our words were searched for.
    """
    lines = papers.merged(row.subset)
    mine: Mapping[str, float | None] = {metric: getattr(row.captions, metric) for metric in METRICS}
    count = papers.pairs.get(row.subset)
    pairs = "–" if count is None else str(count)
    ranked = [(mine, (f"> {row.name}", str(row.captions.count), decoding), "this run")]
    ranked += [
        (line.scores, (_method(line), pairs, line.decoding or "–"), "; ".join(line.sources)) for line in lines
    ]
    ranked.sort(key=lambda one: _rank(one[0]), reverse=True)
    used = [metric for metric in METRICS if any(scores.get(metric) is not None for scores, *_ in ranked)]
    cells = [
        (*first, *(percent(scores.get(metric)) for metric in used), source)
        for scores, first, source in ranked
    ]
    head = (f"compared: {title}", "pairs", "decoding", *(METRICS[metric] for metric in used), "source")
    return "\n\n".join([table(head, cells), _caution(row, lines, count, papers.split, ours)])


def _rank(scores: Mapping[str, float | None]) -> tuple[float, ...]:
    return tuple(-1.0 if (value := scores.get(metric)) is None else value for metric in _SORTED_BY)


def _method(row: PaperRow) -> str:
    name = f"{row.method} ({row.venue})" if row.venue else row.method
    return f"{name}, {row.note}" if row.note else name


def _caution(
    row: EvaluationRow, lines: Sequence[PaperRow], count: int | None, papers_split: str, ours: str
) -> str:
    pairs = row.captions.count
    sentences = [f"Ours: {pairs} pairs, {ours}. Papers: {papers_split}."]
    if count is None:
        sentences.append("How many pairs a paper scored here is not known: an orientation, no ranking.")
    elif count != pairs:
        sentences.append("Other pairs than the papers': an orientation, no ranking.")
    else:
        sentences.append("As many pairs as the papers score; that they are the same is for the data to show.")
    methods = [line.method for line in lines]
    disputed = sorted({method for method in methods if methods.count(method) > 1})
    if disputed:
        sentences.append(f"Papers print different numbers of {', '.join(disputed)}: a line for each.")
    return " ".join(sentences)

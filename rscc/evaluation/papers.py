"""The rows of the papers' own tables, and one of our rows among them with what keeps the two apart."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib import resources
from typing import TYPE_CHECKING, Any

from rscc.evaluation.markdown import percent, table

if TYPE_CHECKING:
    from rscc.evaluation.score_rows import EvaluationRow

METRICS = {"bleu4": "BLEU-4", "meteor": "METEOR", "rouge_l": "ROUGE-L", "cider": "CIDEr", "spice": "SPICE"}
"""The metrics of the papers' tables by the key of ours."""

_SORTED_BY = ("cider", "meteor", "bleu4")


@dataclass(frozen=True)
class PaperRow:
    """Scores of one method on one subset as a paper prints them.

    Attributes:
        subset: of the pairs, as in :class:`~rscc.evaluation.score_rows.EvaluationRow`.
        scores: metric (a key of :data:`METRICS`) to percent; a metric that the paper leaves blank is absent.
        sources: paper and table; several if several papers print these numbers.
        note: what sets the method apart (further data, a large language model ...).
        decoding: how its words were searched for; empty if its own paper does not say so or was not read.
    """

    method: str
    venue: str
    subset: str
    scores: Mapping[str, float]
    sources: tuple[str, ...]
    note: str = ""
    decoding: str = ""

    @property
    def title(self) -> str:
        """Method, venue and note in one cell."""
        name = f"{self.method} ({self.venue})" if self.venue else self.method
        return f"{name}, {self.note}" if self.note else name

    def agrees(self, other: PaperRow) -> bool:
        """Return whether both can be merged: the same method and subset, and no differing number."""
        shared = self.scores.keys() & other.scores.keys()
        same = (self.method, self.subset) == (other.method, other.subset)
        return same and all(self.scores[metric] == other.scores[metric] for metric in shared)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        content = asdict(self)
        scores = content.pop("scores")
        return {**content, **scores}


@dataclass(frozen=True)
class PaperTables:
    """What papers print of one data set.

    Attributes:
        split: the pairs they measured on, in words; empty if no paper reports the data set.
        pairs: number of pairs they scored by subset, as far as known.
        names: their names of subsets, where these differ from the key.
        rows: one per method, subset and printed table.
    """

    split: str = ""
    pairs: Mapping[str, int] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    rows: tuple[PaperRow, ...] = ()

    def merged(self, subset: str) -> list[PaperRow]:
        """Return the rows of a subset; rows that agree become one row with all their sources."""
        merged: list[PaperRow] = []
        for row in (row for row in self.rows if row.subset == subset):
            index = next((i for i, other in enumerate(merged) if other.agrees(row)), None)
            if index is None:
                merged.append(row)
                continue
            other = merged[index]
            merged[index] = replace(
                other,
                scores={**other.scores, **row.scores},
                sources=(*other.sources, *row.sources),
                note=max(other.note, row.note, key=len),
            )
        return merged


def paper_tables(dataset: str) -> PaperTables:
    """Return what papers print of a data set; empty if none of them reports it."""
    text = resources.files("rscc").joinpath("data", "papers.toml").read_text(encoding="utf-8")
    content = tomllib.loads(text)
    tables = content.get(dataset)
    if tables is None:
        return PaperTables()
    rows = [
        PaperRow(
            method=line["method"],
            venue=content["venues"].get(line["method"], ""),
            subset=subset,
            scores=scores,
            sources=(printed["source"],),
            note=line.get("note", ""),
            decoding=content["decoding"].get(line["method"], ""),
        )
        for printed in tables["tables"]
        for line in printed["rows"]
        for subset, scores in _scores_by_subset(printed, line)
    ]
    return PaperTables(tables["split"], tables.get("pairs", {}), tables.get("names", {}), tuple(rows))


def _scores_by_subset(printed: dict[str, Any], line: dict[str, Any]) -> list[tuple[str, dict[str, float]]]:
    numbers = {key: value for key, value in line.items() if isinstance(value, float)}
    if "metric" in printed:
        return [(subset, {printed["metric"]: value}) for subset, value in numbers.items()]
    return [(printed.get("subset", "all"), numbers)]


def search_name(beams: int, support: int = 0) -> str:
    """Return the name of a caption search of this width, and what else than likelihood it chooses by."""
    if beams == 1:
        return "greedy"
    name = f"beam of {max(beams, support)}"
    return f"{name}, by support" if support else name


def comparison(row: EvaluationRow, papers: PaperTables, *, title: str, ours: str, decoding: str) -> str:
    """Return Markdown: our row among the papers' rows of its subset, best CIDEr first, and a caution.

    ``ours`` says split and data of our row, ``decoding`` how its words were searched for.
    """
    paper_rows = papers.merged(row.subset)
    mine: Mapping[str, float | None] = {metric: getattr(row.captions, metric) for metric in METRICS}
    count = papers.pairs.get(row.subset)
    pairs = "–" if count is None else str(count)
    ranked = [(mine, (f"> {row.name}", str(row.captions.count), decoding), "this run")]
    ranked += [
        (other.scores, (other.title, pairs, other.decoding or "–"), "; ".join(other.sources))
        for other in paper_rows
    ]
    ranked.sort(key=lambda line: _rank(line[0]), reverse=True)
    used = [metric for metric in METRICS if any(scores.get(metric) is not None for scores, *_ in ranked)]
    cells = [
        (*first, *(percent(scores.get(metric)) for metric in used), source)
        for scores, first, source in ranked
    ]
    head = (f"compared: {title}", "pairs", "decoding", *(METRICS[metric] for metric in used), "source")
    return "\n\n".join([table(head, cells), _caution(row, paper_rows, count, papers.split, ours)])


def _rank(scores: Mapping[str, float | None]) -> tuple[float, ...]:
    return tuple(-1.0 if (value := scores.get(metric)) is None else value for metric in _SORTED_BY)


def _caution(
    row: EvaluationRow, paper_rows: Sequence[PaperRow], count: int | None, papers_split: str, ours: str
) -> str:
    pairs = row.captions.count
    sentences = [f"Ours: {pairs} pairs, {ours}. Papers: {papers_split}."]
    if count is None:
        sentences.append("How many pairs a paper scored here is not known: an orientation, no ranking.")
    elif count != pairs:
        sentences.append("Other pairs than the papers': an orientation, no ranking.")
    else:
        sentences.append("As many pairs as the papers score; whether they are the same depends on the data.")
    methods = [other.method for other in paper_rows]
    disputed = sorted({method for method in methods if methods.count(method) > 1})
    if disputed:
        sentences.append(f"Papers print different numbers of {', '.join(disputed)}: a line for each.")
    return " ".join(sentences)

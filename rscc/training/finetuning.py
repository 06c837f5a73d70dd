"""Fine-tuning: compare the tuned model with its start, keep the better one, train fact heads further."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from rscc.data.pairs import PairRecord, truly_changed
from rscc.evaluation.bootstrap import Interval, Resamples, percentile_interval
from rscc.evaluation.evaluate import score_model
from rscc.evaluation.markdown import percent, table, unit
from rscc.evaluation.score_rows import EvaluationRow
from rscc.facts.fact_model import FactModel
from rscc.files import atomic_write
from rscc.model_card import ModelCard
from rscc.model_folder import ModelFolder, load_facts, load_model, open_model_folder
from rscc.sequences import evenly
from rscc.training.model_export import fit_facts_and_roads, save_with_facts
from rscc.training.training_run import Run

MAX_COMPARED = 250
"""Validation pairs that two models are compared on; of more, every k-th is taken."""

_WITH_FACTS = "the start with retrained facts"
_WITH_ROADS = "the start with a new road head; these pairs did not improve its facts"


@dataclass(frozen=True)
class Comparison:
    """Scores of two models on the same pairs.

    Attributes:
        table: CIDEr of all and of changed pairs, accuracy of the flag, BLEU-4, as Markdown.
        gain: 95 percent interval of the gain in CIDEr of all pairs, by the bootstrap over pairs.
        gain_changed: the same for changed pairs.
    """

    table: str
    gain: Interval
    gain_changed: Interval

    @property
    def is_significantly_better(self) -> bool:
        """Whether the second model is significantly better, and not significantly worse on changed pairs."""
        return self.gain[0] > 0 and self.gain_changed[1] >= 0

    @property
    def is_significantly_worse(self) -> bool:
        """Whether the second model is significantly worse, on all pairs or on changed ones."""
        return self.gain[1] < 0 or self.gain_changed[1] < 0

    @property
    def summary(self) -> str:
        """Both intervals in words."""
        gains = [f"{low:+.1f} to {high:+.1f}" for low, high in (self.gain, self.gain_changed)]
        return f"CIDEr gains {gains[0]}, on changed pairs {gains[1]} (95 %)"


def compare_scores(
    before: str | Path, after: str | Path, records: Sequence[PairRecord], *, device: str = "auto"
) -> Comparison:
    """Score two models (folder or name) as they are used, each with its own threshold, on the same pairs."""
    compared = evenly(records, MAX_COMPARED)
    old, new = (
        {row.subset: row for row in score_model(model, compared, device=device)} for model in (before, after)
    )
    changed = "all" if all(map(truly_changed, compared)) else "changed"  # equal subsets are scored once
    scores: tuple[tuple[str, Callable[[float | None], str], str, str], ...] = (
        ("CIDEr, all pairs", percent, "all", "cider"),
        ("CIDEr, changed pairs", percent, changed, "cider"),
        ("changed or not: accuracy", unit, "all", "flag_accuracy"),
        ("BLEU-4, all pairs", percent, "all", "bleu4"),
    )
    rows = [
        (title, shown(_value(old, subset, key)), shown(_value(new, subset, key)))
        for title, shown, subset, key in scores
    ]
    drawn = table((f"{len(compared)} validation pairs", "before", "after"), rows)
    return Comparison(drawn, _cider_gain(old, new, "all"), _cider_gain(old, new, changed))


def _cider_gain(old: dict[str, EvaluationRow], new: dict[str, EvaluationRow], subset: str) -> Interval:
    if subset not in old or "cider" not in old[subset].captions.per_pair:
        return (0.0, 0.0)
    before, after = (list(rows[subset].captions.per_pair["cider"].values()) for rows in (old, new))
    interval = percentile_interval(Resamples(len(before)).means(np.subtract(after, before)))
    assert interval is not None
    return interval


def _value(rows: dict[str, EvaluationRow], subset: str, key: str) -> float | None:
    return rows[subset].as_dict()[key] if subset in rows else None


def choose_better(run: Run, made: ModelFolder, val: Sequence[PairRecord]) -> ModelFolder:
    """Compare a tuned model with its start; with ``train.keep_start`` the start replaces a model no better.

    Unless the tuned model is significantly better, it moves to ``tuned`` beside ``model``. Retrained facts
    were validated on places that they did not learn from: the start takes them, unless the validation pairs
    contradict.
    """
    assert run.start is not None
    start = run.start.folder
    run.report("scores on the validation split, before and after:")
    comparison = compare_scores(start.path, made.path, val, device=run.device)
    run.report(comparison.table)
    if not run.config.train.keep_start:
        return made
    if comparison.is_significantly_better:
        run.report(f"{made.path}: the tuned model; {comparison.summary}")
        return made
    tuned = made.path.with_name("tuned")
    _copy_folder(made, tuned)
    reason = f"the tuned model, {tuned}, is not significantly better: {comparison.summary}; add more pairs"
    retrained = run.keeps_trunk and made.card.facts_sha256 != start.card.facts_sha256
    if retrained and (facts := load_facts(made)) is not None:
        card = _card_with_facts(start.card, made.card.data, made.card.name, made.card.version)
        with_facts = _write_with_facts(start, facts, card, made.path, val, run.device)
        if not with_facts.is_significantly_worse:
            run.report(f"{made.path}: {_WITH_FACTS}, {with_facts.summary}; {reason}")
            return open_model_folder(made.path)
    else:
        _copy_folder(start, made.path)
    run.report(f"{made.path}: the unchanged start, because {reason}")
    return open_model_folder(made.path)


def learn_facts(run: Run, train: Sequence[PairRecord], val: Sequence[PairRecord]) -> ModelFolder:
    """Train the fact heads of the start further and write the start with them; its captioner stays.

    New facts are used if they make fewer errors at places that they did not learn from, see
    :func:`~rscc.training.fact_training.fit_facts`, unless the validation pairs contradict.
    """
    assert run.start is not None
    config, start = run.config, run.start.folder
    model, known = load_model(start).to(run.device).eval(), load_facts(start)
    path = run.paths.output / "model"
    facts = fit_facts_and_roads(run, model, train, start.card, start=known)
    reason = "these pairs did not improve its facts; add more pairs, of more places"
    if facts is None or facts is known:
        _copy_folder(start, path)
    else:
        pairs = f"{config.data.name}: {len(train)} training and {len(val)} validation pairs"
        card = _card_with_facts(start.card, pairs, run.name, config.card.version)
        what = _WITH_FACTS
        if known is not None and facts.heads is known.heads:  # only the road head is new
            roads = f"Road head trained on {run.paths.roads}."
            card, what = replace(card, data=f"{start.card.data} {roads}"), _WITH_ROADS
        comparison = _write_with_facts(start, facts, card, path, val, run.device)
        run.report(f"scores on the validation split, before and after:\n{comparison.table}")
        if not comparison.is_significantly_worse:
            run.report(f"{path}: {what}, {comparison.summary}")
            return open_model_folder(path)
        reason = f"the new facts are significantly worse on the validation pairs, {comparison.summary}"
    run.report(f"{path}: the unchanged start, because {reason}")
    return open_model_folder(path)


def _card_with_facts(card: ModelCard, pairs: str, name: str, version: str) -> ModelCard:
    return replace(card, name=name, version=version, data=f"{card.data} Facts trained further on {pairs}.")


def _write_with_facts(
    start: ModelFolder,
    facts: FactModel,
    card: ModelCard,
    path: Path,
    val: Sequence[PairRecord],
    device: str,
) -> Comparison:
    """Write a start with new facts; if it is significantly worse with them, write the unchanged start."""
    save_with_facts(path, start, facts, card)
    comparison = compare_scores(start.path, path, val, device=device)
    if comparison.is_significantly_worse:
        _copy_folder(start, path)
    return comparison


def _copy_folder(folder: ModelFolder, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as (draft,):
        shutil.copytree(folder.path, draft)

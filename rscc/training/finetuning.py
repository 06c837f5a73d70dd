"""Fine-tuning on a user's own pairs: which pairs, facts that learn on, and scores before and after."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rscc.config import SENTENCES
from rscc.data.benchmarks.annotations import PairDataset
from rscc.data.pairs import PairRecord, truly_changed
from rscc.errors import DatasetLayoutInvalid, SplitMissing
from rscc.evaluation.bootstrap import Interval, Resamples, percentile_interval
from rscc.evaluation.rows import EvaluationRow
from rscc.evaluation.run import score_model
from rscc.files import atomic_write
from rscc.markdown import percent, table, unit
from rscc.model_folder import ModelCard, ModelFolder, load_facts, load_model, open_model_folder
from rscc.sequences import evenly
from rscc.training.finish import facts_and_roads, save_with_facts
from rscc.training.start import Run

if TYPE_CHECKING:
    from rscc.inference.facts import FactModel

LEAST_TRAINING_PAIRS = 10
LEAST_HELD_OUT = 10
HELD_OUT_SHARE = 0.2
MOST_COMPARED = 250
"""Validation pairs that the scores before and after are measured on; of more, every k-th is taken."""


def read_splits(
    reader: type[PairDataset], data: Path, *, trust: tuple[str, ...] = (), seed: int = 1
) -> tuple[list[PairRecord], list[PairRecord], bool]:
    """Read captioned training and validation pairs; without a validation split, hold out training pairs.

    Args:
        trust: see ``data.trust`` of a config.
        seed: of which pairs are held out.

    Returns:
        Training pairs, validation pairs, and whether those were held out.

    Raises:
        DatasetLayoutInvalid: either split is not in that layout, or too few pairs.
    """
    train = [record for record in reader(data, "train", trust=trust).records if record.captions]
    try:
        val = [record for record in reader(data, "val").records if record.captions]
    except SplitMissing:
        val = []
    held_out = not val
    needed = LEAST_TRAINING_PAIRS + (LEAST_HELD_OUT if held_out else 0)
    if len(train) < needed:
        more = f" and {LEAST_HELD_OUT} to hold out, for there is no split val" if held_out else ""
        raise DatasetLayoutInvalid(
            f"{data}: {len(train)} captioned training pairs; fine-tuning needs {LEAST_TRAINING_PAIRS}{more}"
        )
    if held_out:
        train, val = hold_out(train, seed=seed)
    return train, val, held_out


def hold_out(records: Sequence[PairRecord], *, seed: int) -> tuple[list[PairRecord], list[PairRecord]]:
    """Split off a fixed share of the pairs, at least :data:`LEAST_HELD_OUT`, of both flags alike.

    The same pairs and seed give the same split, in whatever order the pairs come.
    """
    count = max(LEAST_HELD_OUT, round(HELD_OUT_SHARE * len(records)))
    ordered = sorted(records, key=lambda record: record.id)
    shuffled = [ordered[i] for i in np.random.default_rng(seed).permutation(len(ordered))]
    shuffled.sort(key=truly_changed)
    places = (np.arange(count) + 0.5) * len(shuffled) / count
    chosen = {shuffled[int(place)].id for place in places}
    return (
        [record for record in records if record.id not in chosen],
        [record for record in records if record.id in chosen],
    )


def describe_pairs(
    train: Sequence[PairRecord], val: Sequence[PairRecord], *, held_out: bool, learns_flag: bool
) -> list[str]:
    """Return the lines that say which pairs are learnt, which are validated, and what cannot be learnt."""
    origin = ", held out of the training split, for there is no split val" if held_out else ""
    lines = [f"pairs: {_counted(train)} for training; {_counted(val)} for validation{origin}"]
    kinds = {truly_changed(record) for record in train}
    if not learns_flag and len(kinds) == 1:
        only, other = ("changed", "unchanged") if kinds == {True} else ("unchanged", "changed")
        lines.append(
            f"warning: all training pairs are {only}: whether anything changed cannot be learnt; the model "
            f"will call nearly every pair {only}; add pairs that are {other}"
        )
    return lines


def doubts_about(start: ModelCard, records: Sequence[PairRecord]) -> list[str]:
    """Return the lines that say what pairs teach a start badly: another resolution, or words of maps."""
    low, high = start.gsd_range
    apart = sum(record.gsd is not None and not low <= record.gsd <= high for record in records)
    lines = []
    if apart:
        lines.append(
            f"warning: {apart} of {len(records)} training pairs are not of the {low:g} to {high:g} m per "
            f"pixel that {start.name} is meant for; start from another model, or resample them"
        )
    if start.sentences != "decoder":
        lines.append(
            f"warning: reports by {start.name} make their sentences of {SENTENCES[start.sentences]}: "
            "captions teach it the words of --no-ground only"
        )
    return lines


def _counted(records: Sequence[PairRecord]) -> str:
    changed = sum(map(truly_changed, records))
    return f"{len(records)} ({changed} changed, {len(records) - changed} unchanged)"


@dataclass(frozen=True)
class Comparison:
    """Two models on the same pairs.

    Attributes:
        table: CIDEr of all and of changed pairs, accuracy of the flag, BLEU-4.
        gain: 95 percent interval of what CIDEr of all pairs gains, by the bootstrap over pairs.
        gain_changed: the same of the changed pairs.
    """

    table: str
    gain: Interval
    gain_changed: Interval

    @property
    def surely_better(self) -> bool:
        """Whether the second model is better beyond chance, and not surely worse of changes."""
        return self.gain[0] > 0 and self.gain_changed[1] >= 0

    @property
    def surely_worse(self) -> bool:
        """Whether it is worse beyond chance, of all pairs or of those that changed."""
        return self.gain[1] < 0 or self.gain_changed[1] < 0


def keep_better(
    made: ModelFolder,
    start: ModelFolder,
    comparison: Comparison,
    val: Sequence[PairRecord],
    *,
    same_trunk: bool,
    device: str,
) -> str:
    """Leave a tuned model where it is if it is surely better than its start, else put the start there.

    The tuned one then lies beside it, in ``tuned``. What facts are told by was judged at places that it did
    not learn from: where that learnt on, the start gets it, unless the validation pairs speak against it.

    Args:
        made: the tuned model. start: that it began with. comparison: of the two.
        val: the validation pairs.
        same_trunk: whether trunk and change head are the start's, so that its facts can be exchanged.

    Returns:
        The line that says which of them it is.
    """
    told = _gains(comparison)
    if comparison.surely_better:
        return f"{made.path}: the tuned model; {told}"
    tuned = made.path.with_name("tuned")
    _put(made, tuned)
    why = f"for the tuned model, {tuned}, is not surely better: {told}; more pairs may tell"
    learnt_on = same_trunk and made.card.facts_sha256 != start.card.facts_sha256
    if learnt_on and (facts := load_facts(made)) is not None:
        card = _learnt_on(start.card, made.card.data, made.card.name, made.card.version)
        learnt = _put_with_facts(start, facts, card, made.path, val, device)
        if not learnt.surely_worse:
            return f"{made.path}: {_WITH_FACTS}, {_gains(learnt)}; {why}"
    else:
        _put(start, made.path)
    return f"{made.path}: the start as it was, {why}"


_WITH_FACTS = "the start with the facts that it learnt on"
_WITH_ROADS = "the start with a new road head; its facts learn nothing better from these pairs"


def learn_facts(
    run: Run, start: ModelFolder, train: Sequence[PairRecord], val: Sequence[PairRecord]
) -> ModelFolder:
    """Let what a start tells facts by learn on, and write the start with it; its captioner stays as it is.

    It is taken where it makes fewer errors at places that it did not learn from, see
    :func:`~rscc.training.facts.fit_facts`, unless the validation pairs speak against it.

    Args:
        run: what is asked for; told are the table of that comparison, and in the end which of them it is.
        start: a model that tells facts.
        train, val: pairs to learn from, and others to compare start and result on.
    """
    config, report = run.config, run.report
    model, known = load_model(start).to(run.device).eval(), load_facts(start)
    made = run.paths.output / "model"
    facts = facts_and_roads(run, model, train, start.card, start=known)
    why = "its facts learn nothing better from these pairs; more pairs, of more places, may tell"
    if facts is None or facts is known:
        _put(start, made)
    else:
        pairs = f"{config.data.name}: {len(train)} training and {len(val)} validation pairs"
        card = _learnt_on(start.card, pairs, run.name, config.card.version)
        told = _WITH_FACTS
        if known is not None and facts.heads is known.heads:  # they learnt nothing better, but roads did
            roads = f"Road head learnt from {run.paths.roads}."
            card, told = replace(card, data=f"{start.card.data} {roads}"), _WITH_ROADS
        comparison = _put_with_facts(start, facts, card, made, val, run.device)
        report(f"scores on the validation split, before and after:\n{comparison.table}")
        if not comparison.surely_worse:
            report(f"{made}: {told}, {_gains(comparison)}")
            return open_model_folder(made)
        why = f"the validation pairs speak against what it learnt, {_gains(comparison)}"
    report(f"{made}: the start as it was: {why}")
    return open_model_folder(made)


def _learnt_on(card: ModelCard, pairs: str, name: str, version: str) -> ModelCard:
    """Return the card of a start whose facts learnt on from some pairs."""
    return replace(card, name=name, version=version, data=f"{card.data} Facts learnt on from {pairs}.")


def _put_with_facts(
    start: ModelFolder,
    facts: FactModel,
    card: ModelCard,
    path: Path,
    val: Sequence[PairRecord],
    device: str,
) -> Comparison:
    """Write a start with the facts that it learnt on, and as it was where it is surely worse with them."""
    save_with_facts(path, start, facts, card)
    comparison = compare_scores(start.path, path, val, device=device)
    if comparison.surely_worse:
        _put(start, path)
    return comparison


def _put(folder: ModelFolder, path: Path) -> None:
    with atomic_write(path, alone=True) as (draft,):
        shutil.copytree(folder.path, draft)


def _gains(comparison: Comparison) -> str:
    gains = [f"{low:+.1f} to {high:+.1f}" for low, high in (comparison.gain, comparison.gain_changed)]
    return f"CIDEr gains {gains[0]}, of changed pairs {gains[1]} (95 %)"


def compare_scores(
    before: str | Path, after: str | Path, records: Sequence[PairRecord], *, device: str = "auto"
) -> Comparison:
    """Score two models, by folder or name, as they are used, each with its own threshold, on the same pairs.

    Raises:
        ModelFolderInvalid: a folder is damaged.
        DatasetLayoutInvalid: an image cannot be read.
    """
    compared = evenly(records, MOST_COMPARED)
    old, new = (
        {row.subset: row for row in score_model(model, compared, device=device)} for model in (before, after)
    )
    changed = "all" if all(map(truly_changed, compared)) else "changed"  # the same pairs are scored once
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
    return Comparison(drawn, _gain(old, new, "all"), _gain(old, new, changed))


def _gain(old: dict[str, EvaluationRow], new: dict[str, EvaluationRow], subset: str) -> Interval:
    """Return what CIDEr gains, from and to 0 where the subset has none."""
    if subset not in old or "cider" not in old[subset].captions.per_pair:
        return (0.0, 0.0)
    before, after = (list(rows[subset].captions.per_pair["cider"].values()) for rows in (old, new))
    interval = percentile_interval(Resamples(len(before)).means(np.subtract(after, before)))
    assert interval is not None
    return interval


def _value(rows: dict[str, EvaluationRow], subset: str, key: str) -> float | None:
    return rows[subset].as_dict()[key] if subset in rows else None

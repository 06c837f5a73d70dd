"""Learns facts of changes on a frozen trunk: the heads, their calibration, and what people say.

The labels are what at least two references of a pair state (:mod:`rscc.text.statements`), or its only one.
Everything that is measured here, the calibration, the scores of the card and the logits that the phrasing
learns from, is of pairs whose place the heads did not learn from: the places are dealt into folds, and each
fold is answered by heads that were fitted on the others. The heads that are stored are fitted on all.

Where a start on the same trunk tells facts already, its heads, their calibration and its phrasing learn on,
which takes far fewer pairs.
"""

from __future__ import annotations

import copy
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from rscc.data.labels import LabelledPair
from rscc.data.pairs import PairRecord, truly_changed
from rscc.evaluation.bootstrap import Resamples, percentile_interval
from rscc.inference.fact_heads import (
    ANSWERS,
    AROUND,
    CHANGING,
    GROUND,
    REDUCED,
    FactHeads,
    FactRules,
    change_cells,
    pooled,
    region_logits,
)
from rscc.inference.facts import FactModel, counted, measurements, stated_logits
from rscc.models.shared.blocks import enlarge_maps
from rscc.models.shared.captioner import ChangeCaptioner
from rscc.text.object_classes import named_objects
from rscc.text.phrasing import adapt_phrasing, fit_phrasing
from rscc.text.sentences import grammar_words
from rscc.text.statements import agreed, read_statement
from rscc.training.calibration import area_under_curve, fit_logistic, moved
from rscc.training.heads import fit_head
from rscc.training.validation import encoded_batches

FOLDS, EPOCHS, SMOOTHING = 3, 36, 0.04
ADAPTING = {"epochs": 15, "rate": 3e-4}
"""How heads of a start learn on."""
FEWEST_PAIRS, FEWEST_ADAPTED = 200, 20
"""Changed pairs with captions from which facts are learnt, anew and from a start that tells them."""
FEWEST_LABELS = 20
"""Pairs that an answer is true of, at least, for it to be calibrated and stated."""
LEAST_RIGHT, LEAST_F1 = 2 / 3, 0.4
"""Share that is right of what is stated at held-out places, and F1 there, from which an answer is stated at
all: of what came and what is gone, the better one's.
"""
_WHITENED, _STEP = 200, 5
_TWINS = [(n, n + len(CHANGING)) for n in range(len(CHANGING))]
# The answers that share their calibration, by the number of each of all.
_ALIKE = [*_TWINS, *_TWINS, *((2 * len(CHANGING) + n,) for n in range(len(AROUND)))]
_FIRST_AROUND = len(ANSWERS) - len(AROUND)


@dataclass(frozen=True)
class Seen:
    """What a frozen model sees of N pairs.

    Attributes:
        maps: (N, 2, P, reduced) float16, both dates.
        cells: (N, P, 2), see :func:`rscc.inference.fact_heads.change_cells`.
        masks: (N, H, W) bool.
    """

    maps: Tensor
    cells: Tensor
    masks: np.ndarray


def fit_facts(
    model: ChangeCaptioner,
    records: Sequence[PairRecord],
    *,
    size: int,
    threshold: float,
    bf16: bool = True,
    seed: int = 1,
    start: FactModel | None = None,
    labelled: Sequence[LabelledPair] = (),
    report: Callable[[str], None] = lambda line: None,
) -> FactModel | None:
    """Learn facts from captioned pairs; the model stays as it is.

    Args:
        model: with a trained change head.
        records: pairs; those without captions are left out.
        size: side of the model's input in pixels.
        threshold: change probability from which a pixel is changed.
        start: what a start on the same trunk knows, and learns on from; it stays as it was unless that makes
            fewer errors at places that neither heads nor calibration learnt from.
        labelled: further pairs, of other places, from which the heads alone learn.

    Returns:
        The start where there are too few changed pairs to learn from, or all are of one place.

    Raises:
        ExtraNotInstalled, WeightsNotFound: the parser that reads captions is not installed.
    """
    records = [record for record in records if record.captions]
    changed = np.array([truly_changed(record) for record in records])
    folds = np.array([zlib.crc32((record.place or record.id).encode()) % FOLDS for record in records])
    fewest = FEWEST_PAIRS if start is None else FEWEST_ADAPTED
    if changed.sum() < fewest or len(set(folds.tolist())) < 2:
        report(
            f"facts: {int(changed.sum())} changed pairs; {fewest} at several places are needed to learn them"
        )
        return start
    labels = fact_labels(records)
    taught = torch.from_numpy(np.concatenate([labels, labelled_facts(labelled)]))
    everything, further = np.arange(len(records)), np.arange(len(records), len(taught))
    if start is None:
        heads, fit = _whitened(model, records, size=size, bf16=bf16, seed=seed), _fit
    else:
        heads, fit = start.heads, _fit_on
    seen = _look(model, heads, [*records, *(pair.record for pair in labelled)], size, threshold, bf16)
    report(f"facts: {len(taught)} pairs seen")
    logits, stated = np.zeros((2, *labels.shape), np.float32)
    for fold in sorted(set(folds.tolist())):
        held, others = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
        fitted = fit(heads, seen, taught, np.concatenate([others, further]), seed)
        logits[held], stated[held] = _answers(fitted, seen, held)
        report(f"facts: fold {fold + 1} of {FOLDS} answered")
    if start is None:
        rules = calibrated_rules(stated, labels, changed)
    else:
        rules = adapted_rules(start.rules, stated, labels, changed)
        before = errors(start.rules, _answers(start.heads, seen, everything)[1], labels)[changed]
        after = _errors_apart(start, stated, labels, changed, folds)[changed]
        gain = percentile_interval(Resamples(len(before)).means(before - after)) or (0.0, 0.0)
        report(
            f"facts: {before.mean():.2f} -> {after.mean():.2f} errors in a changed pair of places not learnt "
            f"from (fewer by {gain[0]:.2f} to {gain[1]:.2f}, 95 %)"
        )
        if after.mean() >= before.mean():
            return start
    found = ((logits[i], *counted(seen.masks[i])) for i in np.flatnonzero(changed))
    measured = np.stack([measurements(told, outlines, len(sizes)) for told, outlines, sizes in found])
    said = [records[i].captions for i in np.flatnonzero(changed)]
    if start is None or start.phrasing is None:
        phrasing = fit_phrasing(measured, said, grammar_words())
    else:
        phrasing = adapt_phrasing(start.phrasing, measured, said)
    roads = None if start is None else start.roads
    return FactModel(fit(heads, seen, taught, np.arange(len(taught)), seed), rules, phrasing, roads)


def errors(rules: FactRules, logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return how many answers of each pair are stated and false, or true and not stated, (N,).

    Args:
        logits, labels: (N, len(ANSWERS)).
    """
    stated = (rules.calibrated(logits) >= np.array(rules.sure)) & (np.array(rules.slopes) != 0)
    wrong: np.ndarray = (stated != (labels > 0)).sum(1).astype(np.float64)
    return wrong


def fact_labels(records: Sequence[PairRecord]) -> np.ndarray:
    """Return (N, len(ANSWERS)) float32 in {0, 1}: what two references of each pair state, or its only one."""
    names = iter(named_objects(caption for record in records for caption in record.captions))
    labels = np.zeros((len(records), len(ANSWERS)), np.float32)
    for row, record in zip(labels, records, strict=True):
        least = min(2, len(record.captions))
        named = agreed([next(names).classes for _ in record.captions], least)
        if not truly_changed(record):
            continue
        statements = [read_statement(caption) for caption in record.captions]
        came, gone = (agreed([getattr(one, way) for one in statements], least) for way in ("came", "gone"))
        row[:] = _answers_true(came, gone, named)
    return labels


def labelled_facts(pairs: Sequence[LabelledPair]) -> np.ndarray:
    """Return (N, len(ANSWERS)) float32 in 0..1: the share of its readers who say so of each labelled pair."""
    labels = np.zeros((len(pairs), len(ANSWERS)), np.float32)
    for row, pair in zip(labels, pairs, strict=True):
        row[:] = np.mean([_answers_true(one.came, one.gone, one.named) for one in pair.readings], axis=0)
    return labels


def _answers_true(came: Collection[str], gone: Collection[str], named: Collection[str]) -> list[bool]:
    return [
        *(name in came for name in CHANGING),
        *(name in gone for name in CHANGING),
        *(name in named for name in AROUND),
    ]


def calibrated_rules(logits: np.ndarray, labels: np.ndarray, changed: np.ndarray) -> FactRules:
    """Fit the calibration of every answer to held-out logits (N, len(ANSWERS)), and score them.

    What came and what is gone are one answer of the same head, with time running forwards and backwards: they
    have one calibration, fitted to both, so that a removal is as easily stated as its opposite.

    Args:
        labels: (N, len(ANSWERS)) in {0, 1}. changed: (N,) bool, the pairs that are scored.
    """
    fits = [
        _calibration(logits[:, alike].reshape(-1, 1), labels[:, alike].ravel()) or (0.0, 0.0)
        for alike in _ALIKE
    ]
    slopes, offsets = zip(*fits, strict=True)
    rules = FactRules(slopes, offsets, around=_around(fits, logits[changed], labels[changed]))
    rules = _scored(rules, logits[changed], labels[changed] > 0)
    known = [
        name in rules.scores
        and rules.scores[name]["right"] >= LEAST_RIGHT
        and rules.scores[name]["f1"] >= LEAST_F1
        for name in ANSWERS
    ]
    stated = (any(known[i] for i in alike) for alike in _ALIKE)
    return replace(rules, slopes=tuple(s if known else 0.0 for s, known in zip(slopes, stated, strict=True)))


def _calibration(logits: np.ndarray, labels: np.ndarray, *, least: float = 0.0) -> tuple[float, ...] | None:
    """Return slopes, of at least ``least``, and offset of logits (N, F); None for too few labels (N,)."""
    label = labels > 0
    if not FEWEST_LABELS <= label.sum() < len(label):
        return None
    fitted = fit_logistic(logits, label, least=least)
    return (*map(float, fitted.slopes), fitted.offset)


def _around(
    fits: Sequence[tuple[float, ...]], logits: np.ndarray, labels: np.ndarray
) -> tuple[tuple[float, ...], ...]:
    """Return :attr:`FactRules.around` of changed pairs, with slopes and offsets for what they do not tell."""
    rows = np.zeros((len(AROUND), len(AROUND) + 1))
    for number, name in enumerate(AROUND):
        answer = _FIRST_AROUND + number
        rows[number, [number, -1]] = fits[answer]
        read = [AROUND.index(one) for one in (GROUND if name in GROUND else (name,))]
        columns, least = [_FIRST_AROUND + one for one in read], -np.inf if name in GROUND else 0.0
        fitted = _calibration(logits[:, columns], labels[:, answer], least=least)
        if fitted is not None:
            rows[number, [*read, -1]] = fitted
    return tuple(map(tuple, rows.tolist()))


def _errors_apart(
    start: FactModel, logits: np.ndarray, labels: np.ndarray, changed: np.ndarray, folds: np.ndarray
) -> np.ndarray:
    """Return the errors of each pair where the calibration, too, is of the other folds.

    Of few answers it fits those that it is made of: judged by these it would seem better than it is.
    """
    wrong = np.zeros(len(labels))
    for fold in set(folds.tolist()):
        held, others = folds == fold, folds != fold
        rules = adapted_rules(start.rules, logits[others], labels[others], changed[others])
        wrong[held] = errors(rules, logits[held], labels[held])
    return wrong


def adapted_rules(start: FactRules, logits: np.ndarray, labels: np.ndarray, changed: np.ndarray) -> FactRules:
    """Move the calibration of a start as far as a few answers ask for; arguments as :func:`calibrated_rules`.

    What the start never states is calibrated as if there were none.
    """
    new = calibrated_rules(logits, labels, changed)
    fits = list(zip(new.slopes, new.offsets, strict=True))
    for number, (slope, offset) in enumerate(zip(start.slopes, start.offsets, strict=True)):
        if slope:
            alike = _ALIKE[number]
            scale, shift = moved((slope * logits[:, alike] + offset).ravel(), labels[:, alike].ravel() > 0)
            fits[number] = (scale * slope, scale * offset + shift)
    slopes, offsets = zip(*fits, strict=True)
    around = list(new.around) if start.around else []
    told = start.calibrated_logits(logits[changed])
    for row, (*weights, offset) in enumerate(start.around):
        answer = _FIRST_AROUND + row
        if start.slopes[answer]:
            scale, shift = moved(told[:, answer], labels[changed, answer] > 0)
            around[row] = (*(scale * weight for weight in weights), scale * offset + shift)
    rules = FactRules(slopes, offsets, start.sure, around=tuple(around))
    return _scored(rules, logits[changed], labels[changed] > 0)


def _scored(rules: FactRules, logits: np.ndarray, labels: np.ndarray) -> FactRules:
    """Return rules with their scores, of the answers that are known, on logits (N, len(ANSWERS))."""
    scores: dict[str, dict[str, float]] = {}
    told = rules.calibrated(logits)
    for name, column, true, slope, sure in zip(
        ANSWERS, told.T, labels.T, rules.slopes, rules.sure, strict=True
    ):
        if slope:
            stated = column >= sure
            right = (stated & true).sum()
            f1 = 2 * right / max(1, stated.sum() + true.sum())
            scores[name] = {
                "pairs": int(true.sum()),
                "auc": round(area_under_curve(column, true), 4),
                "f1": round(float(f1), 4),
                "stated": int(stated.sum()),
                "right": round(float(right / max(1, stated.sum())), 4),
            }
    return replace(rules, scores=scores)


def _maps(
    model: ChangeCaptioner, records: Sequence[PairRecord], size: int, bf16: bool
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield the last maps of both dates (B, P, C) and the change probability (B, H, W)."""
    with torch.no_grad():
        for features in encoded_batches(model, records, size=size, bf16=bf16):
            view = features.pair
            assert features.change_logits is not None
            change = enlarge_maps(features.change_logits.float(), (size, size)).sigmoid()
            before, after = (
                m.float().flatten(2).transpose(1, 2) for m in (view.maps_before, view.maps_after)
            )
            yield before.cpu(), after.cpu(), change.cpu()


def _whitened(
    model: ChangeCaptioner, records: Sequence[PairRecord], *, size: int, bf16: bool, seed: int
) -> FactHeads:
    """Return heads that learnt nothing yet but to bring the trunk's channels down, from some of the pairs.

    Their first layer gives the principal components of the maps, each of unit variance.
    """
    torch.manual_seed(seed)
    channels = model.backbone.channels[-1]
    count = min(REDUCED, channels)
    heads = FactHeads(channels=channels, reduced=count)
    sample = np.random.default_rng(seed).permutation(len(records))[:_WHITENED]
    maps = _maps(model, [records[i] for i in sample], size, bf16)
    positions = torch.cat([m[:, ::_STEP].flatten(0, 1) for before, after, _ in maps for m in (before, after)])
    mean = positions.mean(0)
    values, vectors = torch.linalg.eigh(torch.cov((positions - mean).T))
    matrix = vectors[:, -count:] / values[-count:].clamp_min(1e-8).sqrt()  # (C, reduced)
    with torch.no_grad():
        heads.reduce.weight.copy_(matrix.T)
        heads.reduce.bias.copy_(-(mean @ matrix))
    return heads


def _look(
    model: ChangeCaptioner,
    heads: FactHeads,
    records: Sequence[PairRecord],
    size: int,
    threshold: float,
    bf16: bool,
) -> Seen:
    maps, cells, masks = [], [], []
    with torch.no_grad():
        for before, after, change in _maps(model, records, size, bf16):
            maps.append(torch.stack([heads.reduce(before), heads.reduce(after)], 1).half())
            side = round(before.shape[1] ** 0.5)
            cells.append(change_cells(change, (side, side)))
            masks.append((change >= threshold).numpy())
    return Seen(torch.cat(maps), torch.cat(cells), np.concatenate(masks))


def _positions(heads: FactHeads, seen: Seen, part: Tensor) -> Tensor:
    """Return the logits of all positions of some pairs, (B, P, len(ANSWERS))."""
    maps = seen.maps[part].float()
    return heads.positions(maps[:, 0], maps[:, 1], seen.cells[part])


def _fit(start: FactHeads, seen: Seen, labels: Tensor, members: np.ndarray, seed: int) -> FactHeads:
    """Return heads fitted on some of the pairs, anew but for the first layer."""
    torch.manual_seed(seed)
    heads = FactHeads(**start.sizes)
    heads.reduce.load_state_dict(start.reduce.state_dict())
    return _learnt(heads, seen, labels, members, seed, epochs=EPOCHS)


def _fit_on(start: FactHeads, seen: Seen, labels: Tensor, members: np.ndarray, seed: int) -> FactHeads:
    """Return heads that learnt on from others, on some of the pairs."""
    torch.manual_seed(seed)
    return _learnt(copy.deepcopy(start).train(), seen, labels, members, seed, **ADAPTING)


def _learnt(
    heads: FactHeads, seen: Seen, labels: Tensor, members: np.ndarray, seed: int, **how: Any
) -> FactHeads:
    heads.reduce.requires_grad_(False)

    def loss(part: Tensor) -> Tensor:
        soft = labels[part] * (1 - SMOOTHING) + SMOOTHING / 2
        positions = _positions(heads, seen, part)
        return F.binary_cross_entropy_with_logits(pooled(positions, torch.ones(positions.shape[:2])), soft)

    return fit_head(heads, members, loss, seed=seed, **how)


def _answers(heads: FactHeads, seen: Seen, members: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the logits of whole pictures, and what their facts are stated by, each (N, len(ANSWERS))."""
    parts = []
    with torch.no_grad():
        for part in torch.from_numpy(members).split(64):
            positions = _positions(heads, seen, part)
            side = round(positions.shape[1] ** 0.5)
            maps = positions.transpose(1, 2).unflatten(2, (side, side))
            masks = torch.from_numpy(seen.masks[part.numpy()])
            parts.append([region_logits(maps, region).numpy() for region in (torch.ones_like(masks), masks)])
    whole, changed = (np.concatenate(several) for several in zip(*parts, strict=True))
    return whole, stated_logits(whole, changed)

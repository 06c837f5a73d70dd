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
from dataclasses import dataclass
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
from rscc.training.fact_rules import adapted_rules, calibrated_rules
from rscc.training.heads import fit_head
from rscc.training.validation import encoded_batches

FOLDS, EPOCHS, SMOOTHING = 3, 36, 0.04
ADAPTING = {"epochs": 15, "rate": 3e-4}
"""How heads of a start learn on."""
FEWEST_PAIRS, FEWEST_ADAPTED = 200, 20
"""Changed pairs with captions from which facts are learnt, anew and from a start that tells them."""
LEAST_TOLD = 0.5
"""Share of the changed pairs whose captions must state a fact: else they would teach to state nothing."""
_WHITENED, _STEP = 200, 5


@dataclass(frozen=True)
class Seen:
    """What a frozen model sees of N pairs.

    Attributes:
        maps: (N, 2, P, reduced) float16, both dates, on the model's device.
        cells: (N, P, 2), see :func:`rscc.inference.fact_heads.change_cells`, there too.
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
    """Learn facts from captioned pairs, on the device of the model; the model stays as it is.

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
        places = len({record.place or record.id for record in records})
        there = f"{int(changed.sum())} changed pairs of {places} place{'' if places == 1 else 's'}"
        report(f"facts: {there}; {fewest} of several places are needed to learn them")
        return start
    labels = fact_labels(records)
    told = labels[changed].any(1)
    if told.mean() < LEAST_TOLD:
        report(
            f"facts: captions of {int(told.sum())} of {len(told)} changed pairs state one, such as 'a house "
            "is built'; half of them must, in English"
        )
        return start
    device = next(model.parameters()).device
    taught = torch.from_numpy(np.concatenate([labels, labelled_facts(labelled)])).to(device)
    everything, further = np.arange(len(records)), np.arange(len(records), len(taught))
    if start is None:
        heads, fit = _whitened(model, records, size=size, bf16=bf16, seed=seed), _fit
    else:
        heads, fit = copy.deepcopy(start.heads).to(device), _fit_on
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
        before = errors(start.rules, _answers(heads, seen, everything)[1], labels)[changed]
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
    fitted = fit(heads, seen, taught, np.arange(len(taught)), seed).cpu()
    return FactModel(fitted, rules, phrasing, roads)


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
            yield before, after, change


def _whitened(
    model: ChangeCaptioner, records: Sequence[PairRecord], *, size: int, bf16: bool, seed: int
) -> FactHeads:
    """Return heads that learnt nothing yet but to bring the trunk's channels down, from some of the pairs.

    Their first layer gives the principal components of the maps, each of unit variance.
    """
    torch.manual_seed(seed)
    channels = model.backbone.channels[-1]
    count = min(REDUCED, channels)
    heads = FactHeads(channels=channels, reduced=count).to(next(model.parameters()).device)
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
            masks.append((change >= threshold).cpu().numpy())
    return Seen(torch.cat(maps), torch.cat(cells), np.concatenate(masks))


def _positions(heads: FactHeads, seen: Seen, part: Tensor) -> Tensor:
    """Return the logits of all positions of some pairs, (B, P, len(ANSWERS))."""
    maps = seen.maps[part].float()
    return heads.positions(maps[:, 0], maps[:, 1], seen.cells[part])


def _fit(start: FactHeads, seen: Seen, labels: Tensor, members: np.ndarray, seed: int) -> FactHeads:
    """Return heads fitted on some of the pairs, anew but for the first layer."""
    torch.manual_seed(seed)
    heads = FactHeads(**start.sizes).to(seen.maps.device)
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
        return F.binary_cross_entropy_with_logits(pooled(positions, torch.ones_like(positions[..., 0])), soft)

    return fit_head(heads, members, loss, seed=seed, **how)


def _answers(heads: FactHeads, seen: Seen, members: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the logits of whole pictures, and what their facts are stated by, each (N, len(ANSWERS))."""
    parts = []
    with torch.no_grad():
        for part in torch.from_numpy(members).split(64):
            positions = _positions(heads, seen, part)
            side = round(positions.shape[1] ** 0.5)
            maps = positions.transpose(1, 2).unflatten(2, (side, side))
            masks = torch.from_numpy(seen.masks[part.numpy()]).to(maps.device)
            regions = (torch.ones_like(masks), masks)
            parts.append([region_logits(maps, region).cpu().numpy() for region in regions])
    whole, changed = (np.concatenate(several) for several in zip(*parts, strict=True))
    return whole, stated_logits(whole, changed)

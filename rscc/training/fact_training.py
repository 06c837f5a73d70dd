"""Trains fact heads on a frozen trunk, with their calibration and phrasing.

Labels are facts that at least two references of a pair state (:mod:`rscc.text.statements`), or its only one.
Everything that is measured here, the calibration, the scores of the card and the logits for the phrasing, is
cross-validated over places: places are dealt into folds, and each fold is answered by heads that were fitted
on the others. The stored heads are fitted on all pairs.

If a start on the same trunk has facts already, its heads, calibration and phrasing are trained further, which
needs far fewer pairs.
"""

import copy
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from rscc.config import Config
from rscc.data.labels import LabelledPair
from rscc.data.pairs import PairRecord, truly_changed
from rscc.evaluation.bootstrap import Resamples, percentile_interval
from rscc.facts.answers import ANSWERS
from rscc.facts.fact_model import FactModel
from rscc.facts.grounded_captions import counted, measurements, stated_logits
from rscc.facts.heads import REDUCED, FactHeads, change_cells, pooled, region_logits
from rscc.facts.rules import FactRules
from rscc.models.shared.blocks import enlarge_maps
from rscc.models.shared.captioner import ChangeCaptioner
from rscc.text.phrasing import adapt_phrasing, fit_phrasing
from rscc.text.picture_sentences import grammar_words
from rscc.training.fact_calibration import adapted_rules, calibrated_rules
from rscc.training.head_training import fit_head
from rscc.training.training_data import fact_labels, labelled_facts
from rscc.training.training_run import Report
from rscc.training.validation import encoded_batches

FOLDS, EPOCHS, SMOOTHING = 3, 36, 0.04
ADAPTING: dict[str, Any] = {"epochs": 15, "rate": 3e-4}
"""How the heads of a start are trained further."""
FEWEST_PAIRS, FEWEST_ADAPTED = 200, 20
"""Changed pairs with captions that are needed, without and with a start that has facts."""
MIN_STATING_SHARE = 0.5
"""Share of the changed pairs whose captions must state a fact; otherwise heads would learn to state none."""
_WHITENING_PAIRS, _WHITENING_STEP = 200, 5


@dataclass(frozen=True)
class _HeadFitter:
    """Fits heads on some of the pairs.

    Attributes:
        initial: whitened heads, of which only the first layer is used, or trained heads of a start.
        adapts: whether ``initial`` is trained further.
        maps: (N, 2, P, reduced) float16, of both dates by the frozen trunk, on the model's device.
        cells: (N, P, 2), see :func:`rscc.facts.heads.change_cells`, on the same device.
        masks: (N, H, W) bool, the changed pixels by the change head.
        labels: (N, len(ANSWERS)) in 0..1, of all pairs.
    """

    initial: FactHeads
    adapts: bool
    maps: Tensor
    cells: Tensor
    masks: np.ndarray
    labels: Tensor
    seed: int

    def fit(self, members: np.ndarray) -> FactHeads:
        """Return heads fitted on the pairs of these numbers."""
        torch.manual_seed(self.seed)
        if self.adapts:
            heads, settings = copy.deepcopy(self.initial).train(), ADAPTING
        else:
            heads, settings = FactHeads(**self.initial.sizes).to(self.maps.device), {"epochs": EPOCHS}
            heads.reduce.load_state_dict(self.initial.reduce.state_dict())
        heads.reduce.requires_grad_(False)

        def loss(part: Tensor) -> Tensor:
            soft = self.labels[part] * (1 - SMOOTHING) + SMOOTHING / 2
            positions = self.position_logits(heads, part)
            logits = pooled(positions, torch.ones_like(positions[..., 0]))
            return F.binary_cross_entropy_with_logits(logits, soft)

        return fit_head(heads, members, loss, seed=self.seed, **settings)

    def position_logits(self, heads: FactHeads, part: Tensor) -> Tensor:
        """Return the logits of every position of the pairs of these numbers, (B, P, len(ANSWERS))."""
        maps = self.maps[part].float()
        return heads.positions(maps[:, 0], maps[:, 1], self.cells[part])


def fit_facts(
    model: ChangeCaptioner,
    records: Sequence[PairRecord],
    config: Config,
    *,
    threshold: float,
    start: FactModel | None = None,
    labelled: Sequence[LabelledPair] = (),
    report: Report = lambda line: None,
) -> FactModel | None:
    """Train facts on captioned pairs, on the device of the model; the model is not changed.

    Args:
        model: with a trained change head.
        records: pairs; those without captions are left out.
        config: gives ``data.size``, ``train.bf16`` and ``train.seed``.
        threshold: change probability from which a pixel is changed.
        start: facts on the same trunk that are trained further. They are returned unchanged unless the new
            ones make fewer errors at places that neither heads nor calibration learned from.
        labelled: further pairs, of other places; only the heads learn from them.

    Returns:
        ``start`` if there are too few changed pairs to learn from, or only one place.
    """
    records = [record for record in records if record.captions]
    changed = np.array([truly_changed(record) for record in records])
    folds = np.array([zlib.crc32((record.place or record.id).encode()) % FOLDS for record in records])
    fewest = FEWEST_PAIRS if start is None else FEWEST_ADAPTED
    if changed.sum() < fewest or len(set(folds.tolist())) < 2:
        places = len({record.place or record.id for record in records})
        report(
            f"facts: {int(changed.sum())} changed pairs of {places} place{'' if places == 1 else 's'}; "
            f"at least {fewest} of several places are needed"
        )
        return start
    labels = fact_labels(records)
    stating = labels[changed].any(1)
    if stating.mean() < MIN_STATING_SHARE:
        report(
            f"facts: captions of {int(stating.sum())} of {len(stating)} changed pairs state one, such as 'a "
            "house is built'; at least half of them must, in English"
        )
        return start
    initial = _whitened_heads(model, records, config) if start is None else copy.deepcopy(start.heads)
    initial = initial.to(next(model.parameters()).device)
    views = _view_pairs(model, initial, [*records, *(pair.record for pair in labelled)], config, threshold)
    targets = torch.from_numpy(np.concatenate([labels, labelled_facts(labelled)])).to(views[0].device)
    fitter = _HeadFitter(initial, start is not None, *views, targets, config.train.seed)
    report(f"facts: {len(fitter.labels)} pairs read")
    logits, stated = _cross_validate(fitter, folds, report)
    if start is None:
        rules = calibrated_rules(stated, labels, changed)
    else:
        rules = adapted_rules(start.rules, stated, labels, changed)
        if not _makes_fewer_errors(start, fitter, stated, labels, changed, folds, report):
            return start
    counts = ((logits[i], *counted(fitter.masks[i])) for i in np.flatnonzero(changed))
    measured = np.stack([measurements(logit, outlines, len(sizes)) for logit, outlines, sizes in counts])
    references = [records[i].captions for i in np.flatnonzero(changed)]
    if start is None or start.phrasing is None:
        phrasing = fit_phrasing(measured, references, grammar_words())
    else:
        phrasing = adapt_phrasing(start.phrasing, measured, references)
    heads = fitter.fit(np.arange(len(fitter.labels))).cpu()
    return FactModel(heads, rules, phrasing, None if start is None else start.roads)


def _cross_validate(fitter: _HeadFitter, folds: np.ndarray, report: Report) -> tuple[np.ndarray, np.ndarray]:
    """Answer each fold by heads fitted on the others and on all labelled pairs; see :func:`_answer`."""
    logits, stated = np.zeros((2, len(folds), len(ANSWERS)), np.float32)
    labelled = np.arange(len(folds), len(fitter.labels))
    for fold in sorted(set(folds.tolist())):
        held, others = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
        heads = fitter.fit(np.concatenate([others, labelled]))
        logits[held], stated[held] = _answer(heads, fitter, held)
        report(f"facts: fold {fold + 1} of {FOLDS} answered")
    return logits, stated


def _makes_fewer_errors(
    start: FactModel,
    fitter: _HeadFitter,
    stated: np.ndarray,
    labels: np.ndarray,
    changed: np.ndarray,
    folds: np.ndarray,
    report: Report,
) -> bool:
    """Return whether the new heads make fewer errors than the start in the changed pairs; report both.

    The calibration of each fold is fitted on the others too: on few answers it would flatter itself.
    """
    after = np.zeros(len(labels))
    for fold in set(folds.tolist()):
        held, others = folds == fold, folds != fold
        rules = adapted_rules(start.rules, stated[others], labels[others], changed[others])
        after[held] = errors(rules, stated[held], labels[held])
    old = _answer(fitter.initial, fitter, np.arange(len(labels)))[1]
    before, after = errors(start.rules, old, labels)[changed], after[changed]
    gain = percentile_interval(Resamples(len(before)).means(before - after)) or (0.0, 0.0)
    report(
        f"facts: {before.mean():.2f} -> {after.mean():.2f} errors per changed pair at held-out places "
        f"({gain[0]:.2f} to {gain[1]:.2f} fewer, 95 %)"
    )
    return bool(after.mean() < before.mean())


def errors(rules: FactRules, logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return how many answers (N, len(ANSWERS)) of each pair are stated and false, or true and not stated."""
    stated = (rules.calibrated(logits) >= np.array(rules.sure)) & (np.array(rules.slopes) != 0)
    wrong: np.ndarray = (stated != (labels > 0)).sum(1).astype(np.float64)
    return wrong


@torch.no_grad()
def _trunk_maps(
    model: ChangeCaptioner, records: Sequence[PairRecord], config: Config
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield the last maps of both dates (B, P, C) and the change probability (B, H, W)."""
    size = config.data.size
    for features in encoded_batches(model, records, config):
        view = features.pair
        assert features.change_logits is not None
        change = enlarge_maps(features.change_logits.float(), (size, size)).sigmoid()
        before, after = (m.float().flatten(2).transpose(1, 2) for m in (view.maps_before, view.maps_after))
        yield before, after, change


def _whitened_heads(model: ChangeCaptioner, records: Sequence[PairRecord], config: Config) -> FactHeads:
    """Return untrained heads whose first layer whitens the trunk's channels, measured on some of the pairs.

    It gives the principal components of the maps, each with unit variance.
    """
    torch.manual_seed(config.train.seed)
    channels = model.backbone.channels[-1]
    count = min(REDUCED, channels)
    heads = FactHeads(channels=channels, reduced=count).to(next(model.parameters()).device)
    sample = np.random.default_rng(config.train.seed).permutation(len(records))[:_WHITENING_PAIRS]
    maps = _trunk_maps(model, [records[i] for i in sample], config)
    positions = torch.cat(
        [m[:, ::_WHITENING_STEP].flatten(0, 1) for before, after, _ in maps for m in (before, after)]
    )
    mean = positions.mean(0)
    values, vectors = torch.linalg.eigh(torch.cov((positions - mean).T))
    matrix = vectors[:, -count:] / values[-count:].clamp_min(1e-8).sqrt()  # (C, reduced)
    with torch.no_grad():
        heads.reduce.weight.copy_(matrix.T)
        heads.reduce.bias.copy_(-(mean @ matrix))
    return heads


@torch.no_grad()
def _view_pairs(
    model: ChangeCaptioner,
    heads: FactHeads,
    records: Sequence[PairRecord],
    config: Config,
    threshold: float,
) -> tuple[Tensor, Tensor, np.ndarray]:
    """Return maps, cells and masks, see :class:`_HeadFitter`."""
    maps, cells, masks = [], [], []
    for before, after, change in _trunk_maps(model, records, config):
        maps.append(torch.stack([heads.reduce(before), heads.reduce(after)], 1).half())
        side = round(before.shape[1] ** 0.5)
        cells.append(change_cells(change, (side, side)))
        masks.append((change >= threshold).cpu().numpy())
    return torch.cat(maps), torch.cat(cells), np.concatenate(masks)


@torch.no_grad()
def _answer(heads: FactHeads, fitter: _HeadFitter, members: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the logits of whole images, and those that facts are stated by, each (N, len(ANSWERS))."""
    parts = []
    for part in torch.from_numpy(members).split(64):
        positions = fitter.position_logits(heads, part)
        side = round(positions.shape[1] ** 0.5)
        maps = positions.transpose(1, 2).unflatten(2, (side, side))
        masks = torch.from_numpy(fitter.masks[part.numpy()]).to(maps.device)
        regions = (torch.ones_like(masks), masks)
        parts.append([region_logits(maps, region).cpu().numpy() for region in regions])
    whole, changed = (np.concatenate(several) for several in zip(*parts, strict=True))
    return whole, stated_logits(whole, changed)

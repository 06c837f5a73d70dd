"""The end of a training run: thresholds chosen on the validation split, the card, the model folder."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from rscc.calibrating import calibrate, listen
from rscc.calibration import Calibration, evidence_pixels
from rscc.cards import card_text, recalibrated_text
from rscc.config import LIKELIEST, Choice, Config
from rscc.data.pairs import PairRecord, truly_changed
from rscc.kept import Kept
from rscc.kind_scores import KindScores, score_kinds
from rscc.localisers import build_localiser
from rscc.models.captioner_base import ChangeCaptioner
from rscc.models.generation import ForbiddenWords
from rscc.no_change import is_no_change
from rscc.rewards import NGram, count_ngrams
from rscc.train import TrainResult
from rscc.validation import mask_curve
from rscc.vocabulary import tokenize
from rscc.weights import (
    LOCALISATIONS,
    ModelCard,
    ModelFolder,
    find_model,
    load_model,
    open_model_folder,
    save_card,
    save_model_folder,
)

if TYPE_CHECKING:
    from rscc.runs import RunPaths


def learns_the_flag(config: Config, train: Sequence[PairRecord]) -> bool:
    """Tell whether P(anything changed) is learnt: its loss has a weight and there are pairs of both kinds.

    Where it is not, as on data sets in which every pair changed, it must not silence captions.
    """
    return config.loss.get("changed", 0) > 0 and {True, False} <= {record.changed for record in train}


def no_change_prefixes(records: Sequence[PairRecord]) -> list[list[str]]:
    """Find the shortest beginnings that captions of unchanged pairs have and captions of changed ones lack.

    A beginning counts as lacking when fewer than one in a thousand captions of changed pairs has it: the
    captions are by hand, and a few are wrong.
    """
    changed = [tuple(tokenize(c)) for r in records if r.changed for c in r.captions]
    unchanged = {tuple(tokenize(c)) for r in records if r.changed is False for c in r.captions}
    beginnings = Counter(words[:length] for words in changed for length in range(1, len(words) + 1))
    found = set()
    for words in unchanged:
        for length in range(1, len(words) + 1):
            if beginnings[words[:length]] * 1000 < len(changed):
                found.add(words[:length])
                break
    return [list(words) for words in sorted(found)]


def no_change_runs(records: Sequence[PairRecord], known: Sequence[Sequence[str]] = ()) -> list[list[str]]:
    """Find the shortest runs of words, up to three, that speak of no change wherever they stand: "same".

    At least one in ten captions of unchanged pairs has them, and fewer than one in a thousand captions of
    changed ones, said of either order of the dates. A decoder that must not begin like a "no change" caption
    may still get there by a detour ("the road is the same as before"). While it is trained it may say so, and
    is scored for it.

    Fewer than a thousand captions of changed pairs do not tell what such captions lack: then it is those of
    the runs ``known`` before, by the model that a training started from, that none of them has.
    """
    changed = [_runs(c) for r in records if r.changed for c in (*r.captions, *r.reversed_captions)]
    if len(changed) < 1000:
        return [list(run) for run in known if not any(tuple(run) in runs for runs in changed)]
    unchanged = [_runs(c) for r in records if r.changed is False for c in r.captions]
    often, seldom = (Counter(chain.from_iterable(captions)) for captions in (unchanged, changed))
    found: list[NGram] = []
    for run in sorted(often, key=lambda run: (len(run), run)):
        speaks = often[run] * 10 >= len(unchanged) and seldom[run] * 1000 < len(changed)
        if speaks and count_ngrams(run).keys().isdisjoint(found):
            found.append(run)
    return [list(run) for run in found]


def _runs(caption: str) -> set[NGram]:
    return {run for run in count_ngrams(tokenize(caption)) if len(run) <= 3}


def best_changed_threshold(probabilities: np.ndarray, changed: np.ndarray) -> float:
    """Return the threshold of the highest accuracy; among equals the middle of the widest gap."""
    edges = np.unique(np.concatenate([[0.0], np.sort(probabilities), [1.0]]))
    middles = (edges[:-1] + edges[1:]) / 2
    accuracy = np.array([((probabilities >= t) == changed).mean() for t in middles])
    best = np.flatnonzero(accuracy == accuracy.max())
    return float(middles[best[np.diff(edges)[best].argmax()]])


def finish(
    model: ChangeCaptioner,
    result: TrainResult,
    config: Config,
    *,
    val: Sequence[PairRecord],
    captions: Sequence[PairRecord],
    name: str,
    command: str,
    paths: RunPaths,
    val_kept: Kept | None = None,
) -> ModelFolder:
    """Choose the thresholds on the validation split and write the model folder with its card.

    Args:
        model: with the best weights.
        result: of the training.
        config: of the training.
        val: the validation pairs.
        captions: the training pairs, for the "no change" beginnings and runs of words.
        name, command: for the card.
        paths: of the run.
        val_kept: of ``val``.
    """
    size = config.data.size
    scores = dict(result.best_scores)
    threshold = 0.5
    source = paths.trunk or paths.start
    origin = None if source is None else open_model_folder(find_model(source))
    taken = None if origin is None else origin.card
    prefixes = no_change_prefixes(captions)
    runs = no_change_runs(captions, () if origin is None else origin.no_change_runs)
    forbidden = ForbiddenWords.of_words(prefixes, model.vocabulary, runs)
    by_head = taken is not None and not taken.parts and taken.localiser == "change_head"
    localiser = "change_head" if by_head or config.loss.get("change_mask", 0) > 0 else model.localiser
    learns = learns_the_flag(config, captions)
    confidence = Confidence()
    if any(weight > 0 and term != "change_mask" for term, weight in config.loss.items()):
        confidence = calibrated(
            model,
            val,
            size=size,
            gsd=config.data.gsd,
            kept=val_kept or Kept(),
            by_head=localiser == "change_head",
            forbidden=forbidden if learns else None,
            bf16=config.train.bf16,
            choice=config.card.choice,
        )
        scores |= confidence.scores
    if taken and by_head and {"backbone", "change_head"} <= set(config.train.frozen):
        threshold = taken.threshold  # the same trunk and head, so the same scores
        scores |= {key: value for key, value in taken.scores.items() if key == "mask_f1"}
    elif any(record.mask is not None for record in val):
        finder = (
            None
            if localiser == "change_head"
            else build_localiser(
                localiser,
                changed_threshold=confidence.threshold,
                forbidden=forbidden,
                flag=None if confidence.calibration is None else confidence.calibration.changed,
            )
        )
        curve = mask_curve(model, val, size=size, bf16=config.train.bf16, localiser=finder)
        threshold = curve.best_threshold()
        scores["mask_f1"] = float(curve.f1().max())
    pairs = f"{config.data.name}: {len(captions)} training and {len(val)} validation pairs"
    card = ModelCard(
        name=name,
        version=config.card.version,
        description=config.card.description
        or f"{config.model.paper.upper()} on {config.model.backbone}, trained on {config.data.name}",
        paper=config.model.paper,
        weights_sha256="",
        gsd=config.data.gsd,
        gsd_range=config.card.gsd_range,
        tile_size=size,
        threshold=threshold,
        changed_threshold=confidence.threshold,
        localisation=LOCALISATIONS[localiser],
        licence=config.card.licence,
        data=f"{pairs}. {config.card.data}".strip(),
        trained=f"`{command}`, {result.seconds / 60:.0f} minutes on {device_words(model)}",
        limits=config.card.limits,
        scores={key: round(value, 4) for key, value in scores.items()},
        localiser=localiser,
        calibration=confidence.calibration,
        draws=config.card.draws,
        support=config.card.support,
        kinds=confidence.kinds,
        cost=config.card.cost,
    )
    return save_model_folder(
        paths.output / "model",
        model,
        card=card,
        card_text=card_text(card, config),
        no_change_prefixes=prefixes,
        no_change_runs=runs,
    )


@dataclass(frozen=True)
class Confidence:
    """What was learnt of a model on the validation split.

    Attributes:
        calibration: of P(changed) and the captions' scores; None for a model that says nothing.
        threshold: of P(changed); 0 where it was not learnt.
        scores: accuracy with the threshold.
        kinds: see :func:`~rscc.kind_scores.score_kinds`.
    """

    calibration: Calibration | None = None
    threshold: float = 0.0
    scores: dict[str, float] = field(default_factory=dict)
    kinds: KindScores = field(default_factory=dict)


def calibrated(
    model: ChangeCaptioner,
    val: Sequence[PairRecord],
    *,
    size: int,
    gsd: float,
    kept: Kept,
    by_head: bool,
    forbidden: ForbiddenWords | None,
    bf16: bool,
    choice: Choice = LIKELIEST,
) -> Confidence:
    """Fit P(changed) and the captions' scores of a model, and score each kind of change.

    Args:
        model: in evaluation mode.
        val: the pairs to fit on.
        size: side that images are resized to.
        gsd: metres per pixel.
        kept: of ``val``.
        by_head: whether its change head was trained.
        forbidden: beginnings and runs of "no change" sentences; None where P(changed) was not learnt.
        bf16: compute in bfloat16.
        choice: how the model chooses its captions.
    """
    pixels = evidence_pixels(gsd)
    said = listen(
        model,
        val,
        size=size,
        pixels=pixels,
        by_head=by_head,
        forbidden=forbidden,
        kept=kept,
        bf16=bf16,
        choice=choice,
    )
    calibration = calibrate(said, val, pixels=pixels, flag_decides=forbidden is not None)
    flag = calibration.changed
    changed = np.array([truly_changed(record) for record in val])
    threshold, scores = 0.0, {}
    called = np.array([not is_no_change(caption) for caption in said.captions])
    if flag is not None:
        threshold, scores = flag.threshold, {"flag_accuracy": flag.accuracy}
        called = flag.probability(said.logits, said.evidence) >= threshold
    elif forbidden is not None:
        probabilities = 1 / (1 + np.exp(-said.logits))
        threshold = best_changed_threshold(probabilities, changed)
        called = probabilities >= threshold
        scores = {"flag_accuracy": float((called == changed).mean())}
    captioned = [number for number, record in enumerate(val) if record.captions]
    kinds = score_kinds(
        [val[number] for number in captioned],
        [said.captions[number] for number in captioned],
        called[captioned],
    )
    return Confidence(calibration, threshold, scores, kinds)


def calibrate_folder(path: Path, records: Sequence[PairRecord]) -> ModelFolder:
    """Fit the calibration of a model folder anew, on pairs that it was not trained on, and write it there.

    Coefficients, the threshold of P(changed) and the pages of the card change; the weights do not.

    Args:
        path: the folder.
        records: captioned pairs, changed and unchanged ones.

    Raises:
        ModelFolderInvalid: the folder is incomplete or damaged.
        DatasetLayoutInvalid: an image cannot be read.
    """
    folder = open_model_folder(path, check_hashes=True)
    card, model = folder.card, load_model(folder)
    forbidden = ForbiddenWords.of_words(folder.no_change_prefixes, model.vocabulary, folder.no_change_runs)
    confidence = calibrated(
        model,
        records,
        size=card.tile_size,
        gsd=card.gsd,
        kept=Kept(),
        by_head=card.localiser == "change_head",
        forbidden=forbidden if card.changed_threshold > 0 else None,
        bf16=True,  # as where the model was trained
        choice=card.choice,
    )
    card = replace(
        card,
        calibration=confidence.calibration,
        changed_threshold=confidence.threshold,
        scores=card.scores | {key: round(value, 4) for key, value in confidence.scores.items()},
        kinds=confidence.kinds,
    )
    return save_card(folder, card, recalibrated_text(card, (path / "CARD.md").read_text(encoding="utf-8")))


def device_words(model: ChangeCaptioner) -> str:
    """Name the device that a model lies on."""
    device = next(model.parameters()).device
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    count = torch.get_num_threads()
    return f"{count} {'thread' if count == 1 else 'threads'} of a {platform.machine()} CPU"

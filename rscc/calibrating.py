"""Runs a model over validation pairs and fits its calibration on what it says of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from rscc.calibration import Calibration, change_evidence
from rscc.calibration_fit import calibrate_flag, calibrate_score
from rscc.config import LIKELIEST, Choice
from rscc.data.pairs import PairRecord, truly_changed
from rscc.kept import Kept
from rscc.models.captioner_base import ChangeCaptioner
from rscc.models.generation import ForbiddenWords
from rscc.no_change import is_no_change
from rscc.validation import encoded_batches

BEAMS = 3


@dataclass(frozen=True)
class Said:
    """What a model says of N pairs before anything is calibrated.

    Attributes:
        logits: (N,) of P(changed).
        evidence: (N,) of :func:`~rscc.calibration.change_evidence`; None without a trained change head.
        captions: what it says when it is told that something changed, or may say that nothing did.
        likelihoods: (N,) geometric mean of the words' probabilities, 0..1.
    """

    logits: np.ndarray
    evidence: np.ndarray | None
    captions: list[str]
    likelihoods: np.ndarray


@torch.no_grad()
def listen(
    model: ChangeCaptioner,
    records: Sequence[PairRecord],
    *,
    size: int,
    pixels: int,
    by_head: bool,
    forbidden: ForbiddenWords | None,
    kept: Kept,
    bf16: bool,
    choice: Choice = LIKELIEST,
) -> Said:
    """Run the model over pairs.

    Args:
        model: in evaluation mode.
        records: the pairs.
        size: side that images are resized to.
        pixels: of the evidence.
        by_head: whether the change head was trained; then the images are read, because its maps are not kept.
        forbidden: beginnings and runs of words that captions must not have; None when the decoder may
            say that nothing changed.
        kept: what was computed of the pairs before.
        bf16: compute in bfloat16.
        choice: how the model chooses its captions.
    """
    device = next(model.parameters()).device
    logits: list[float] = []
    evidence: list[float] = []
    captions: list[str] = []
    likelihoods: list[float] = []
    cache = None if by_head else kept.features
    for features in encoded_batches(
        model, records, size=size, cache=cache, extracted=kept.extracted, bf16=bf16, batch_size=16
    ):
        logits.extend(features.changed_logits.float().tolist())
        if by_head:
            assert features.change_logits is not None
            evidence.extend(change_evidence(features.change_logits, pixels).tolist())
        with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
            found = model.generate_from(features, beams=BEAMS, forbidden=forbidden, choice=choice)
        captions.extend(model.vocabulary.decode(one[0].ids) for one in found)
        likelihoods.extend(one[0].score for one in found)
    return Said(np.array(logits), np.array(evidence) if by_head else None, captions, np.array(likelihoods))


def calibrate(said: Said, records: Sequence[PairRecord], *, pixels: int, flag_decides: bool) -> Calibration:
    """Fit what a model said of pairs to what is true of them.

    Args:
        said: of the pairs.
        records: the pairs, in the same order.
        pixels: of the evidence.
        flag_decides: whether P(changed) was learnt and decides; otherwise the caption's words do.
    """
    truth = np.array([truly_changed(record) for record in records])
    flag = calibrate_flag(said.logits, said.evidence, truth, pixels=pixels) if flag_decides else None
    if flag is not None:
        called = flag.probability(said.logits, said.evidence) >= flag.threshold
    else:
        called = np.array([not is_no_change(caption) for caption in said.captions])
    used = [i for i in np.flatnonzero(truth & called).tolist() if records[i].captions]
    return Calibration(
        changed=flag,
        score=calibrate_score(
            said.likelihoods[used],
            {records[i].id: said.captions[i] for i in used},
            {records[i].id: records[i].captions for i in used},
        ),
    )

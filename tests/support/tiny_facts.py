"""Heads of random weights that tell facts of pairs seen by the trunk of :mod:`tiny_models`."""

from __future__ import annotations

import numpy as np
from tiny_models import randomise

from rscc.inference.fact_heads import ANSWERS, FactHeads, FactRules
from rscc.inference.facts import FactModel, measurements
from rscc.text.phrasing import Phrasing, fit_phrasing

SURE_LOGIT = 4.0


def tiny_heads(seed: int = 5) -> FactHeads:
    """Heads on 12 channels, in evaluation mode."""
    heads = FactHeads(channels=12, reduced=5, width=4, hidden=8).eval()
    randomise(heads, seed)
    return heads


def plain_rules(**values) -> FactRules:
    """Rules that take logits as they are."""
    fields = {"slopes": (1.0,) * len(ANSWERS), "offsets": (0.0,) * len(ANSWERS)}
    return FactRules(**fields | values)


def logits_of(*sure: str, **others: float) -> np.ndarray:
    """Logits of a region: some answers are sure, ``others`` as given (``came_road=1``), the rest are not."""
    values = dict.fromkeys(ANSWERS, -SURE_LOGIT) | dict.fromkeys(sure, SURE_LOGIT)
    values |= {name.replace("_", " "): value for name, value in others.items()}
    assert len(values) == len(ANSWERS), "not an answer"
    return np.array([values[name] for name in ANSWERS])


def squares(count: int, *, side: int = 10, shape: tuple[int, int] = (64, 96)) -> np.ndarray:
    """A mask with some squares in a row at the top."""
    mask = np.zeros(shape, bool)
    for number in range(count):
        mask[2 : 2 + side, 2 + number * (side + 2) : 2 + number * (side + 2) + side] = True
    return mask


def tiny_phrasing() -> Phrasing:
    """Learnt from changes with one square, of which people say building, and with three: villas."""
    logits = logits_of("came building")
    measured = [measurements(logits, squares(count), count) for count in (1, 3)] * 8
    said = [("a building has been built", "a building appears"), ("several villas are constructed",)] * 8
    return fit_phrasing(np.stack(measured), said)


def tiny_facts(phrasing: Phrasing | None = None, **rules) -> FactModel:
    """What a model folder tells facts by."""
    return FactModel(tiny_heads(), plain_rules(**rules), phrasing)

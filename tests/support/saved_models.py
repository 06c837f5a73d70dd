"""Model folders with random weights, fact heads and calibrations."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from captioners import card
from tiny_models import randomise, tiny_model

from rscc.captioner import Captioner
from rscc.facts.answers import ANSWERS
from rscc.facts.calibration import Calibration, FlagCalibration, Reliability, ScoreCalibration
from rscc.facts.fact_model import FactModel
from rscc.facts.grounded_captions import measurements
from rscc.facts.heads import FactHeads
from rscc.facts.rules import FactRules
from rscc.model_folder import ModelFolder, save_model_folder
from rscc.models.shared.captioner import ChangeCaptioner
from rscc.text.phrasing import Phrasing, fit_phrasing


def saved(
    path: Path,
    model: ChangeCaptioner | None = None,
    *,
    text: str = "# A card\n",
    prefixes: Sequence[Sequence[str]] = (("there", "is", "no"),),
    runs: Sequence[Sequence[str]] = (),
    facts: FactModel | None = None,
    **values: Any,
) -> ModelFolder:
    """Save a model, a tiny RDD if None, with the fake's card; ``values`` are fields of it."""
    return save_model_folder(
        path,
        tiny_model(seed=2) if model is None else model,
        card=card(**values),
        card_text=text,
        no_change_prefixes=prefixes,
        no_change_runs=runs,
        facts=facts,
    )


def with_threshold(captioner: Captioner, value: float) -> Captioner:
    """Let a captioner call pairs changed from ``value`` on."""
    captioner.card = replace(captioner.card, changed_threshold=value)
    return captioner


def edit(**changes: Any) -> Callable[[Path], None]:
    """Return what changes ``model.json``, see :func:`edit_member`."""
    return edit_member("model.json", **changes)


def edit_member(member: str, /, **changes: Any) -> Callable[[Path], None]:
    """Return what changes a JSON file of a folder: keys of the top, or ``PART__KEY``; ``...`` deletes one."""

    def change(folder: Path) -> None:
        file = folder / member
        content = json.loads(file.read_text())
        for key, value in changes.items():
            part, _, name = key.rpartition("__")
            target = content[part] if part else content
            if value is ...:
                del target[name]
            else:
                target[name] = value
        file.write_text(json.dumps(content))

    return change


def saved_start(path: Path, model: ChangeCaptioner, **values: Any) -> Path:
    """Save what a training starts from and return its folder."""
    fields = {"name": "first", "version": "3", "paper": model.config.paper, "limits": ("villas only",)}
    fields |= {"gsd": 0.7, "gsd_range": (0.4, 2.0), "threshold": 0.3, "changed_threshold": 0.6}
    return saved(path, model, **fields | values).path


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


BINS = Reliability((0.1, 0.8), (0.0, 0.9), (20, 30))
FLAG = FlagCalibration(
    **{"a": 0.6, "b": 0.7, "c": -0.2, "pixels": 20, "threshold": 0.5, "accuracy": 0.94, "precision": 0.95},
    **{"recall": 0.93, "error_before": 0.09, "error_after": 0.04, "brier_before": 0.1, "brier_after": 0.06},
    bins=BINS,
)
SCORE = ScoreCalibration(4.0, 3.0, 21.5, 0.6, 0.1, 0.05, 0.25, 0.2, BINS)
BOTH = Calibration(FLAG, SCORE)

SENTENCES = [
    f"{number} {what} {where}"
    for number in ("two", "several", "many")
    for what in ("houses appear", "trees vanish", "roads cross")
    for where in ("at the river", "on the hill", "beside the field")
]

"""Models of random weights as folders."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fakes import card
from tiny_models import tiny_model

from rscc.captioner import Captioner
from rscc.inference.facts import FactModel
from rscc.model_folder import ModelFolder, save_model_folder
from rscc.models.shared.captioner import ChangeCaptioner


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

"""The card of a model folder as a page for people; figures come from the run, words from the config."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rscc.config import Config
    from rscc.weights import ModelCard

_SCORE_NAMES = {
    "cider": "CIDEr, all pairs, greedy",
    "cider_changed": "CIDEr, changed pairs, greedy",
    "flag_accuracy": "changed or not: accuracy at the chosen threshold",
    "mask_f1": "change mask: pixel F1 at the chosen threshold",
    "mask_f1_at_half": "change mask: pixel F1 at threshold 0.5",
    "threshold": "change probability threshold",
}


def card_text(card: ModelCard, config: Config) -> str:
    """Write the card of ``card`` as Markdown; ``config`` is the config of its last training stage."""
    rows = "\n".join(f"| {_SCORE_NAMES.get(key, key)} | {value:.4g} |" for key, value in card.scores.items())
    limits = "\n".join(f"- {limit}" for limit in card.limits)
    settings = json.dumps(config.to_dict(), indent=1)
    return f"""# {card.name} {card.version}

{card.description}

| | |
|---|---|
| paper | {card.paper} |
| input | two dates, RGB, {card.tile_size} x {card.tile_size} px tiles at {card.gsd:g} m per pixel |
| meant for | scenes of {card.gsd_range[0]:g} to {card.gsd_range[1]:g} m per pixel |
| polygons from | {card.localisation}; threshold {card.threshold:g} |
| changed or not | P(changed) of at least {card.changed_threshold:.3f} |
| trained on | {card.data} |
| trained by | {card.trained} |
| licence | {card.licence} |

## Scores on the validation split

The checkpoint and both thresholds were chosen on this split, so these figures flatter the model; the
figures of the untouched test split stand in the README.

| score | value |
|---|---|
{rows}

## Limits

{limits or "None were written down."}

## Settings of the last stage

```json
{settings}
```
"""

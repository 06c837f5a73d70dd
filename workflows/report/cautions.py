"""What a summary says of its own limits: unfamiliar ground, damage, and what was not searched."""

from __future__ import annotations

from collections.abc import Sequence

from rscc.facts.unfamiliar import UNFAMILIAR
from workflows.printable import printable
from workflows.report.change import Change
from workflows.report.record import Run, text_in

_OBJECTS = "Buildings and what belongs to them were searched; pools, fields and damage were not."
_COVER = "Land cover was searched; single buildings, roads and damage were not."


def cautions(changes: Sequence[Change], run: Run) -> list[str]:
    """Return sentences on what to expect of a report; the record may come from anybody."""
    model = printable(text_in(run, "model", "name") or "the model")
    familiarity = run.get("familiarity")
    sentences = []
    if isinstance(familiarity, int | float) and familiarity < UNFAMILIAR:
        sentences.append(
            f"This scene is unlike the ground that {model} learnt from: expect misses and wrong nouns."
        )
    if any(change.may_be_destroyed for change in changes):
        sentences.append(f"Damage is not what {model} knows: it may miss it, or take it for a removal.")
    return [*sentences, *_searched(run)]


def _searched(run: Run) -> list[str]:
    """Say what was searched; nothing of sentences that a decoder wrote, which may name anything."""
    if isinstance(run.get("given"), dict):
        return []  # nothing was searched
    if isinstance(run.get("land_cover"), dict):
        return [_COVER]
    settings = run.get("settings")
    states_facts = isinstance(settings, dict) and settings.get("ground") is True
    return [_OBJECTS] if states_facts and text_in(run, "model", "facts_sha256") else []

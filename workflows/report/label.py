"""The label of a change on a map: what it is in a few words."""

from __future__ import annotations

from rscc.text.change_facts import building_size
from rscc.text.wording import buildings_first
from workflows.printable import counted
from workflows.report.change import Change
from workflows.report.summary_phrases import BUILDING, plural_of

_MOST = 3
"""Classes that a label names."""


def label_of(change: Change) -> str | None:
    """Return such as ``72 houses, road`` or ``trees gone``; None where no class is known."""
    names = change.came or change.gone
    if not names:
        return None
    words = ", ".join(_words(change, name) for name in buildings_first(list(dict.fromkeys(names)))[:_MOST])
    return words if change.came else f"{words} gone"


def _words(change: Change, name: str) -> str:
    if name != BUILDING:
        # Their objects are not counted.
        return name if change.count == 1 or name in ("road", "parking lot") else plural_of(name)
    noun = building_size(change.area_m2, change.largest_m2, change.median_m2, change.count_sure)
    return counted(change.count, noun)

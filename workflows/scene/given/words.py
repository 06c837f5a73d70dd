"""Sentences of given outlines that are not judged, or in which our network sees nothing."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from rscc.structures import Caption
from rscc.text.change_facts import SOMETHING
from workflows.printable import counted
from workflows.scene.found import Changes, FoundChange
from workflows.scene.given.judge import reason_of
from workflows.scene.given.layer import GivenLayer

NOTHING = "No change was recognised"
"""The sentence about a given outline in which too little is seen as changed, and no fact is sure."""
REASONS = {
    "outside the scenes": "Not judged: it lies outside of the ground that both scenes show",
    "fill": "Not judged: it has no data on one date or the other",
    "cloud": "Not judged: it is under cloud",
    "shadow": "Not judged: it is in the shadow of clouds",
    "haze": "Not judged: it is under haze",
    "too large": "Not judged: it is too large to be described as one change",
}
"""Sentences by the reason why an outline is not judged."""


def judged_of(changes: Changes) -> Changes:
    """Return the changes about which facts can be known."""
    return Changes([change for change in changes.found if reason_of(change) is None], changes.others)


def with_unjudged(changes: Changes, captions: Sequence[Caption]) -> list[Caption]:
    """Return the caption of every change.

    Args:
        captions: of those of :func:`judged_of`, in their order.
    """
    known = iter(captions)
    return [
        _where_unseen(change, next(known))
        if (reason := reason_of(change)) is None
        else Caption(REASONS[reason], 0.0, False)
        for change in changes.found
    ]


def unjudged_warnings(changes: Changes, layer: GivenLayer | None) -> list[str]:
    """Return a line for each reason why given outlines are not judged, with their number."""
    reasons = Counter(filter(None, map(reason_of, changes.found)))
    name = "" if layer is None else layer.name
    return [
        f"{name}: {counted(number, 'outline')} not judged: {reason}" for reason, number in reasons.items()
    ]


def _where_unseen(change: FoundChange, caption: Caption) -> Caption:
    """Return a caption that claims no change that neither our map nor a fact shows."""
    if caption.text != SOMETHING or change.given is None or change.is_seen:
        return caption
    return replace(caption, text=NOTHING, alternatives=(), changed=False)

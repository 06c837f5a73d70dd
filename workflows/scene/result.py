"""The changes of a report: what was found, with its words, dates and model."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from shapely.geometry import MultiPolygon, Polygon

from rscc.facts.unfamiliar import discounted
from rscc.structures import Caption
from rscc.text.map_sentences import map_name
from workflows.report.change import Change, Selection, selected
from workflows.report.summary_phrases import label_of
from workflows.scene.found import FoundChange


def changes_of(
    found: Sequence[FoundChange],
    captions: Sequence[Caption],
    ground: Polygon | MultiPolygon | None,
    record: Mapping[str, Any],
    selection: Selection,
) -> list[Change]:
    """Return the changes of a report that are selected, numbered from 1.

    Args:
        ground: what was searched, in WGS84.
        record: the run record, with ``inputs`` and ``model``.
    """
    before, after = (record["inputs"][role] for role in ("before", "after"))
    made = [
        Change(
            id=0,
            caption=caption.text,
            alternatives=caption.alternatives,
            score=_score(change, caption),
            date_before=before["date"],
            date_after=after["date"],
            before=PurePath(before["path"]).name,
            after=PurePath(after["path"]).name,
            model=record["model"]["name"],
            model_version=record["model"]["version"],
            **change.measured(ground),
            **_stated(caption),
        )
        for change, caption in zip(found, captions, strict=True)
    ]
    return [
        replace(change, id=number, label=label_of(change))
        for number, change in enumerate(selected(made, selection), 1)
    ]


def _score(change: FoundChange, caption: Caption) -> float:
    """Return the probability that a sentence is right on ground of that familiarity."""
    facts = getattr(caption, "facts", None)
    return discounted(
        float(caption.score),
        change.familiarity,
        change.probability,
        of_buildings=change.kind in ("change", "given") and (facts is None or facts.area_m2 is None),
        is_gone=facts is not None and facts.direction == "disappeared",
    )


def _stated(caption: Caption) -> dict[str, Any]:
    """Return the fields of a change that its facts fill; none for a caption without."""
    facts = getattr(caption, "facts", None)
    if facts is None:
        return {}
    named = {"came": facts.came, "gone": facts.gone, "before_cover": facts.before}
    return {
        "direction": facts.direction,
        **{field: tuple(map(map_name, names)) for field, names in named.items()},
        "count_sure": facts.sure,
        "changed_m2": facts.area_m2,
        "changed_back_m2": facts.back_m2,
        "changed_at_least": facts.at_least,
        "may_be_destroyed": not facts.cleared and "building" in facts.gone,
        "caption_confident": getattr(caption, "confident", True),
    }

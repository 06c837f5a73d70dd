"""Format a reported change and its evidence as one screen of text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from workflows.printable import printable_lines

INDENT = 14
_UNKNOWN = "not known"
_KINDS = {
    "came": "added",
    "gone": "removed",
    "around": "nearby",
    "covered": "ground before",
    "near": "road nearby",
    "new near": "new road nearby",
}
_SAID = {
    "review": "review_status",
    "reviewer": "reviewer",
    "right words": "reviewer_caption",
    "note": "reviewer_note",
}


def explanation_text(facts: Mapping[str, Any]) -> str:
    """Return the lines; ``facts`` is an explained change as plain values."""
    lines = [
        facts["caption"],
        *(f"or: {sentence}" for sentence in facts["alternatives"]),
        "",
        *(f"{name.ljust(INDENT)}{words}" for name, words in _facts(facts)),
        "",
        *_evidence(facts),
    ]
    # A report may come from anybody, and control characters steer a terminal.
    return printable_lines(lines)


def _facts(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    sure = "" if facts["caption_confident"] else "; too uncertain for a specific sentence"
    yield "score", f"{facts['score']:.2f}{sure}"
    yield "direction", facts["direction"] or _UNKNOWN
    for title, name in (("added", "came"), ("removed", "gone"), ("ground before", "before_cover")):
        yield title, ", ".join(facts[name]) or "nothing certain"
    sure = facts["count_sure"]
    doubt = "" if sure in (None, facts["count"]) else f", {sure:,} of them certain"
    yield "objects", f"{facts['count']:,}{doubt}"
    yield "area", _metres(facts["area_m2"])
    for title in ("largest", "median"):
        size = facts[f"{title}_m2"]
        yield title, _UNKNOWN if size is None else _metres(size)
    least = "at least " if facts["changed_at_least"] else ""
    for title, name in (("changed", "changed_m2"), ("changed back", "changed_back_m2")):
        if facts[name] is not None:
            yield title, f"{least}{_metres(facts[name])}"
    yield "place", facts["place"] or _UNKNOWN
    yield "arrangement", facts["arrangement"] or _UNKNOWN
    yield "change", f"mean probability {facts['change_probability']:.2f} inside the outlines"
    dates = [facts[f"date_{role}"] for role in ("before", "after")]
    yield "dates", " to ".join(date or "no date" for date in dates) if any(dates) else _UNKNOWN
    yield "scenes", " -> ".join(facts["scenes"])
    yield "model", f"{facts['model']} {facts['model_version']}"
    if facts["report"] is not None:
        yield "report", f"{facts['report']}, change {facts['id']}"
    for title, name in _SAID.items():
        if facts[name]:
            yield title, facts[name]


def _evidence(facts: Mapping[str, Any]) -> Iterator[str]:
    if facts["evidence"] is None:
        yield f"no evidence: {facts['no_evidence']}"
        return
    yield f"evidence: all answers of {facts['evidence_model']} for this change"
    rows: list[tuple[str, ...]] = [("", "", "probability", "stated from", "in the sentence")]
    rows += [_row(answer) for answer in facts["evidence"]]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _row(answer: Mapping[str, Any]) -> tuple[str, ...]:
    probability = "-" if answer["probability"] is None else f"{answer['probability']:.2f}"
    least = "never" if answer["least"] is None else f"{answer['least']:.2f}"
    stated = {True: "yes", False: "no", None: "-"}[answer["stated"]]
    return _KINDS[answer["kind"]], answer["name"], probability, least, stated


def _metres(area: float) -> str:
    return f"{area:,.0f} m2" if area < 10_000 else f"{area:,.0f} m2 ({area / 10_000:,.2f} ha)"

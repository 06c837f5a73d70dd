"""The command ``rscc explain``, and its answer as lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rscc.folders import DEFAULT_MODEL
from workflows.cli.options import (
    READING,
    DeviceOption,
    MovedAfterOption,
    MovedBeforeOption,
    OverwriteOption,
    argument,
    moved_scenes,
    option,
    takes_options,
)
from workflows.cli.terminal import Terminal
from workflows.errors import OptionInvalid
from workflows.options import ExplainOptions
from workflows.printable import printable_lines
from workflows.progress import Progress

if TYPE_CHECKING:
    from rscc.captioner import Captioner
    from workflows.scene.explain import ExplainedChange


@takes_options(ExplainOptions, *READING, "allow_hosts", "at", "pixel")
def explain(
    context: typer.Context,
    source: Annotated[str, argument("REPORT|BEFORE", "Report, or raster of the earlier date")],
    options: ExplainOptions,
    later: Annotated[str | None, argument("AFTER", "Raster of the later date; none with a report")] = None,
    number: Annotated[
        int | None,
        option("With REPORT: change to explain", "N", "--id", panel="Input", min=1),
    ] = None,
    output: Annotated[
        Path | None,
        option(
            "With BEFORE and AFTER: picture to write, .png or .webp; needed but with --at or --window",
            "FILE",
            "--output",
            "-o",
            panel="Output",
        ),
    ] = None,
    before: MovedBeforeOption = None,
    after: MovedAfterOption = None,
    model: Annotated[
        str | None,
        option(
            "Shipped model or model folder; default: the report's, or by the pixel size",
            "MODEL",
            panel="Detection",
        ),
    ] = None,
    device: DeviceOption = "auto",
    overwrite: OverwriteOption = False,
    *,
    terminal: Terminal,
) -> None:
    """Explain a change of a report, or draw what the model sees in two scenes.

    REPORT --id N prints the sentence of the change, its facts, and the model's evidence for them.
    BEFORE AFTER --at LON,LAT prints the same of the change at a place, as a report would have it.

    BEFORE AFTER -o FILE draws both dates, the change map and the caption word by word, for the largest change
    or the given place. Two PNG or JPEG files without georeferencing are shown whole.
    """

    def load(name: str) -> Captioner:
        return context.obj.load_captioner(name, device)

    if later is None:
        if number is None or output is not None:
            raise OptionInvalid(f"{source}: give --id N to explain a change, or AFTER and --output")
        explained = _explain_change(Path(source), number, moved_scenes(before, after), options, model, load)
    elif number is not None or (output is None and options.at is None and options.pixel is None):
        raise OptionInvalid(f"{source} and {later}: two scenes need --at or --output, and have no --id")
    elif output is not None:
        _draw_scenes((source, later), options, output, overwrite, model, load, terminal)
        return
    else:
        with terminal.progress() as update:
            explained = _explain_place((source, later), options, model, load, update)
    facts = explained.as_dict()
    terminal.warn(*explained.warnings)
    terminal.result(explanation_text(facts), facts)


def _explain_change(
    source: Path,
    number: int,
    scenes: tuple[str, str] | None,
    options: ExplainOptions,
    model: str | None,
    load: Callable[[str], Captioner],
) -> ExplainedChange:
    """Return what the sentence of a change rests on; ``model`` replaces that of the report."""
    from workflows.report.reading import open_report
    from workflows.scene.explain import explain_change, shipped_model

    servers = ExplainOptions(offline=options.offline, allow_hosts=options.allow_hosts)
    for name in options.names():
        if getattr(options, name) != getattr(servers, name):
            raise OptionInvalid(
                f"{options.flag(name)}: has no effect on a report, which has its own settings"
            )
    report = open_report(source)
    report = replace(report, scenes=scenes, servers=servers if scenes else servers.for_others())
    chosen = model or shipped_model(report)
    return explain_change(report, number, lambda: None if chosen is None else load(chosen))


def _explain_place(
    scenes: tuple[str, str],
    options: ExplainOptions,
    model: str | None,
    load: Callable[[str], Captioner],
    progress: Progress | None,
) -> ExplainedChange:
    """Return what a report of two scenes would say of the change at a place."""
    from workflows.scene.explain import explain_place
    from workflows.scene.resolution import chosen_model
    from workflows.scenes import read_headers

    infos = read_headers(*scenes, options)
    chosen, options = chosen_model(infos, model, options)
    return explain_place(*infos, load(chosen), options, progress)


def _draw_scenes(
    scenes: tuple[str, str],
    options: ExplainOptions,
    output: Path,
    overwrite: bool,
    model: str | None,
    load: Callable[[str], Captioner],
    terminal: Terminal,
) -> None:
    from tiling import SceneInfo
    from workflows.cli.caption import picture_summary
    from workflows.scene.pictures.draw import check_picture, write_picture
    from workflows.scene.pictures.explain import explain_pair, read_pair
    from workflows.scene.resolution import chosen_model

    check_picture(output, overwrite, scenes)
    pair = read_pair(*scenes, options)
    infos = [one for one in pair if isinstance(one, SceneInfo)]
    chosen = model or DEFAULT_MODEL
    if infos:
        chosen, options = chosen_model(infos, model, options)
    captioner = load(chosen)
    with terminal.progress() as update:
        explained = explain_pair(*pair, captioner, options, update)
    write_picture(explained, output, overwrite)
    terminal.warn(*explained.crop.warnings)
    facts = {"output": str(output), **explained.as_dict()}
    terminal.result(picture_summary(facts, output), facts)


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
_REVIEW = {
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
    yield "location", facts["place"] or "in no single part of the scene"
    yield "arrangement", facts["arrangement"] or _UNKNOWN
    yield "change", f"mean probability {facts['change_probability']:.2f} inside the outlines"
    dates = [facts[f"date_{role}"] for role in ("before", "after")]
    yield "dates", " to ".join(date or "no date" for date in dates) if any(dates) else _UNKNOWN
    yield "scenes", " -> ".join(name or _UNKNOWN for name in facts["scenes"])
    yield "model", f"{facts['model']} {facts['model_version']}"
    if facts["report"] is not None:
        yield "report", f"{facts['report']}, change {facts['id']}"
    for title, name in _REVIEW.items():
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

"""The command ``rscc explain``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rscc.shipped import DEFAULT_MODEL
from workflows.cli.options import (
    DATES,
    READING,
    AfterArgument,
    BeforeArgument,
    Debug,
    DeviceOption,
    ModelOption,
    ProgressForm,
    ProgressOption,
    QuietOption,
    takes_options,
)
from workflows.options import ExplainOptions, ServerOptions

_NEEDED = {"before", "after", "output"}
"""Without a report."""
# What a change of a report may be explained with.
_WITH_REPORT = {"before", "after", "report", "number", "model", "device", "quiet", "as_json", "debug"}
_WITH_REPORT |= {"offline", "allow_host", "progress"}


def _needs_no_scenes(context: typer.Context, report: Path | None) -> Path | None:
    """Let the other arguments be left out where a report is given, which names the scenes itself."""
    for parameter in context.command.params:
        parameter.required = report is None and parameter.name in _NEEDED
    return report


@takes_options(
    ExplainOptions, model=(*READING, "allow_hosts", "at", "pixel", "beams"), device=(*DATES, "force")
)
def explain(
    context: typer.Context,
    before: BeforeArgument,
    after: AfterArgument,
    options: ExplainOptions,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Picture to write, .png or .webp; not with --report."),
    ],
    report: Annotated[
        Path | None,
        typer.Option(
            "--report",
            metavar="FILE",
            is_eager=True,
            callback=_needs_no_scenes,
            help="Explain a change of this report in words; only --id is needed then.",
        ),
    ] = None,
    number: Annotated[
        int | None,
        typer.Option("--id", metavar="N", min=1, max=10**15, help="Number of the change in the report."),
    ] = None,
    model: ModelOption = DEFAULT_MODEL,
    device: DeviceOption = "auto",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing picture.")] = False,
    progress: ProgressOption = ProgressForm.auto,
    quiet: QuietOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what the picture shows as JSON.")] = False,
    debug: Debug = False,
) -> None:
    """Draw what the model sees between BEFORE and AFTER: both dates, maps, the caption word by word.

    The crop is that of the largest change, or the one around the place given. Two PNG or JPEG files without
    georeferencing are shown whole.

    With --report and --id: say a change of a report in its own words, with its facts and what they rest on.
    """
    from workflows.cli.terminal import explanation_summary, show_result, show_warnings, shown_progress
    from workflows.errors import OptionInvalid
    from workflows.inspection.explain import explain_pair, read_pair
    from workflows.inspection.picture import check_picture, write_picture

    if report is not None:
        _explain_event(context, report, number, options)
        return
    if number is not None:
        raise OptionInvalid(f"--id {number}: it is the number of a change in a report; give --report, too")
    check_picture(output, overwrite, (before, after))
    scenes = read_pair(before, after, options)
    captioner = context.obj.load_captioner(model, device)
    with shown_progress(progress, quiet) as update:
        explained = explain_pair(*scenes, captioner, options, update)
    write_picture(explained, output, overwrite)
    show_warnings(explained.crop.warnings, progress)
    facts = explained.as_dict()
    result = {"output": str(output), **facts}
    show_result(explanation_summary(facts, output), result, progress, quiet=quiet, as_json=as_json)


def _explain_event(context: typer.Context, report: Path, number: int | None, servers: ServerOptions) -> None:
    """Say a change of a report in its own words, with its facts and what they rest on."""
    from workflows.cli.terminal import show_result, show_warnings
    from workflows.errors import OptionInvalid
    from workflows.inspection.event import read_event
    from workflows.inspection.event_text import event_text
    from workflows.inspection.evidence import explain_event, shipped_model
    from workflows.texts import shown

    given = context.params
    told = {one.name: one.opts[0] for one in context.command.params if _is_told(context, str(one.name))}
    unused = [option for name, option in told.items() if name not in _WITH_REPORT]
    if unused:
        raise OptionInvalid(f"{unused[0]}: a change is explained as its report was made; leave this out")
    if number is None:
        raise OptionInvalid(f"--report {shown(report)}: give --id, too, the number of the change in it")
    if (given["before"] is None) != (given["after"] is None):
        raise OptionInvalid(f"{given['before']}: give BEFORE and AFTER, or neither")
    event = read_event(report, number)
    if given["before"] is None:
        scenes, servers = event.scenes(), servers.for_others()
    else:
        scenes = given["before"], given["after"]
    model = given["model"] if "model" in told else shipped_model(event)
    captioner = None if model is None else context.obj.load_captioner(model, given["device"])
    explained = explain_event(event, captioner, scenes, servers)
    show_warnings(explained.warnings, given["progress"])
    facts = explained.as_dict()
    as_json = given["as_json"]
    show_result(event_text(facts), facts, given["progress"], quiet=as_json, as_json=as_json)


def _is_told(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"

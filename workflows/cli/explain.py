"""The command ``rscc explain``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
from workflows.options import ExplainOptions

if TYPE_CHECKING:
    from rscc.captioner import Captioner


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
    from workflows.errors import OptionInvalid

    def load(name: str) -> Captioner:
        return context.obj.load_captioner(name, device)

    if later is None:
        if number is None or output is not None:
            raise OptionInvalid(f"{source}: give --id N to explain a change, or AFTER and --output")
        _explain_change(Path(source), number, moved_scenes(before, after), options, model, load, terminal)
        return
    is_place = options.at is not None or options.pixel is not None
    if number is not None or (output is None and not is_place):
        raise OptionInvalid(f"{source} and {later}: two scenes need --at or --output, and have no --id")
    if output is None:
        _explain_place((source, later), options, model, load, terminal)
        return
    _draw_scenes((source, later), options, output, overwrite, model, load, terminal)


def _explain_change(
    source: Path,
    number: int,
    scenes: tuple[str, str] | None,
    options: ExplainOptions,
    model: str | None,
    load: Callable[[str], Captioner],
    terminal: Terminal,
) -> None:
    """Print what the sentence of a change rests on; ``model`` replaces that of the report."""
    from workflows.errors import OptionInvalid
    from workflows.report.reading import open_report
    from workflows.scene.explain import explain_change, shipped_model
    from workflows.scene.explain_text import explanation_text

    servers = ExplainOptions(offline=options.offline, allow_hosts=options.allow_hosts)
    for name in options.names():
        if getattr(options, name) != getattr(servers, name):
            raise OptionInvalid(
                f"{options.flag(name)}: has no effect on a report, which has its own settings"
            )
    report = open_report(source)
    report = replace(report, scenes=scenes, servers=servers if scenes else servers.for_others())
    chosen = model or shipped_model(report)
    explained = explain_change(report, number, lambda: None if chosen is None else load(chosen))
    facts = explained.as_dict()
    terminal.warn(*explained.warnings)
    terminal.result(explanation_text(facts), facts)


def _explain_place(
    scenes: tuple[str, str],
    options: ExplainOptions,
    model: str | None,
    load: Callable[[str], Captioner],
    terminal: Terminal,
) -> None:
    """Print what a report of two scenes would say of the change at a place."""
    from workflows.scene.explain_place import explain_place
    from workflows.scene.explain_text import explanation_text
    from workflows.scene.resolution import chosen_model
    from workflows.scenes import read_headers

    infos = read_headers(*scenes, options)
    chosen, options = chosen_model(infos, model, options)
    with terminal.progress() as update:
        explained = explain_place(*infos, load(chosen), options, update)
    facts = explained.as_dict()
    terminal.warn(*explained.warnings)
    terminal.result(explanation_text(facts), facts)


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
    from workflows.cli.caption_text import picture_summary
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

"""Options that several commands share, and the decorator that turns option fields into options."""

import inspect
from collections.abc import Callable
from enum import StrEnum
from functools import cache, wraps
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

import typer

from workflows.cli.terminal import ProgressForm, Terminal
from workflows.errors import OptionInvalid
from workflows.option_fields import Options, Panel, read_size

T = TypeVar("T")
# Written out, so that the help needs no torch; a test compares them with the registries.
Paper = StrEnum("Paper", "scorer dirl cheers rdd davir")
Dataset = StrEnum(
    "Dataset",
    "levir_cc dubai_cc clevr_change clevr_dc spot_the_diff spot_the_diff_multi image_editing_request",
)


def option(
    help: str, metavar: str | None = None, *flags: str, panel: Panel | None = None, **more: Any
) -> Any:
    """Declare an option, named after its parameter unless ``flags`` are given."""
    return typer.Option(*flags, metavar=metavar, help=help, rich_help_panel=panel, **more)


def switch(flag: str, help: str, panel: Panel | None = None, **more: Any) -> Any:
    """Declare an option without a value."""
    return option(help, None, flag, panel=panel, **more)


def argument(metavar: str, help: str) -> Any:
    """Declare an argument."""
    return typer.Argument(metavar=metavar, help=help, show_default=False)


def read_text(flag: str, text: str, read: Callable[[str], T], expected: str) -> T:
    """Parse the text of an option; raises OptionInvalid where ``read`` raises ValueError."""
    try:
        return read(text)
    except ValueError:
        raise OptionInvalid(f"{flag} is {text[:60]}; it must be {expected}") from None


def read_html_size(text: str) -> int:
    """Parse ``--html-size`` into bytes."""
    return read_text("--html-size", text, read_size, "a size such as 8MB")


def moved_scenes(before: str | None, after: str | None) -> tuple[str, str] | None:
    """Return where the scenes of a report are now; None if they have not moved."""
    if (before is None) != (after is None):
        raise OptionInvalid(f"{before or after}: give both --before and --after, or neither")
    return None if before is None or after is None else (before, after)


def set_debug(context: typer.Context, value: bool) -> bool:
    """Store the value of ``--debug`` for the whole command."""
    if value and hasattr(context.obj, "debug"):
        context.obj.debug = True
    return value


def _set_events(context: typer.Context, value: ProgressForm) -> ProgressForm:
    if hasattr(context.obj, "events"):
        context.obj.events = value == ProgressForm.json
    return value


BeforeArgument = Annotated[
    str, argument("BEFORE", "Raster of the earlier date: a file, zip, /vsi path or URL")
]
AfterArgument = Annotated[str, argument("AFTER", "Raster of the later date")]
ReportArgument = Annotated[Path, argument("REPORT", "Report: .geojson, .gpkg or .parquet")]
MovedBeforeOption = Annotated[
    str | None, option("Where BEFORE is now; default: as in the report", "FILE", "--before", panel="Input")
]
MovedAfterOption = Annotated[
    str | None, option("Where AFTER is now; default: as in the report", "FILE", "--after", panel="Input")
]
ModelOption = Annotated[str, option("Shipped model or model folder", "MODEL", "--model", panel="Detection")]
BySizeModelOption = Annotated[
    str | None,
    option(
        "Shipped model or model folder; default: rscc-base, from 8 m per pixel rscc-medium",
        "MODEL",
        "--model",
        panel="Detection",
    ),
]
DetectorOption = Annotated[
    str | None,
    option(
        "Network that finds the changes in place of the model's: torchgeo:FILE, a checkpoint of TorchGeo",
        "torchgeo:FILE",
        "--detector",
        panel="Detection",
    ),
]
DeviceOption = Annotated[
    str, option("Where to compute: auto, cpu, cuda, cuda:1 or mps", "DEVICE", "--device")
]
OverwriteOption = Annotated[bool, switch("--overwrite", "Replace existing outputs", "Output")]
HtmlFolderOption = Annotated[
    Path | None,
    option(
        "Write a web page with both scenes at full detail into a folder",
        "DIR",
        "--html-folder",
        panel="Output",
        hidden=True,
    ),
]
HtmlSizeOption = Annotated[
    str,
    option("Size limit of the web page, such as 20MB", "SIZE", "--html-size", panel="Output", hidden=True),
]
QuietOption = Annotated[bool, option("No progress bar, no summary", None, "--quiet", "-q", panel="Output")]
JsonOption = Annotated[bool, switch("--json", "Print the result as JSON on stdout", "Output")]
ProgressOption = Annotated[
    ProgressForm,
    option(
        "auto: a bar on a terminal; json: one line of JSON per event on stderr",
        "FORM",
        "--progress",
        hidden=True,
        callback=_set_events,
        # Processed first, so that errors in other options are printed as events too.
        is_eager=True,
    ),
]
DebugOption = Annotated[
    bool, switch("--debug", "Print the traceback of an error", hidden=True, callback=set_debug)
]

_COMMON = [
    inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=declared)
    for name, default, declared in (
        ("quiet", False, QuietOption),
        ("as_json", False, JsonOption),
        ("progress", ProgressForm.auto, ProgressOption),
        ("debug", False, DebugOption),
    )
]
# Fields of :class:`workflows.options.SceneOptions` by their use, for :func:`takes_options`.
READING = (
    "bands", "band_names", "scale", "normalize", "align", "frame", "gsd", "bounds", "area", "offline",
    "date_before", "date_after", "force",
)  # fmt: skip
DETECTION = (
    "threshold",
    "min_area",
    "group_distance",
    "regularize",
    "only",
    "direction",
    "ground",
    "fast",
    "batch_size",
    "memory",
)


def takes_options(
    kind: type[Options] = Options, *names: str
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Turn parameters of a command into options of the command line, sorted by panel of the help.

    ``options`` becomes the options of the fields ``names`` of ``kind``; other fields keep their default.
    ``terminal`` becomes ``--debug`` and the options of :class:`Terminal`, except those that the command
    declares itself.

    Raises:
        OptionInvalid: raised by the command, for a text that cannot be parsed or a value out of range.
    """
    fields = {name: option_parameter(kind, name) for name in names}

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        own = [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for parameter in signature.parameters.values()
            if parameter.name not in ("options", "terminal")
        ]
        common = [each for each in _COMMON if each.name not in signature.parameters]

        @wraps(command)
        def run(**values: Any) -> None:
            shared = {each.name: values.pop(each.name) for each in common}
            terminal = Terminal(
                shared.get("progress") == ProgressForm.json,
                shared.get("quiet", False),
                shared.get("as_json", False),
            )
            given = {name: values.pop(field.name) for name, field in fields.items()}
            if fields:
                values["options"] = kind.read(given)
            command(terminal=terminal, **values)

        shown = [*own, *fields.values(), *common]
        if any(_panel_number(each) == 0 for each in shown):  # else the help has no panels
            shown.sort(key=_panel_number)
        # Typer reads the options from these.
        run.__signature__ = signature.replace(parameters=shown)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
        return run

    return decorate


_type_hints = cache(get_type_hints)


def option_parameter(kind: type[Options], name: str) -> inspect.Parameter:
    """Return the parameter of a command for one field."""
    described, flag, default = kind.option(name), kind.flag(name), getattr(kind, name)
    declared = typer.Option(
        # An option that is on by default can be switched off.
        f"{flag}/--no-{flag.removeprefix('--')}" if default is True else flag,
        metavar=described.metavar,
        help=described.help,
        hidden=described.hidden,
        rich_help_panel=described.panel,
    )
    value = _type_hints(kind)[name]  # type: ignore[arg-type]
    if value in (tuple[str, ...], tuple[str, ...] | None):
        value = list[str] if value == tuple[str, ...] else list[str] | None
    elif described.read is not None:
        value = str | None
    return inspect.Parameter(
        name if flag == "--from" else flag.removeprefix("--").replace("-", "_"),  # from is a keyword
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[value, declared],
    )


def _panel_number(parameter: inspect.Parameter) -> int:
    """Return the position of a parameter's panel; arguments come first."""
    details = [each for each in getattr(parameter.annotation, "__metadata__", ()) if hasattr(each, "help")]
    if not details or isinstance(details[0], typer.models.ArgumentInfo):
        return -1
    panels = get_args(Panel)
    panel = details[0].rich_help_panel
    return panels.index(panel) if panel in panels else len(panels)

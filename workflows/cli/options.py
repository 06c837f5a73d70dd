"""What the commands' options have in common: their declarations, and how their texts are read."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import StrEnum
from functools import cache, wraps
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import typer

from workflows.options import Options

# Written out, so that the help needs no torch; a test compares them with the registries.
Paper = StrEnum("Paper", "scorer dirl cheers rdd davir")
Dataset = StrEnum(
    "Dataset",
    "levir_cc dubai_cc clevr_change clevr_dc spot_the_diff spot_the_diff_multi image_editing_request",
)


def _set_debug(context: typer.Context, value: bool) -> bool:
    if value and hasattr(context.obj, "debug"):
        context.obj.debug = True
    return value


ProgressForm = StrEnum("ProgressForm", ["auto", "json"])


def _set_events(context: typer.Context, value: ProgressForm) -> ProgressForm:
    if hasattr(context.obj, "events"):
        context.obj.events = value == ProgressForm.json
    return value


# Read first, so that an error in the other options is an event, too.
ProgressOption = Annotated[
    ProgressForm,
    typer.Option(
        "--progress",
        callback=_set_events,
        is_eager=True,
        help="auto: a bar where stderr is a terminal; json: a line of JSON on stderr for each event.",
    ),
]
Debug = Annotated[
    bool, typer.Option("--debug", callback=_set_debug, help="Show the traceback of an unexpected error.")
]
ModelOption = Annotated[str, typer.Option("--model", help="Name of a shipped model, or a model folder.")]
DeviceOption = Annotated[str, typer.Option("--device", help="auto, cpu, cuda, cuda:1 or mps.")]
BeforeArgument = Annotated[
    str, typer.Argument(metavar="BEFORE", help="Raster of the earlier date: a file, zip, /vsi path or URL.")
]
AfterArgument = Annotated[
    str, typer.Argument(metavar="AFTER", help="Raster of the later date, named in the same ways.")
]

HtmlSizeOption = Annotated[
    str,
    typer.Option("--html-size", metavar="SIZE", help="What the page may take, pictures and all: 8MB, 20MB."),
]
HtmlFolderOption = Annotated[
    Path | None,
    typer.Option(
        "--html-folder",
        metavar="DIR",
        help="Write the page as a folder, with both scenes at full detail as files beside it.",
    ),
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar, no summary.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print a machine-readable summary on stdout.")]

_PREFIXES = "kmgt"
# Characters of a wrong value that are shown.
_SHOWN = 60
# More digits than these are no memory of any machine.
_SIZE = re.compile(r"(\d{1,18}(?:\.\d{1,18})?)\s*([kmgt])(i?)b?", re.IGNORECASE)


def read_bands(text: str) -> tuple[int | str, int | str, int | str]:
    """Parse ``3,2,1`` or ``B04,B03,B02``, numbers or names; OptionInvalid where there are not three."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) == 3 and all(parts):
        with suppress(ValueError):  # more digits than Python reads
            red, green, blue = (int(part) if part.isdecimal() else part for part in parts)
            return red, green, blue
    raise _invalid("--bands", text, "three band numbers or names such as 3,2,1 or B04,B03,B02")


def read_names(texts: list[str]) -> tuple[str, ...]:
    """Parse ``swir16,nir,red,green``, in one text or several."""
    return tuple(name.strip() for text in texts for name in text.split(","))


def read_scale(text: str) -> tuple[float, float] | Literal["reflectance"]:
    """Parse ``0,3000`` or ``reflectance``; OptionInvalid where it is neither."""
    if text == "reflectance":
        return "reflectance"
    expected = "the lowest and the highest value to show, such as 0,3000, or the word reflectance"
    low, high = _numbers(text, float, 2, "--scale", expected)
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise _invalid("--scale", text, expected)
    return low, high


def read_size(text: str, option: str) -> int:
    """Parse a size above 0 with its unit, ``2GB``, ``1500M``, ``1.5 GiB``, into bytes; else OptionInvalid."""
    size = 0
    if match := _SIZE.fullmatch(text.strip()):
        number, prefix, binary = match.groups()
        size = int(float(number) * (1024 if binary else 1000) ** (_PREFIXES.index(prefix.lower()) + 1))
    if size < 1:
        raise _invalid(option, text, "a size with its unit, such as 2GB or 1500MB")
    return size


def read_place(text: str) -> tuple[float, float]:
    """Parse ``LON,LAT``; OptionInvalid where these are not a longitude and a latitude."""
    expected = "longitude,latitude in degrees"
    lon, lat = _numbers(text, float, 2, "--at", expected)
    if not (-180 <= lon <= 180 and -90 <= lat <= 90):
        raise _invalid("--at", text, expected)
    return lon, lat


def _numbers(text: str, kind: type, count: int, option: str, expected: str) -> tuple:
    """Parse as many numbers as expected, with commas between them."""
    try:
        numbers = tuple(kind(part) for part in text.split(","))
    except ValueError:
        raise _invalid(option, text, expected) from None
    if len(numbers) != count:
        raise _invalid(option, text, expected)
    return numbers


def _invalid(option: str, text: str, expected: str) -> Exception:
    from workflows.errors import OptionInvalid

    return OptionInvalid(f"{option} {text[:_SHOWN]!r}: give {expected}")


# How a pair is read, and when it was taken: names of fields that every command that reads one offers.
READING = ("bands", "band_names", "scale", "normalize", "align", "frame", "gsd", "bounds", "offline")
DATES = ("date_before", "date_after")
# What counts as a change, how it is drawn and described, and how the work is done.
FINDING = (
    "threshold", "min_area", "group_distance", "regularize", "refine", "ground", "focus_captions", "beams",
    "fast", "batch_size", "memory",
)  # fmt: skip
# Fields whose value is read from a text.
READERS: dict[str, Callable[[Any], Any]] = {
    "bands": read_bands,
    "band_names": read_names,
    "scale": read_scale,
    "memory": lambda text: read_size(text, "--memory"),
    "bounds": lambda text: _numbers(text, float, 4, "--bbox", "west,south,east,north in degrees"),
    "at": read_place,
    "pixel": lambda text: _numbers(
        text, int, 2, "--window", "column,row of the image before, counted from 0"
    ),
    "assets": tuple,
    "collections": tuple,
    "allow_hosts": tuple,
}


def takes_options(
    kind: type[Options], **behind: Sequence[str]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Turn the parameter ``options`` of a command into the options that the fields of ``kind`` describe.

    Each keyword is a parameter of the command, and its value the fields whose options follow that one in the
    help. What a command does not offer keeps its default.

    Raises:
        OptionInvalid: by the command, where a text cannot be read or a value is out of its range.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        offered: dict[str, str] = {}  # the field, by the name of its parameter
        parameters: list[inspect.Parameter] = []
        for parameter in signature.parameters.values():
            parameters += [parameter] if parameter.name != "options" else []
            for name in behind.get(parameter.name, ()):
                parameters.append(option_parameter(kind, name))  # type: ignore[arg-type]
                offered[parameters[-1].name] = name

        @wraps(command)
        def run(**values: Any) -> None:
            given = {name: values.pop(parameter) for parameter, name in offered.items()}
            texts = {name: given[name] for name in READERS if given.get(name) is not None}
            given |= {name: READERS[name](text) for name, text in texts.items()}
            command(options=kind(**given), **values)

        # What typer reads the command line by.
        run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate


@cache
def option_parameter(kind: type[Options], name: str) -> inspect.Parameter:
    """Return the parameter of a command for a field, named as its option is."""
    facts = kind.option(name)
    flag = kind.flag(name)
    # What is on by default can be switched off.
    names = f"{flag}/--no-{flag.removeprefix('--')}" if getattr(kind, name) is True else flag
    declared = typer.Option(names, metavar=facts.metavar, help=facts.help)
    value = get_type_hints(kind)[name]
    if value in (tuple[str, ...], tuple[str, ...] | None):
        value = list[str] if value == tuple[str, ...] else list[str] | None
    elif name in READERS:
        value = str | None
    return inspect.Parameter(
        # ``from`` is no name that Python has.
        name if flag == "--from" else flag.removeprefix("--").replace("-", "_"),
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        default=getattr(kind, name),
        annotation=Annotated[value, declared],
    )

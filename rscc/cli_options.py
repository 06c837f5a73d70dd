"""What the commands' options have in common: their declarations, and how their texts are read."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from workflows.options import SceneOptions

# Written out, so that the help needs no torch; a test compares them with the registries.
Paper = StrEnum("Paper", ["scorer", "dirl", "cheers", "rdd", "davir"])
Dataset = StrEnum(
    "Dataset",
    [
        "levir_cc",
        "dubai_cc",
        "clevr_change",
        "clevr_dc",
        "spot_the_diff",
        "spot_the_diff_multi",
        "image_editing_request",
    ],
)
Focus = StrEnum("Focus", ["mask", "others", "weight", "zoom", "none"])


def _set_debug(context: typer.Context, value: bool) -> bool:
    if value and hasattr(context.obj, "debug"):
        context.obj.debug = True
    return value


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

# How a pair is read: the same options for every command that reads one.
BandsOption = Annotated[
    str | None,
    typer.Option(
        "--bands",
        metavar="R,G,B",
        help="Bands shown to the model: numbers from 1 or names (3,2,1; B04,B03,B02).",
    ),
]
BoundsOption = Annotated[
    str | None,
    typer.Option("--bbox", metavar="W,S,E,N", help="Only this box, in degrees of longitude and latitude."),
]
ScaleOption = Annotated[
    str | None,
    typer.Option(
        "--scale",
        metavar="LOW,HIGH",
        help="Pixel values shown as black and white, or the word reflectance; default: fitted on both dates.",
    ),
]
GsdOption = Annotated[
    float | None, typer.Option("--gsd", help="Metres per pixel to work at; default: the model's.")
]
NormalizeOption = Annotated[
    bool,
    typer.Option(
        "--normalize", help="Bring the light of AFTER to that of BEFORE, judged by unchanged pixels."
    ),
]
AlignOption = Annotated[
    bool, typer.Option("--align", help="Move AFTER onto BEFORE by the shift measured between them.")
]
ForceOption = Annotated[
    bool, typer.Option("--force", help="Work on scenes that are coarser than the model is meant for.")
]
_DATE_HELP = "2019, 2019-08 or 2019-08-31; default: from tags or file name."
DateBeforeOption = Annotated[str | None, typer.Option("--date-before", metavar="DATE", help=_DATE_HELP)]
DateAfterOption = Annotated[str | None, typer.Option("--date-after", metavar="DATE", help=_DATE_HELP)]

# What counts as a change, and how it is drawn and described.
ThresholdOption = Annotated[
    float | None,
    typer.Option("--threshold", help="Probability from which a pixel is changed; default: the model's."),
]
MinAreaOption = Annotated[
    float, typer.Option("--min-area", help="Leave out changes smaller than this, in square metres.")
]
GroupDistanceOption = Annotated[
    float,
    typer.Option(
        "--group-distance",
        metavar="M",
        help="Changes at most this many metres apart are one event with one caption; 0: each alone.",
    ),
]
RegularizeOption = Annotated[
    bool, typer.Option("--regularize", help="Give outlines right angles where that hardly changes them.")
]
RefineOption = Annotated[
    str | None,
    typer.Option(
        "--refine",
        metavar="SEGMENTER",
        help="Redraw outlines by a segmenter: sam:FOLDER or mobile_sam:FILE.",
    ),
]
FocusOption = Annotated[
    Focus,
    typer.Option(
        "--focus-captions", help="How words keep to their polygon where several changes share a crop."
    ),
]

# How a pair is worked through.
BatchSizeOption = Annotated[int, typer.Option("--batch-size", help="Tiles given to the model at once.")]
MemoryOption = Annotated[
    str | None,
    typer.Option("--memory", metavar="SIZE", help="Memory that the run may take, such as 2GB or 1500MB."),
]
BeamsOption = Annotated[int, typer.Option("--beams", help="Width of the caption search, 1 to 20.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar, no summary.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print a machine-readable summary on stdout.")]

_PREFIXES = "kmgt"
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt])(i?)b?", re.IGNORECASE)


def scene_options(values: Mapping[str, Any]) -> SceneOptions:
    """Return what a command was told of reading and working through pairs.

    ``values`` are the parameters of the command by name (``context.params``); those that no pair of scenes
    has are passed over, and what a command does not ask for keeps its default.

    Raises:
        OptionInvalid: a text cannot be read, or a value is outside its range.
    """
    from dataclasses import fields

    from workflows.options import SceneOptions

    readers: dict[str, Callable[[str], Any]] = {
        "bands": read_bands,
        "scale": read_scale,
        "memory": read_memory,
        "focus_captions": str,
    }
    known = {field.name for field in fields(SceneOptions)}
    given = {name: value for name, value in values.items() if name in known}
    given |= {name: read(given[name]) for name, read in readers.items() if name in given}
    return SceneOptions(bounds=read_bounds(values.get("bbox")), **given)


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Say which extra to install when a package outside this distribution is missing."""
    from rscc.errors import ExtraNotInstalled

    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("rscc", "tiling", "workflows"):
            raise
        raise ExtraNotInstalled(f"this command needs {package}: pip install 'rscc[{name}]'") from error


def read_bands(text: str | None) -> tuple[int | str, int | str, int | str] | None:
    """Parse ``3,2,1`` or ``B04,B03,B02``; what is no number is a name, of which a file knows more.

    Raises:
        OptionInvalid: not three parts.
    """
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 3 or not all(parts):
        raise _invalid("--bands", text, "three band numbers or names such as 3,2,1 or B04,B03,B02")
    red, green, blue = (int(part) if part.isdecimal() else part for part in parts)
    return red, green, blue


def read_scale(text: str | None) -> tuple[float, float] | Literal["reflectance"] | None:
    """Parse ``0,3000`` or ``reflectance``.

    Raises:
        OptionInvalid: neither.
    """
    if text is None:
        return None
    if text == "reflectance":
        return "reflectance"
    wanted = "the lowest and the highest value to show, such as 0,3000, or the word reflectance"
    low, high = _numbers(text, float, 2, "--scale", wanted)
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise _invalid("--scale", text, wanted)
    return low, high


def read_memory(text: str | None) -> int | None:
    """Parse a size with its unit into bytes: ``2GB``, ``1500 MB``, ``1.5GiB``; B may be left out.

    Raises:
        OptionInvalid: no number above 0 with such a unit.
    """
    if text is None:
        return None
    found = _SIZE.fullmatch(text.strip())
    size = 0
    if found:
        number, prefix, binary = found.groups()
        size = int(float(number) * (1024 if binary else 1000) ** (_PREFIXES.index(prefix.lower()) + 1))
    if size < 1:
        raise _invalid("--memory", text, "a size with its unit, such as 2GB or 1500MB")
    return size


def read_bounds(text: str | None) -> tuple[float, float, float, float] | None:
    """Parse ``W,S,E,N``.

    Raises:
        OptionInvalid: not four numbers.
    """
    if text is None:
        return None
    west, south, east, north = _numbers(text, float, 4, "--bbox", "west,south,east,north in degrees")
    return west, south, east, north


def read_place(text: str | None) -> tuple[float, float] | None:
    """Parse ``LON,LAT``.

    Raises:
        OptionInvalid: not two numbers that are a longitude and a latitude.
    """
    if text is None:
        return None
    lon, lat = _numbers(text, float, 2, "--at", "longitude,latitude in degrees")
    if not (-180 <= lon <= 180 and -90 <= lat <= 90):
        raise _invalid("--at", text, "longitude,latitude in degrees")
    return lon, lat


def read_pixel(text: str | None) -> tuple[int, int] | None:
    """Parse ``COL,ROW``.

    Raises:
        OptionInvalid: not two whole numbers.
    """
    if text is None:
        return None
    col, row = _numbers(text, int, 2, "--window", "column,row of the image before, counted from 0")
    return col, row


def _numbers(text: str, kind: type, count: int, option: str, wanted: str) -> list:
    try:
        numbers = [kind(part) for part in text.split(",")]
    except ValueError:
        raise _invalid(option, text, wanted) from None
    if len(numbers) != count:
        raise _invalid(option, text, wanted)
    return numbers


def _invalid(option: str, text: str, wanted: str) -> Exception:
    from workflows.errors import OptionInvalid

    return OptionInvalid(f"{option} {text!r}: give {wanted}")

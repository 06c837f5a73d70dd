"""What the commands' options have in common: their declarations, and how their texts are read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated

import typer

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


def _set_debug(context: typer.Context, value: bool) -> bool:
    if value and hasattr(context.obj, "debug"):
        context.obj.debug = True
    return value


Debug = Annotated[
    bool, typer.Option("--debug", callback=_set_debug, help="Show the traceback of an unexpected error.")
]
ModelOption = Annotated[str, typer.Option("--model", help="Name of a shipped model, or a model folder.")]
DeviceOption = Annotated[str, typer.Option("--device", help="auto, cpu, cuda, cuda:1 or mps.")]
BeforeArgument = Annotated[str, typer.Argument(metavar="BEFORE", help="Raster of the earlier date.")]
AfterArgument = Annotated[str, typer.Argument(metavar="AFTER", help="Raster of the later date.")]
BandsOption = Annotated[
    str | None,
    typer.Option("--bands", metavar="R,G,B", help="Bands shown to the model, counted from 1: 3,2,1."),
]
ForceOption = Annotated[
    bool, typer.Option("--force", help="Work on scenes that are coarser than the model is meant for.")
]
DATE_HELP = "2019, 2019-08 or 2019-08-31; default: from tags or file name."


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


def read_bands(text: str | None) -> tuple[int, int, int] | None:
    """Parse ``3,2,1``.

    Raises:
        OptionInvalid: not three whole numbers.
    """
    if text is None:
        return None
    red, green, blue = _numbers(text, int, 3, "--bands", "three band numbers such as 3,2,1")
    return red, green, blue


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

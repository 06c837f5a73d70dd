"""Choose the red, green and blue band: as requested, else by what the file says, else by order."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tiling.band_names import COLORS, band_names, short_name, spectral_bands, telling_names
from tiling.errors import BandNotFound, PixelTypeUnsupported, TooFewBands
from tiling.scene import SceneInfo

# With more bands the first three are seldom red, green and blue: many files hold blue, green, red and near
# infrared.
MOST_IN_ORDER = 3
MOST_LISTED = 16

Numbers = tuple[int, int, int]
BandRequest = tuple[int | str, int | str, int | str]


@dataclass(frozen=True)
class BandChoice:
    """Three bands of one scene.

    Attributes:
        numbers: of red, green and blue, from 1.
        how: "request", "color", "name", "order", "gray" (one band three times) or "palette" (the colour
            table of the one band).
        warning: why the choice may be wrong, one line, or None.
    """

    numbers: Numbers
    how: str
    warning: str | None = None


def choose_bands(info: SceneInfo, requested: BandRequest | None = None) -> BandChoice:
    """Return the bands of a scene to use: those ``requested``, by number or name, else the likeliest.

    A name is that of a band (``B04`` is also found as ``b4``), its colour in the file, or ``red``, ``green``
    or ``blue`` if the names together tell the sensor.

    Raises:
        BandNotFound: there is no such band; the message lists the bands.
        TooFewBands: there is only a mask.
        PixelTypeUnsupported: a band has complex pixels.
    """
    if requested is not None:
        red, green, blue = (number_of(info, band) for band in requested)
        choice = BandChoice((red, green, blue), "request" if info.palette is None else "palette")
    else:
        choice = _likeliest(info)
    for band in choice.numbers:
        if info.dtypes[band - 1].startswith("complex"):
            raise PixelTypeUnsupported(
                f"{info.path}: band {band} has complex pixels; give amplitudes or reflectances"
            )
    return choice


def _likeliest(info: SceneInfo) -> BandChoice:
    if info.palette is not None:
        return BandChoice((1, 1, 1), "palette")
    seen = [number for number, color in enumerate(info.colors, start=1) if color != "alpha"]
    if not seen:
        raise TooFewBands(f"{info.path}: it has only an alpha band; give a scene with other bands")
    by_name = _by_name(info)
    if set(COLORS) <= set(info.colors):
        red, green, blue = (info.colors.index(color) + 1 for color in COLORS)
        warning = _contradiction(info, (red, green, blue), by_name) or unnamed_band(info, "undefined")
        return BandChoice((red, green, blue), "color", warning)
    if by_name is not None:
        return BandChoice(by_name, "name")
    if len(seen) < 3:
        only = "its only band" if len(seen) == 1 else f"band {seen[0]} of its {len(seen)} bands"
        warning = f"{info.path}: {only} is used as grey; for good captions give red, green and blue"
        return BandChoice((seen[0], seen[0], seen[0]), "gray", warning)
    first = (seen[0], seen[1], seen[2])
    named = telling_names(info)
    if len(seen) <= MOST_IN_ORDER and not named:
        return BandChoice(first, "order")
    what = f"bands named {_listed(named)}" if named else f"{len(seen)} bands without names"
    shown = ",".join(map(str, first))
    warning = (
        f"{info.path}: it has {what}; {shown} are used as red, green and blue; set --bands, and --band-names "
        "so that near infrared is used, too"
    )
    return BandChoice(first, "order", warning)


def _contradiction(info: SceneInfo, chosen: Numbers, by_name: Numbers | None) -> str | None:
    """Warn if colours and names disagree: many programs call any first three bands red, green and blue."""
    if by_name in (None, chosen):
        return None
    named = ",".join(map(str, by_name or ()))
    return (
        f"{info.path}: red, green and blue are bands {','.join(map(str, chosen))} by its colours, {named} by "
        f"its names; the colours were used, --bands {named} uses the names"
    )


def unnamed_band(info: SceneInfo, color: str) -> str | None:
    """Warn if a band of a ``color`` has no name: near infrared tells plants and water best."""
    if color not in info.colors or telling_names(info):
        return None
    names = ",".join(own if own in COLORS else "nir" for own in info.colors)
    return (
        f"{info.path}: band {info.colors.index(color) + 1} has no name and is not used; if it is near "
        f"infrared, --band-names {names} says so"
    )


def number_of(info: SceneInfo, band: int | str) -> int:
    """Return the number, from 1, of a band given by number, name or colour; see :func:`choose_bands`.

    Raises:
        BandNotFound: there is no such band, or several have that name.
    """
    text = str(band).strip()
    if re.fullmatch(r"[-+]?\d+", text):
        if 1 <= int(text) <= info.count:
            return int(text)
        raise BandNotFound(f"{info.path}: there is no band {text}; choose among {_there(info)}")
    names = band_names(info)
    colors = ["" if color == "undefined" else color for color in info.colors]
    for candidates, key in (
        ([name.casefold() for name in names], text.casefold()),
        ([short_name(name) for name in names], short_name(text)),
        (colors, text.casefold()),
    ):
        if key and candidates.count(key) > 1:
            raise BandNotFound(f"{info.path}: several bands are called {text}; give the number of one")
        if key and key in candidates:
            return candidates.index(key) + 1
    meant = _by_name(info)
    if meant is not None and text.casefold() in COLORS:
        return meant[COLORS.index(text.casefold())]
    raise BandNotFound(f"{info.path}: there is no band {text}; choose among {_there(info)}")


def _there(info: SceneInfo) -> str:
    """List the numbers and names of the bands."""
    numbers = "1" if info.count == 1 else f"1 to {info.count}"
    names = [name for name in band_names(info) if name] or [c for c in info.colors if c != "undefined"]
    return f"{numbers} ({_listed(names)})" if names else numbers


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:MOST_LISTED]) + (", ..." if len(names) > MOST_LISTED else "")


def _by_name(info: SceneInfo) -> Numbers | None:
    """Return the red, green and blue band by the names, or None."""
    parts = spectral_bands(info)
    return (parts["red"], parts["green"], parts["blue"]) if parts.keys() >= set(COLORS) else None

"""Which three bands of a scene are looked at as red, green and blue.

Bands are asked for by number or by name; else what the file says of them decides, and where it says nothing
their order does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tiling.errors import BandNotFound, PixelTypeUnsupported, TooFewBands
from tiling.scene import SceneInfo

COLORS = ("red", "green", "blue")
# With more bands than these, the first three are seldom red, green and blue.
MOST_IN_ORDER = 4
# A name like "Band 3" says no more than the number does.
_NO_NAME = re.compile(r"(band|layer|channel)?[\s_-]*\d*", re.IGNORECASE)
_SENSOR_BAND = re.compile(r"(sr_)?b(\d{1,2}a?)", re.IGNORECASE)
MOST_LISTED = 16

Numbers = tuple[int, int, int]
BandRequest = tuple[int | str, int | str, int | str]


@dataclass(frozen=True)
class BandChoice:
    """Three bands of one scene.

    Attributes:
        numbers: of red, green and blue, from 1.
        how: what they were chosen by: "request", "color", "name", "order", "gray" (one band shown three
            times) or "palette" (the colours that a table gives to the one band).
        warning: why the choice may be wrong, one line; None where it is sure.
    """

    numbers: Numbers
    how: str
    warning: str | None = None


def choose_bands(info: SceneInfo, requested: BandRequest | None = None) -> BandChoice:
    """Return the bands to take of a scene: those ``requested``, by number or name, else the likeliest.

    A name is that of a band in the file (``B04`` is also found as ``b4``), a colour that the file gives to
    one, or ``red``, ``green`` or ``blue`` where all its names together say which sensor took it.

    Raises:
        BandNotFound: there is no such band; the message lists those there are.
        TooFewBands: there is nothing to look at but a mask.
        PixelTypeUnsupported: a band has complex pixels.
    """
    if requested is not None:
        red, green, blue = (_number_of(info, band) for band in requested)
        choice = BandChoice((red, green, blue), "request" if info.palette is None else "palette")
    else:
        choice = _likeliest(info)
    for band in choice.numbers:
        if info.dtypes[band - 1].startswith("complex"):
            raise PixelTypeUnsupported(
                f"{info.path}: band {band} has complex pixels; give amplitudes or reflectances instead"
            )
    return choice


def _likeliest(info: SceneInfo) -> BandChoice:
    if info.palette is not None:
        return BandChoice((1, 1, 1), "palette")
    seen = [number for number, color in enumerate(info.colors, start=1) if color != "alpha"]
    if not seen:
        raise TooFewBands(f"{info.path}: it has only an alpha band; give a scene with a picture beside it")
    by_name = _by_name(band_names(info))
    if set(COLORS) <= set(info.colors):
        red, green, blue = (info.colors.index(color) + 1 for color in COLORS)
        return BandChoice((red, green, blue), "color", _contradiction(info, (red, green, blue), by_name))
    if by_name is not None:
        return BandChoice(by_name, "name")
    if len(seen) < 3:
        only = "its only band" if len(seen) == 1 else f"band {seen[0]} of its {len(seen)} bands"
        warning = (
            f"{info.path}: {only} is shown in grey; expect little of the words, or give a scene with red, "
            "green and blue"
        )
        return BandChoice((seen[0], seen[0], seen[0]), "gray", warning)
    first = (seen[0], seen[1], seen[2])
    named = telling_names(info)
    if len(seen) <= MOST_IN_ORDER and not named:
        return BandChoice(first, "order")
    what = f"bands named {_listed(named)}" if named else f"{len(seen)} bands without names"
    shown = ",".join(map(str, first))
    warning = f"{info.path}: it has {what}; bands {shown} are taken for red, green and blue; say --bands"
    return BandChoice(first, "order", warning)


def _contradiction(info: SceneInfo, chosen: Numbers, by_name: Numbers | None) -> str | None:
    """Many programs call the first three bands red, green and blue whatever they are."""
    if by_name in (None, chosen):
        return None
    named = ",".join(map(str, by_name or ()))
    return (
        f"{info.path}: its colours say that bands {','.join(map(str, chosen))} are red, green and blue, its "
        f"names say {named}; the colours were followed, --bands {named} follows the names"
    )


def _number_of(info: SceneInfo, band: int | str) -> int:
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
    meant = _by_name(names)
    if meant is not None and text.casefold() in COLORS:
        return meant[COLORS.index(text.casefold())]
    raise BandNotFound(f"{info.path}: there is no band {text}; choose among {_there(info)}")


def _there(info: SceneInfo) -> str:
    """List the bands: their numbers and what they can be called."""
    numbers = "1" if info.count == 1 else f"1 to {info.count}"
    names = [name for name in band_names(info) if name] or [c for c in info.colors if c != "undefined"]
    return f"{numbers} ({_listed(names)})" if names else numbers


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:MOST_LISTED]) + (", ..." if len(names) > MOST_LISTED else "")


def band_names(info: SceneInfo) -> list[str]:
    """Return the names of the bands without what explains them: "B4, central wavelength 665 nm" is "B4"."""
    return [re.split(r"[,;:(]", text or "")[0].strip() for text in info.descriptions]


def telling_names(info: SceneInfo) -> list[str]:
    """Return the names of bands that say something of what they show."""
    return [name for name in band_names(info) if not _NO_NAME.fullmatch(name)]


def short_name(name: str) -> str:
    """Return a name in small letters; of a sensor's band without prefix and leading zeros: b4, b8a."""
    band = _SENSOR_BAND.fullmatch(name)
    return f"b{band[2].lstrip('0')}".casefold() if band else name.casefold()


def _by_name(names: Sequence[str]) -> Numbers | None:
    """Return the bands that all the names together say are red, green and blue; None where they do not."""
    plain = [name.casefold() for name in names]
    short = [short_name(name) for name in names]
    sensor = {key for key, name in zip(short, names, strict=True) if _SENSOR_BAND.fullmatch(name)}
    for keys, candidates in ((COLORS, plain), (("r", "g", "b"), plain), (sensor_keys(names, sensor), short)):
        if keys and all(candidates.count(key) == 1 for key in keys):
            red, green, blue = (candidates.index(key) + 1 for key in keys)
            return red, green, blue
    return None


def sensor_keys(names: Sequence[str], sensor: set[str]) -> tuple[str, ...]:
    """Return what a sensor calls red, green and blue.

    Blue, green and red are bands 2, 3 and 4 of Sentinel-2 and of Landsat 8 and 9, but 1, 2 and 3 of the
    earlier Landsats, whose surface reflectances have no band 6. Bands 1 to 7 may be either's.
    """
    padded = any(re.fullmatch(r"B0\d", name, re.IGNORECASE) for name in names)
    reflectance = any(name.casefold() == "sr_b6" for name in names)
    if padded or reflectance or "b1" not in sensor or sensor & {"b8a", "b9", "b10", "b11", "b12"}:
        return "b4", "b3", "b2"
    return ("b3", "b2", "b1") if "b7" in sensor and "b6" not in sensor else ()

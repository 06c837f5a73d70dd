"""What the names of bands tell: parts of the spectrum in words, wavelengths, or the bands of a sensor."""

import re
from collections.abc import Mapping, Sequence

from tiling.scene import SceneInfo

COLORS = ("red", "green", "blue")
SPECTRAL = ("blue", "green", "red", "nir", "swir16", "swir22")
"""Parts of the spectrum, by STAC common names."""

# Words by part, the first that fits; of None the parts have a colour in their name but are another.
_WORDS: tuple[tuple[str | None, str], ...] = (
    (None, r"red ?edge|re ?\d|coastal.*|ultra ?blue|deep ?blue|green i|yellow|nir ?09|pan(chromatic)?"),
    ("swir22", r"swir ?2|swir ?22|short ?-?wave infra ?red 2"),
    ("swir16", r"swir ?1?|swir ?16|short ?-?wave infra ?red( 1)?"),
    ("nir", r"nir|nir ?08|near ?-?infra ?red"),
    ("red", "red|rouge|rot|rojo|rosso|vermelho|rood"),
    ("green", "green|vert|gr(ue)? ?n|verde|groen"),
    ("blue", "blue|bleu|blau|azul|blu|blauw"),
)
_LETTERS = {"r": "red", "g": "green", "b": "blue", "n": "nir"}
# Nanometres in which a part lies, and its middle.
_WAVELENGTHS = {
    "blue": (455, 490, 520),
    "green": (520, 560, 600),
    "red": (625, 660, 695),
    "nir": (770, 850, 900),
    "swir16": (1540, 1610, 1700),
    "swir22": (2060, 2200, 2350),
}
_NUMBER = r"(\d+(?:\.\d+)?)"
_WAVELENGTH = re.compile(rf"(?:{_NUMBER} ?(?:-|to) ?)?{_NUMBER} ?(nm|nano\w*|[uµμ]m|micro\w*)\b")
# The metres per pixel and the end of a file behind a name: B02_10m, B02.jp2.
_RESOLUTION = re.compile(r"([\s_-]+\d+ ?m)?(\.(jp2|tiff?))?$", re.IGNORECASE)
_SENSOR_BAND = re.compile(r"(?:^|.*[\s_.-])?(sr[\s_-]?)?b(?:and)?[\s_-]*(0?)(\d{1,2}a?)", re.IGNORECASE)
# Names like "Band 3" of the third band say no more than the number.
_NO_NAME = re.compile(r"(?:band|layer|channel)?[\s_-]*0*(\d*)", re.IGNORECASE)

_VISIBLE = {"b2": "blue", "b3": "green", "b4": "red"}
_SENTINEL = {**_VISIBLE, "b8a": "nir", "b8": "nir", "b11": "swir16", "b12": "swir22"}
_LANDSAT_8 = {**_VISIBLE, "b5": "nir", "b6": "swir16", "b7": "swir22"}
_MODIS = {"b1": "red", "b2": "nir", "b3": "blue", "b4": "green", "b6": "swir16", "b7": "swir22"}
_LANDSAT_4 = {"b1": "blue", "b2": "green", "b3": "red", "b4": "nir", "b5": "swir16", "b7": "swir22"}


def band_names(info: SceneInfo) -> list[str]:
    """Return the names of the bands without explanations: "B4" of "B4, central wavelength 665 nm"."""
    return [_without_explanation(text or "") for text in info.descriptions]


def telling_names(info: SceneInfo) -> list[str]:
    """Return the names that are more than the numbers of the bands."""
    numbers = [_NO_NAME.fullmatch((text or "").strip()) for text in info.descriptions]
    if all(match and match[1] in ("", str(n)) for n, match in enumerate(numbers, start=1)):
        return []  # but "Band 2" of the first band is the second of a sensor
    return [name for name in band_names(info) if name]


def short_name(name: str) -> str:
    """Return a name in lower case; bands of sensors without prefix and leading zeros: b4, b8a."""
    band = _SENSOR_BAND.fullmatch(_RESOLUTION.sub("", name))
    return f"b{band[3]}".casefold() if band else name.casefold()


def spectral_bands(info: SceneInfo) -> dict[str, int]:
    """Return the numbers, from 1, of bands by part of the spectrum, as far as their names tell.

    Names hold words or letters, wavelengths, or bands of Sentinel-2 (recognised by B8, B8A, B11 or B12),
    Landsat (``SR_B5``; of 4 to 7 if there is a band 7 and no 6) or MODIS (``sur_refl_b01``). Ambiguous bands
    are left out.
    """
    return spectral_parts([text or "" for text in info.descriptions] if telling_names(info) else [])


def spectral_parts(texts: Sequence[str], landsat: int | None = None) -> dict[str, int]:
    """Return the numbers, from 1, of names by part of the spectrum; ``landsat`` is the mission, if known."""
    words = [_part_in_words(text) for text in texts]
    letters = [_LETTERS.get(text.strip().casefold()) for text in texts]
    if set(COLORS) <= set(letters):
        words = [letter or word for letter, word in zip(letters, words, strict=True)]
    by_name, by_word = _places([text.casefold() for text in texts]), _places(words)
    names = [_without_explanation(text) for text in texts]
    sensor = _sensor(names) if landsat is None else _LANDSAT_8 if landsat >= 8 else _LANDSAT_4
    by_band = _places([sensor.get(short_name(name)) for name in names])
    if sensor is _SENTINEL:
        # It has finer pixels than B8A.
        by_band["nir"] = _places(list(map(short_name, names))).get("b8") or by_band.get("nir", [])
    numbers = {}
    for part in SPECTRAL:
        ways = by_name.get(part), by_word.get(part), _by_wavelength(texts, part), by_band.get(part)
        places = next((places for places in ways if places and len(places) == 1), None)
        if places:
            numbers[part] = places[0]
    return numbers


def _without_explanation(text: str) -> str:
    return re.split(r"[,;:(]", text)[0].strip()


def _places(parts: Sequence[str | None]) -> dict[str, list[int]]:
    """Return the numbers of the bands of each part."""
    return {part: [n for n, own in enumerate(parts, 1) if own == part] for part in parts if part}


def _part_in_words(text: str) -> str | None:
    parted = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text)  # BandBlue
    plain = " ".join(re.sub(r"[^a-z0-9]+", " ", parted.casefold()).split())
    for part, words in _WORDS:
        if re.search(rf"\b(?:{words})\b", plain):
            return part
    return None


def _by_wavelength(texts: Sequence[str], part: str) -> list[int]:
    """Return the number of the band whose wavelength is nearest to the middle of a part, if one is in it."""
    low, middle, high = _WAVELENGTHS[part]
    found = []
    for number, text in enumerate(texts, start=1):
        match = _WAVELENGTH.search(text.casefold())
        if match:
            ends = [float(end) for end in match.groups()[:2] if end]
            length = sum(ends) / len(ends) * (1 if match[3].startswith("n") else 1000)
            if low <= length <= high:
                found.append((abs(length - middle), number))
    return [min(found)[1]] if found else []


def _sensor(names: Sequence[str]) -> Mapping[str, str]:
    """Return the parts by band of the sensor that the names tell; of two possible ones what they share.

    Red, green and blue are bands 4, 3 and 2 of Sentinel-2 and Landsat 8 and 9, but 3, 2 and 1 of earlier
    Landsats, whose surface reflectances have no band 6.
    """
    if any("sur_refl" in name.casefold() for name in names):
        return _MODIS
    found = [_SENSOR_BAND.fullmatch(_RESOLUTION.sub("", name)) for name in names]
    bands = {f"b{match[3]}".casefold() for match in found if match}
    padded = any(match and match[2] for match in found)
    reflectance = any(match and match[1] for match in found)
    later = padded or (reflectance and "b6" in bands) or "b1" not in bands
    if not later and not bands & {"b8a", "b9", "b10", "b11", "b12"}:
        return _LANDSAT_4 if "b7" in bands and "b6" not in bands else {}
    if reflectance:
        return _LANDSAT_8
    if bands & {"b8a", "b12"} or (bands & {"b8", "b11"} and "b10" not in bands):
        return _SENTINEL
    return _VISIBLE

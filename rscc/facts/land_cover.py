"""Water and vegetation from the bands of a date, by spectral indices with an undecided range.

Sources of the indices: NDVI Rouse et al. 1974, NDWI McFeeters 1996, NDMI Gao 1996 (near and short-wave
infrared), MNDWI Xu 2006, NBR Key and Benson 2006, excess green Woebbecke et al. 1995. The origin of each
threshold is in docs/medium.md.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

Bands = Mapping[str, np.ndarray]

# Minimum sum of red, green and blue, of 255 each, in the denominator of excess green: below it is noise.
_DARKEST = 8
# Minimum sum of a pixel with a defined colour.
_COLOURLESS = 30


def normalised(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the normalised difference (a - b) / (a + b) of two bands, -1..1; NaN where both are 0."""
    a, b = a.astype(np.float32), b.astype(np.float32)
    total = a + b
    return np.divide(a - b, total, out=np.full_like(total, np.nan), where=total > 0)


def excess_green(image: np.ndarray) -> np.ndarray:
    """Return excess green of (3, ...) red, green, blue above black, divided by their sum."""
    red, green, blue = np.maximum(image, 0)
    return np.asarray((2 * green - red - blue) / np.maximum(red + green + blue, _DARKEST))


@dataclass(frozen=True)
class Index:
    """One index and its thresholds.

    Attributes:
        no, yes: the answer is no below the first and yes above the second.
    """

    name: str
    bands: tuple[str, ...]
    no: float
    yes: float

    def of(self, bands: Bands) -> np.ndarray:
        """Return the index of bands of one shape; red, green and blue must be normalised by :class:`Light`.

        NaN where they are too dark to have a colour.
        """
        values = [bands[name] for name in self.bands]
        if len(values) == 2:
            return normalised(*values)
        image = np.stack(values)
        return np.where(image.sum(0) < _COLOURLESS, np.nan, excess_green(image))

    def decide(self, values: np.ndarray, moved: float = 0.0) -> np.ndarray:
        """Return 1 for yes, -1 for no and 0 for undecided, int8.

        ``moved`` is the shift to the light of the other date; a decision must hold with and without it.
        """
        lower, upper = values + min(moved, 0.0), values + max(moved, 0.0)
        return (lower > self.yes).astype(np.int8) - (upper < self.no).astype(np.int8)


MNDWI = Index("MNDWI", ("green", "swir16"), -0.3, 0.05)
NDWI = Index("NDWI", ("green", "nir"), -0.05, 0.1)
NDMI = Index("NDMI", ("nir", "swir16"), 0.12, 0.25)
NDVI = Index("NDVI", ("nir", "red"), 0.15, 0.25)
EXCESS_GREEN = Index("excess green", ("red", "green", "blue"), 0.05, 0.15)
NBR = Index("NBR", ("nir", "swir22"), -0.1, 0.1)
# Minimum decrease of NBR in a fire of moderate severity, and maximum share of near infrared left by char.
BURNT_FALL, CHARRED = 0.27, 0.5
# Maximum near infrared of NDWI water, as a share of the brightest ground: in stretched images bare soil has
# the NDWI of water.
DARK = 0.4

QUESTIONS: Mapping[str, tuple[Index, ...]] = {
    "water": (MNDWI, NDWI),
    "vegetation": (NDVI,),
    "dense vegetation": (NDMI,),
    "green cover": (EXCESS_GREEN,),
}
"""Questions about every pixel, and the indices that answer them, the best first."""


def indices_for(bands: Collection[str]) -> dict[str, Index]:
    """Return the index for each question that the available bands can answer.

    Green cover, the only question for red, green and blue, is used where vegetation is impossible, and dense
    vegetation only where it can be distinguished from water.
    """
    chosen = {
        name: index
        for name, several in QUESTIONS.items()
        for index in [next((one for one in several if set(one.bands) <= set(bands)), None)]
        if index is not None
    }
    if not {"water", "vegetation"} & chosen.keys():
        chosen.pop("dense vegetation", None)
    if {"vegetation", "dense vegetation"} & chosen.keys():
        chosen.pop("green cover", None)
    return chosen


@dataclass(frozen=True)
class Light:
    """Illumination of red, green and blue of a date: the black level of each, and the gain to 255."""

    black: Mapping[str, float]
    gain: float

    @classmethod
    def of(cls, bands: Bands) -> Light:
        """Measure it by the 1st and the 99th percentile of a sample of the date."""
        ends = {name: np.percentile(bands[name], (1, 99)) for name in EXCESS_GREEN.bands}
        widest = max(float(high - low) for low, high in ends.values())
        return cls({name: float(low) for name, (low, _) in ends.items()}, 255 / widest if widest else 1.0)

    def normalise(self, bands: Bands) -> dict[str, np.ndarray]:
        """Return bands with red, green and blue normalised to about 0..255."""
        shown = {name: (bands[name] - black) * self.gain for name, black in self.black.items()}
        return {**bands, **shown}


@dataclass(frozen=True)
class CoverRules:
    """Decides the land cover of two dates.

    Attributes:
        indices: index of each question.
        moved: median increase of each index over the scene, which is due to illumination, season and sensor,
            because most ground does not change.
        lights: illumination of both dates, where excess green is used.
        burns: whether NBR is available.
        dark: maximum near infrared of water of both dates; None where NDWI is not used.
    """

    indices: Mapping[str, Index]
    moved: Mapping[str, float] = field(default_factory=dict)
    lights: tuple[Light, Light] | None = None
    burns: bool = False
    dark: tuple[float, float] | None = None

    @classmethod
    def fit(cls, before: Bands, after: Bands) -> CoverRules:
        """Fit the rules to a sample of both dates: the same pixels, bands of shape (n,)."""
        indices = indices_for(before)
        burns = "vegetation" in indices and set(NBR.bands) <= set(before)
        lights = None
        if next(iter(before.values())).size == 0:
            return cls({})
        if "green cover" in indices:
            lights = Light.of(before), Light.of(after)
            before, after = lights[0].normalise(before), lights[1].normalise(after)
        measured = {**indices, **({"burnt": NBR} if burns else {})}
        changes = {name: index.of(after) - index.of(before) for name, index in measured.items()}
        moved = {
            name: float(np.nanmedian(change))
            for name, change in changes.items()
            if not np.isnan(change).all()
        }
        usable = {name: index for name, index in indices.items() if name in moved}
        dark = (_dark(before), _dark(after)) if NDWI in usable.values() else None
        return cls(usable, moved, lights, burns and "burnt" in moved, dark)

    def decide(self, before: Bands, after: Bands) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Return the decisions of both dates by question, see :meth:`Index.decide`."""
        if self.lights is not None:
            before, after = self.lights[0].normalise(before), self.lights[1].normalise(after)
        dates = []
        for number, (bands, sign) in enumerate(((before, 1), (after, -1))):
            answers = {
                name: index.decide(index.of(bands), sign * self.moved[name])
                for name, index in self.indices.items()
            }
            if self.dark is not None:
                is_dark = bands["nir"] < self.dark[number]
                answers["water"] = np.where(is_dark, answers["water"], np.minimum(answers["water"], 0))
            dates.append({name: _on_land(name, answers) for name in answers})
        return {name: (dates[0][name], dates[1][name]) for name in self.indices}

    def burnt(self, before: Bands, after: Bands) -> np.ndarray:
        """Return where the ground looks burnt after, bool; nowhere without NBR."""
        if not self.burns:
            return np.zeros(next(iter(after.values())).shape, bool)
        old, new, moved = NBR.of(before), NBR.of(after), self.moved["burnt"]
        fall = np.minimum(old - new, old - new + moved)
        return (fall > BURNT_FALL) & (new < NBR.no) & (after["nir"] <= CHARRED * before["nir"])


def _dark(bands: Bands) -> float:
    """Return the maximum near infrared of water, from pixels that are not water by NDWI."""
    land = bands["nir"][NDWI.decide(NDWI.of(bands)) < 1]
    return DARK * float(np.percentile(land, 99)) if land.size else np.inf


def _on_land(question: str, answers: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return an answer about plants, corrected by the answer about water.

    Possible water is not dense vegetation, nor is non-vegetation: water also reflects even less short-wave
    than near infrared, as dense vegetation does.
    """
    answer, water, vegetation = answers[question], answers.get("water"), answers.get("vegetation")
    if question == "water":
        return answer
    if question == "dense vegetation":
        if vegetation is not None:
            answer = np.minimum(answer, vegetation)
        if water is not None:
            answer = np.where(water == -1, answer, 0)
    return answer if water is None else np.where(water == 1, -1, answer).astype(np.int8)

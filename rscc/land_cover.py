"""Water and vegetation told from the bands of a date by indices; between yes and no lies what is undecided.

Sources of the indices: NDVI Rouse et al. 1974, NDWI McFeeters 1996, NDMI Gao 1996 (near and short-wave
infrared), MNDWI Xu 2006, NBR Key and Benson 2006, excess green Woebbecke et al. 1995. Where each threshold
comes from is in docs/medium.md.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

Bands = Mapping[str, np.ndarray]

# Excess green of what is darker than this, of 255 in all three bands together, is noise.
_DARKEST = 8
# ...and has no colour that is worth a word below this.
_COLOURLESS = 30


def normalised(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the normalised difference (a - b) / (a + b) of two bands, -1..1; NaN where both are 0."""
    a, b = a.astype(np.float32), b.astype(np.float32)
    total = a + b
    return np.divide(a - b, total, out=np.full_like(total, np.nan), where=total > 0)


def excess_green(image: np.ndarray) -> np.ndarray:
    """Return excess green of (3, ...) red, green, blue above what is black, divided by their sum."""
    red, green, blue = np.maximum(image, 0)
    return np.asarray((2 * green - red - blue) / np.maximum(red + green + blue, _DARKEST))


@dataclass(frozen=True)
class Index:
    """One index, and from where it decides.

    Attributes:
        name: of the index.
        bands: that it is made of, in order.
        no, yes: below the one it is not what is asked for, above the other it is.
    """

    name: str
    bands: tuple[str, ...]
    no: float
    yes: float

    def of(self, bands: Bands) -> np.ndarray:
        """Return the index of bands of one shape; of red, green and blue as :class:`Light` brings them.

        NaN where they are too dark to have a colour.
        """
        values = [bands[name] for name in self.bands]
        if len(values) == 2:
            return normalised(*values)
        image = np.stack(values)
        return np.where(image.sum(0) < _COLOURLESS, np.nan, excess_green(image))

    def decide(self, values: np.ndarray, moved: float = 0.0) -> np.ndarray:
        """Return 1 for yes, -1 for no and 0 for undecided, int8.

        ``moved`` is what brings the values to the light of the other date; what is decided is so in both.
        """
        lower, upper = values + min(moved, 0.0), values + max(moved, 0.0)
        return (lower > self.yes).astype(np.int8) - (upper < self.no).astype(np.int8)


MNDWI = Index("MNDWI", ("green", "swir16"), -0.3, 0.05)
NDWI = Index("NDWI", ("green", "nir"), -0.05, 0.1)
NDMI = Index("NDMI", ("nir", "swir16"), 0.12, 0.25)
NDVI = Index("NDVI", ("nir", "red"), 0.15, 0.25)
EXCESS_GREEN = Index("excess green", ("red", "green", "blue"), 0.05, 0.15)
NBR = Index("NBR", ("nir", "swir22"), -0.1, 0.1)
# How far NBR falls at least in a fire of moderate severity, and the share of near infrared that char keeps.
BURNT_FALL, CHARRED = 0.27, 0.5
# What is water for NDWI is as dark in near infrared, as a share of the brightest ground: where values were
# stretched for the eye, bare soil has the NDWI of water.
DARK = 0.4

QUESTIONS: Mapping[str, tuple[Index, ...]] = {
    "water": (MNDWI, NDWI),
    "vegetation": (NDVI,),
    "dense vegetation": (NDMI,),
    "green cover": (EXCESS_GREEN,),
}
"""What is asked of every pixel, and the indices that answer, the best first."""


def indices_for(bands: Collection[str]) -> dict[str, Index]:
    """Return the index that answers each question by the bands there are; where none does, it is left out.

    Green cover, which is all that red, green and blue can tell, is asked for where vegetation cannot be, and
    dense vegetation only where something tells it from water.
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
    """How a date shows red, green and blue: what is black in each, and how much brighter 255 would be."""

    black: Mapping[str, float]
    gain: float

    @classmethod
    def of(cls, bands: Bands) -> Light:
        """Measure it on the 1st and the 99th percentile of a sample of the date."""
        ends = {name: np.percentile(bands[name], (1, 99)) for name in EXCESS_GREEN.bands}
        widest = max(float(high - low) for low, high in ends.values())
        return cls({name: float(low) for name, (low, _) in ends.items()}, 255 / widest if widest else 1.0)

    def brought(self, bands: Bands) -> dict[str, np.ndarray]:
        """Return bands with red, green and blue from 0 for black to about 255."""
        shown = {name: (bands[name] - black) * self.gain for name, black in self.black.items()}
        return {**bands, **shown}


@dataclass(frozen=True)
class CoverRules:
    """How the land cover of two dates is told.

    Attributes:
        indices: what answers each question.
        moved: by how much an index of the date after is higher, as a median over the scene: the light, the
            season and the sensor, since most ground does not change.
        lights: of both dates, where excess green is asked for.
        burns: whether NBR can be told.
        dark: below which near infrared of both dates may be water; None where NDWI is not asked.
    """

    indices: Mapping[str, Index]
    moved: Mapping[str, float] = field(default_factory=dict)
    lights: tuple[Light, Light] | None = None
    burns: bool = False
    dark: tuple[float, float] | None = None

    @classmethod
    def fit(cls, before: Bands, after: Bands) -> CoverRules:
        """Fit the rules to a sample of both dates: the same places, bands of shape (n,)."""
        indices = indices_for(before)
        burns = "vegetation" in indices and set(NBR.bands) <= set(before)
        lights = None
        if next(iter(before.values())).size == 0:
            return cls({})
        if "green cover" in indices:
            lights = Light.of(before), Light.of(after)
            before, after = lights[0].brought(before), lights[1].brought(after)
        asked = {**indices, **({"burnt": NBR} if burns else {})}
        changes = {name: index.of(after) - index.of(before) for name, index in asked.items()}
        moved = {
            name: float(np.nanmedian(change))
            for name, change in changes.items()
            if not np.isnan(change).all()
        }
        told = {name: index for name, index in indices.items() if name in moved}
        dark = (_dark(before), _dark(after)) if NDWI in told.values() else None
        return cls(told, moved, lights, burns and "burnt" in moved, dark)

    def decide(self, before: Bands, after: Bands) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Return the decisions of both dates by question, see :meth:`Index.decide`."""
        if self.lights is not None:
            before, after = self.lights[0].brought(before), self.lights[1].brought(after)
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
        """Return where the ground looks burnt after, bool; nowhere where NBR cannot be told."""
        if not self.burns:
            return np.zeros(next(iter(after.values())).shape, bool)
        old, new, moved = NBR.of(before), NBR.of(after), self.moved["burnt"]
        fall = np.minimum(old - new, old - new + moved)
        return (fall > BURNT_FALL) & (new < NBR.no) & (after["nir"] <= CHARRED * before["nir"])


def _dark(bands: Bands) -> float:
    """Return below which near infrared may be water, by what is none for NDWI; no limit where all is."""
    land = bands["nir"][NDWI.decide(NDWI.of(bands)) < 1]
    return DARK * float(np.percentile(land, 99)) if land.size else np.inf


def _on_land(question: str, answers: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return an answer about plants without what is water.

    What may be water is not dense vegetation, nor is what is no vegetation: water reflects even less
    short-wave than near infrared, as dense vegetation does.
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

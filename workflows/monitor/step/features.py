"""What tells a lasting change from season and noise, measured for the likeliest step of each pixel.

A logistic regression on these features, with a card, gives the probability that the pixel changed to stay.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from scipy import ndimage

from workflows.monitor.step.clear import Ground, clear_series, despiked, usable_dates
from workflows.monitor.step.fit import Steps, fit_steps, noise_of

MODEL = Path(__file__).parent / "files" / "steps.json"

FEATURES = ("strength", "around", "widely", "usual", "texture", "red_blue", "jitter", "year")
"""Names of the features, in their order.

    strength: log of the statistic of the step, smoothed over a pixel.
    around, widely: the same of the same date, smoothed over 2 and 4 pixels.
    usual: log of the statistic that a tenth of all pixels of the series exceed at this date.
    texture: change of the standard deviation of the pixels around, in units of the noise.
    red_blue: log of the size of the step in red minus blue, in units of the noise.
    jitter: log of the mean difference between neighbouring dates, in units of the noise.
    year: mean level after minus before of dates a year apart, 1 for a full step.
"""

# Standard deviations, in pixels, of the filters of the statistic, and of that of the texture.
NEAR, AROUND, WIDELY, TEXTURE = 0.8, 2.0, 4.0, 1.5
# Levels beyond this are cut: they are weather.
MOST_LEVEL = 3.0
YEAR, YEAR_OFF = 12.0, 1.0


@dataclass(frozen=True)
class Usual:
    """What is usual in a series, measured in a sample of it.

    Attributes:
        noise: covariance (3, 3) of one date.
        exceeded: (k,) statistic that a tenth of the pixels exceed, for each first date.
    """

    ground: Ground
    noise: np.ndarray
    exceeded: np.ndarray

    @classmethod
    def of(cls, sample: list[tuple[np.ndarray, np.ndarray]], remove: np.ndarray) -> Usual:
        """Measure it in windows of values (dates, 3, h, w) and validity (dates, h, w)."""
        pixels = [values.reshape(*values.shape[:2], -1) for values, _ in sample]
        ground = Ground.of(np.concatenate(pixels, axis=2))
        clear = [
            clear_series(values, usable_dates(values, valid, ground), ground) for values, valid in sample
        ]
        flat = np.concatenate([values.reshape(*values.shape[:2], -1) for values in clear], axis=2)
        noise = noise_of(flat)
        strengths = [fit_steps(despiked(values), remove, noise).strength for values in clear]
        spread = np.concatenate([one.reshape(len(one), -1) for one in strengths], axis=1)
        return cls(ground, noise, np.percentile(spread, 90, axis=1))


@dataclass(frozen=True)
class Measured:
    """The likeliest step of each pixel.

    Attributes:
        features: (features, h, w) float32, see :data:`FEATURES`.
        level: (dates, h, w) -1 as before and 1 as after the step; NaN where hidden.
        before, after: (3, h, w) mean grey values.
    """

    features: np.ndarray
    steps: Steps
    level: np.ndarray
    before: np.ndarray
    after: np.ndarray


@dataclass(frozen=True)
class StepModel:
    """Coefficients of :data:`FEATURES`.

    Attributes:
        weights: (features,).
        bias: of the sum.
    """

    weights: np.ndarray
    bias: float

    def probability(self, features: np.ndarray) -> np.ndarray:
        """Return (h, w) in 0..1 of features (features, h, w)."""
        return np.asarray(1 / (1 + np.exp(-(np.tensordot(self.weights, features, 1) + self.bias))))


@lru_cache(maxsize=16)
def step_model(without: str | None = None) -> StepModel:
    """Return the model; ``without`` a place that it was fitted on: that of all other places.

    A place that is not in the card was not used, so the model itself is returned.
    """
    content = json.loads(MODEL.read_text(encoding="utf-8"))
    assert tuple(content["features"]) == FEATURES, "the coefficients belong to other features"
    fitted = content["without"].get(without, content)
    return StepModel(np.array(fitted["weights"], np.float32), float(fitted["bias"]))


def measure(
    values: np.ndarray, valid: np.ndarray, months: np.ndarray, remove: np.ndarray, usual: Usual
) -> Measured:
    """Measure the features of a window.

    Args:
        values: (dates, 3, h, w) matched grey values.
        months, remove: see :func:`workflows.monitor.step.fit.without_season`.
    """
    usable = usable_dates(values, valid, usual.ground)
    clear = clear_series(values, usable, usual.ground)
    smooth = despiked(clear)
    steps = fit_steps(smooth, remove, usual.noise)
    near, around, widely = (
        ndimage.gaussian_filter(steps.strength, (0, sigma, sigma)) for sigma in (NEAR, AROUND, WIDELY)
    )
    best = near.argmax(axis=0)[None]
    first = steps.first[best[0]]
    size = np.take_along_axis(steps.size, best[:, None], axis=0)[0]
    is_after = np.arange(len(values))[:, None, None] >= first
    before, after = (_mean(smooth, side[:, None]) for side in (~is_after, is_after))
    level = _levels(clear, (before, after), size, usual.noise)
    noise = float(np.sqrt(np.trace(usual.noise) / 3))
    texture = _texture(smooth.mean(axis=1)) / noise
    features = (
        *(np.log1p(np.take_along_axis(one, best, axis=0)[0]) for one in (near, around, widely)),
        np.log1p(usual.exceeded)[best[0]],
        np.clip(_mean(texture, is_after) - _mean(texture, ~is_after), -10, 10),
        np.log1p(np.abs(size[0] - size[2]) / noise),
        np.log1p(np.abs(np.diff(clear, axis=0)).mean(axis=(0, 1)) / noise),
        _year_on_year(level, months, first),
    )
    return Measured(
        np.stack(features).astype(np.float32), steps, np.where(usable, level, np.nan), before, after
    )


def _levels(
    clear: np.ndarray, means: tuple[np.ndarray, np.ndarray], size: np.ndarray, noise: np.ndarray
) -> np.ndarray:
    """Return the series (dates, h, w) along the step: -1 as before it, 1 as after it, cut at 3."""
    direction = np.einsum("cd,dhw->chw", np.linalg.inv(noise), size)
    low, high = ((mean * direction).sum(axis=0) for mean in means)
    half = (high - low) / 2
    half = np.where(np.abs(half) < 1e-6, 1e-6, half)
    along = np.einsum("tchw,chw->thw", clear, direction)
    return np.asarray(np.clip((along - (low + high) / 2) / half, -MOST_LEVEL, MOST_LEVEL))


def _mean(values: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Return the mean over the chosen dates; of (dates, ...)."""
    return np.asarray((values * chosen).sum(axis=0) / chosen.sum(axis=0))


def _texture(brightness: np.ndarray) -> np.ndarray:
    """Return the standard deviation of the pixels around each, of (dates, h, w)."""
    sigma = (0, TEXTURE, TEXTURE)
    mean = ndimage.gaussian_filter(brightness, sigma)
    return np.sqrt(np.maximum(ndimage.gaussian_filter(brightness**2, sigma) - mean**2, 0))


def _year_on_year(level: np.ndarray, months: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Return half the mean difference of dates a year apart across the step; 1 counts as two of them."""
    total, number = np.full(first.shape, 2.0, np.float32), np.full(first.shape, 2.0, np.float32)
    apart = months[None] - months[:, None]
    for early, late in np.argwhere(np.abs(apart - YEAR) <= YEAR_OFF):
        across = (early < first) & (late >= first)
        total += across * np.clip((level[late] - level[early]) / 2, -2, 2)
        number += across
    return np.asarray(total / number)

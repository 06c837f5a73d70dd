"""Fit one step to the series of each pixel, beside its season.

The model of a pixel with bands y(t) is

    y(t) = a + b cos(w t) + c sin(w t) + d [t >= k] + e(t),      w = 2 pi / year

with a ridge penalty on b and c, so that few dates are not explained by a season. For each first date k the
step d has Hotelling's statistic T^2 = d' S^-1 d / var(d), with the covariance S of the residuals e drawn
towards the noise of the whole series. The season is left out of series of less than a year and a half.
"""

from dataclasses import dataclass

import numpy as np

# Months and dates that a series needs for a season.
SEASON_MONTHS, SEASON_DATES = 18, 10
# Ridge penalty per date, and weight of the common noise, in dates.
RIDGE, COMMON = 0.05, 4.0
# Usable dates that a step needs on both sides; series of fewer than SHORT dates need one.
SIDE, SHORT = 2, 6


@dataclass(frozen=True)
class Steps:
    """Steps of all pixels for all first dates.

    Attributes:
        first: (k,) index of the first date with the step.
        strength: (k, h, w) square root of T^2.
        size: (k, 3, h, w) step in grey values.
    """

    first: np.ndarray
    strength: np.ndarray
    size: np.ndarray


def without_season(months: np.ndarray) -> np.ndarray:
    """Return the matrix (dates, dates) that removes mean and season from a series.

    Args:
        months: (dates,) counted from any; NaN for a date that is known to the year only.
    """
    dates, known = len(months), months[~np.isnan(months)]
    columns = [np.ones(dates)]
    if len(known) >= SEASON_DATES and np.ptp(known) >= SEASON_MONTHS:
        phase = 2 * np.pi * months / 12
        columns += [np.nan_to_num(np.cos(phase)), np.nan_to_num(np.sin(phase))]
    design = np.stack(columns, axis=1)
    ridge = np.diag([0.0] + [RIDGE * dates] * (len(columns) - 1))
    return np.asarray(np.eye(dates) - design @ np.linalg.solve(design.T @ design + ridge, design.T))


def noise_of(values: np.ndarray) -> np.ndarray:
    """Return the covariance (3, 3) of the noise of a date, from differences of dates of (dates, 3, n)."""
    steps = np.diff(values, axis=0) / np.sqrt(2)
    flat = steps.transpose(1, 0, 2).reshape(values.shape[1], -1)
    most = 3 * (1.4826 * np.median(np.abs(flat), axis=1) + 0.5)[:, None]
    return np.asarray(np.cov(np.clip(flat, -most, most)) + 0.1 * np.eye(len(flat)))


def fit_steps(values: np.ndarray, remove: np.ndarray, noise: np.ndarray) -> Steps:
    """Fit a step at each date to (dates, 3, h, w).

    Args:
        values: clear, despiked series.
    """
    dates, bands, height, width = values.shape
    side = side_of(dates)
    first = np.arange(side, dates - side + 1)
    series = values.reshape(dates, bands, -1)
    series = series - series.mean(axis=0)
    residual = np.tensordot(remove.astype(np.float32), series, 1)
    sums = np.cumsum(residual[::-1], axis=0)[::-1][first]  # (k, bands, n): h' M y, with h = [t >= k]
    after = (np.arange(dates) >= first[:, None]).astype(float)
    gain = np.einsum("kt,ts,ks->k", after, remove, after)[:, None]  # h' M h = 1 / var(d)
    size = sums / gain[..., None].astype(np.float32)
    freedom = dates - np.trace(np.eye(dates) - remove) - 1 + COMMON
    total = np.einsum("tcn,tdn->ncd", series, residual) + COMMON * noise
    inverse = np.linalg.inv(total).astype(np.float32)
    # S = (total - gain d d') / freedom, inverted by Sherman and Morrison's formula.
    explained = gain * np.einsum("kcn,ncd,kdn->kn", size, inverse, size, optimize=True)
    strength = np.sqrt(freedom * explained / np.maximum(1 - explained, 1e-3))
    return Steps(first, strength.reshape(-1, height, width), size.reshape(-1, bands, height, width))


def side_of(dates: int) -> int:
    """Return how many dates a step needs on both sides."""
    return 1 if dates < SHORT else SIDE

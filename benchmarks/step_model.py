"""Fit the coefficients of `workflows/monitor/step/files/steps.json` on dated truth, and without each place.

    python benchmarks/step_model.py ../shared/data/time_stacks -o workflows/monitor/step/files/steps.json

``FOLDER/truth.json`` has the events of each place as polygons in pixels. Each series is used three times: all
dates, every second one, and the others, so that the coefficients know few dates too.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from rasterio.features import rasterize
from scipy import ndimage
from shapely.geometry import Polygon, box
from sklearn.linear_model import LogisticRegression

from workflows.monitor.evaluation.truth import PlaceTruth, read_truth, series_of
from workflows.monitor.options import MonitorOptions
from workflows.monitor.step.cube import SeriesCube
from workflows.monitor.step.features import FEATURES
from workflows.monitor.steps import measured_blocks

# Weight of an event that the reader was not sure of; pixels that weigh as much as a whole event.
LIKELY, LARGE = 0.5, 60
# Share of the unchanged pixels, and weight of a series of half the dates.
UNCHANGED, HALF = 0.25, 0.5
# Inverse strength of the ridge penalty, as in scikit-learn.
RIDGE = 0.1


def main() -> None:
    """Write the coefficients."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    given = parser.parse_args()
    truth = read_truth(given.folder)
    samples = {name: list(_samples(given.folder / name, place)) for name, place in truth.items()}
    result = {
        "card": CARD,
        "features": list(FEATURES),
        **_fitted(samples, ""),
        "without": {name: _fitted(samples, name) for name in samples},
    }
    given.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


CARD = (
    "Logistic regression: does a pixel change to stay? Fitted on 12 places of monthly mosaics of 23 to 38 m "
    "per pixel (SpaceNet 7 by Planet, CC BY-SA 4.0), with events dated by eye by one reader. `without` holds "
    "the same without one place, for scores of that place."
)


def _samples(folder: Path, place: PlaceTruth) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield features (n, features), answers (n,) and weights (n,) of the three series of a place."""
    random = np.random.default_rng(0)
    for step, weight in ((slice(None), 1.0), (slice(0, None, 2), HALF), (slice(1, None, 2), HALF)):
        series = series_of(folder, step)
        with ExitStack() as stack:
            cube = SeriesCube(series, MonitorOptions(), stack)
            [(_, _, measured)] = measured_blocks(series, cube)
        answers, weights = _labels(place, measured.features.shape[1:])
        chosen = (weights > 0) & (answers | (random.random(answers.shape) < UNCHANGED))
        scaled = np.where(answers, weights, weights / UNCHANGED) * weight
        yield measured.features[:, chosen].T, answers[chosen], scaled[chosen]


def _labels(place: PlaceTruth, size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Return which pixels changed, and the weight of each; near events and in doubtful boxes it is 0."""
    changed, weights = np.zeros(size, bool), np.ones(size)
    for event in place.events:
        inside = _pixels(event.polygon, size)
        changed |= inside
        certain = 1.0 if event.sure else LIKELY
        weights[inside] = np.minimum(
            weights[inside], certain * min(1.0, (LARGE / max(1, inside.sum())) ** 0.5)
        )
    unclear = ndimage.binary_dilation(changed, iterations=2)
    for left, top, right, bottom in place.doubtful:
        unclear |= _pixels(box(left, top, right, bottom), size)
    return changed, np.where(changed | ~unclear, weights, 0)


def _pixels(shape: Polygon, size: tuple[int, int]) -> np.ndarray:
    return np.asarray(rasterize([(shape, 1)], size)).astype(bool)


def _fitted(
    samples: dict[str, list[tuple[np.ndarray, np.ndarray, np.ndarray]]], without: str
) -> dict[str, object]:
    used = [part for name, parts in samples.items() if name != without for part in parts]
    features, answers, weights = (np.concatenate(column) for column in zip(*used, strict=True))
    mean, spread = features.mean(axis=0), features.std(axis=0)
    fitted = LogisticRegression(C=RIDGE, max_iter=200).fit((features - mean) / spread, answers, weights)
    slopes = fitted.coef_[0] / spread
    bias = fitted.intercept_[0] - slopes @ mean
    return {"weights": [round(float(one), 5) for one in slopes], "bias": round(float(bias), 5)}


if __name__ == "__main__":
    main()

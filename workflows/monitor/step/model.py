"""The probability that a pixel changed to stay: a logistic regression on its features, with a card."""

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from workflows.monitor.step.features import FEATURES

MODEL = Path(__file__).parent / "files" / "steps.json"


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

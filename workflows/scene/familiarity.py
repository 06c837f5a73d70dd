"""How like the training data a scene and the ground of its changes are, from the maps.

Logits are averaged over ground, so that many blocks are surer than one. A change is judged by its own blocks
and by those of the whole scene alike: one block alone says little.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from scipy.special import expit
from shapely.geometry import MultiPolygon

from workflows.scene.maps import ChangeMaps
from workflows.scene.pixels import window_around

NEAR = 24
"""Pixels around a change whose blocks count as its own."""


def scene_familiarity(maps: ChangeMaps) -> float | None:
    """Return the familiarity of all that the network looked at, 0..1; None where it was not measured."""
    logit = _scene_logit(maps)
    return None if logit is None else float(expit(logit))


def familiarities(outlines: Iterable[MultiPolygon], maps: ChangeMaps) -> Sequence[float | None]:
    """Return the familiarity of the ground of each of some outlines in pixels, 0..1; None likewise."""
    outlines, scene = list(outlines), _scene_logit(maps)
    if scene is None:
        return [None] * len(outlines)
    own = [_mean(maps.familiarity(window_around(one, NEAR).intersection(maps.area))) for one in outlines]
    return [float(expit(scene if logit is None else (logit + scene) / 2)) for logit in own]


def _scene_logit(maps: ChangeMaps) -> float | None:
    return _mean(maps.familiarity(maps.area)) if maps.has_familiarity else None


def _mean(logits: np.ndarray) -> float | None:
    """Return the mean of the logits that are known; None without any."""
    known = logits[~np.isnan(logits)]
    return float(known.mean()) if len(known) else None

"""Scenes and pairs that are opened, or refused in one clear line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyproj import Transformer
from rasters import UTM

from tiling import ScenePair, TilingError, Window, describe

# What stands for a secret in an address: it must come up in no message.
SECRETS = ("0123456789abcdef", "hunter2")


def whole(pair: ScenePair) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Both dates and the validity of all the pixels of a pair."""
    return pair.read(Window(0, 0, pair.grid.width, pair.grid.height))


def read_pair(before: Path, after: Path | None = None, **options: Any) -> tuple[np.ndarray, ...]:
    """Both dates and the validity of all the pixels of two files, or of one twice."""
    with ScenePair.open(before, before if after is None else after, **options) as pair:
        return whole(pair)


def lonlat(x: float, y: float, crs: Any = UTM) -> tuple[float, float]:
    """A place on a map in degrees."""
    return Transformer.from_crs(crs, "EPSG:4326", always_xy=True).transform(x, y)


def refused(
    error: type[TilingError], scene: Any, *words: str, describing: Callable[[Any], object] = describe
) -> TilingError:
    """The error that a scene is refused with: one line with a remedy and ``words``, without any secret."""
    with pytest.raises(error) as caught:
        describing(scene)
    assert type(caught.value) is error
    message = str(caught.value)
    assert "\n" not in message and "; " in message
    for word in words:
        assert word in message
    assert not any(secret in text for secret in SECRETS for text in (message, repr(caught.value)))
    return caught.value


def refused_file(error: type[TilingError], path: Path, *words: str) -> None:
    """Have a file refused for what it is, in a line that begins with its name."""
    caught = refused(error, path, *words)
    assert str(caught).startswith(f"{path}: ") and caught.exit_code == 2


def refused_pair(
    error: type[TilingError], before: Path, after: Path, *words: str, **options: Any
) -> TilingError:
    """The error that a pair is refused with."""
    caught = refused(error, before, *words, describing=lambda scene: ScenePair.open(scene, after, **options))
    assert caught.exit_code == 2
    return caught

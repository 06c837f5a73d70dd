"""Scenes that several files of tests read."""

import numpy as np
import pytest
from rasters import textured, write_dates, write_scene


@pytest.fixture
def scenes(tmp_path):
    """Two dates (60 rows, 90 columns) on one grid, and their pixels."""
    images = textured(60, 90), textured(60, 90, seed=1)
    return *write_dates(tmp_path, *images), *images


@pytest.fixture
def folder(tmp_path):
    """A folder with a scene of 60 x 40 pixels, and a raster of ones outside of it."""
    image = textured(40, 60)
    write_scene(tmp_path / "secret.tif", np.ones_like(image))
    inside = tmp_path / "scenes"
    inside.mkdir()
    write_scene(inside / "a.tif", image)
    return inside


@pytest.fixture
def tiff(tmp_path):
    """The bytes of a scene of 60 x 40 pixels."""
    return write_scene(tmp_path / "plain.tif", textured(40, 60)).read_bytes()

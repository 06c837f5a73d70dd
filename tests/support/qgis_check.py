"""Draw a report in the system's QGIS and look at the picture's pixels."""

from __future__ import annotations

import json
import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio

SYSTEM_PYTHON = Path("/usr/bin/python3")
SCRIPT = Path(__file__).with_name("qgis_render.py")


@cache
def qgis_is_there() -> bool:
    """Whether the system's Python can import QGIS."""
    if not SYSTEM_PYTHON.is_file():
        return False
    asked = subprocess.run(
        [SYSTEM_PYTHON, "-c", "import qgis.core"],
        capture_output=True,
        env=environment(),
        timeout=120,
        check=False,
    )
    return asked.returncode == 0


def draw(report: Path, picture: Path, background: Path | None = None) -> tuple[dict[str, Any], np.ndarray]:
    """Return what QGIS says of the layer, and the picture as (height, width, 3)."""
    said = run_script(SCRIPT, report, picture, *([background] if background else []))
    with rasterio.open(picture) as file:
        image = file.read([1, 2, 3])
    return said, np.moveaxis(image, 0, -1)


def look(report: Path | str) -> dict[str, Any]:
    """Return what QGIS says of the layer, without drawing it."""
    return run_script(SCRIPT, report, "-")


def run_script(script: Path, *arguments: object) -> dict[str, Any]:
    """Run a script with the QGIS of the system and return what it printed as JSON."""
    done = subprocess.run(
        [SYSTEM_PYTHON, script, *map(str, arguments)],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def environment() -> dict[str, str]:
    """The environment of a process that uses the QGIS of the system."""
    # The virtual environment's packages must not reach the system's Python.
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))}
    return {**kept, "QT_QPA_PLATFORM": "offscreen"}


A_PICTURE_HAS_NO_PLACE = "ignore::rasterio.errors.NotGeoreferencedWarning"
QGIS = [
    pytest.mark.qgis,
    pytest.mark.filterwarnings(A_PICTURE_HAS_NO_PLACE),
    pytest.mark.skipif(not qgis_is_there(), reason="the system has no QGIS for Python (python3-qgis)"),
]

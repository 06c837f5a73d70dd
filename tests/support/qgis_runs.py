"""Run the system's QGIS: draw a report, look at the pixels, read layers, run the plugin.

    python tests/support/qgis_runs.py FOLDER

draws the pictures of the docs: the demo's report with a map tip, the dialog of the plugin. FOLDER is one that
``examples/make_demo_scene.py`` filled, with the report ``changes.gpkg`` of its scenes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import rasterio
from PIL import Image

from workflows.report.qgis import qgis_style

SYSTEM_PYTHON = Path("/usr/bin/python3")
WINDOWS = ("tip", "dialog", "plugin")
REPOSITORY = Path(__file__).parents[2]


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
    said = run_qgis("render", report, picture, *([background] if background else []))
    with rasterio.open(picture) as file:
        image = file.read([1, 2, 3])
    return said, np.moveaxis(image, 0, -1)


def look(report: Path | str) -> dict[str, Any]:
    """Return what QGIS says of the layer, without drawing it."""
    return run_qgis("render", report, "-")


def run_qgis(action: str, *arguments: object) -> dict[str, Any]:
    """Run an action of ``qgis_layers.py`` or ``qgis_windows.py`` and return the JSON that it printed."""
    script = Path(__file__).with_name("qgis_windows.py" if action in WINDOWS else "qgis_layers.py")
    done = subprocess.run(
        [SYSTEM_PYTHON, script, action, *map(str, arguments)],
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
# As a text it is asked for where such a test is run, not where it is collected.
NEEDS_QGIS = pytest.mark.skipif(
    "not __import__('qgis_runs').qgis_is_there()", reason="the system has no QGIS for Python (python3-qgis)"
)
QGIS = [
    pytest.mark.qgis,
    pytest.mark.filterwarnings(A_PICTURE_HAS_NO_PLACE),
    NEEDS_QGIS,
]


def on_ground(category: str, ground: int = 255, style: str | None = None) -> np.ndarray:
    """The colour (3,) of a category of a style, by default that of changes, over grey ground."""
    root = ElementTree.fromstring(style or qgis_style())
    symbols = {one.get("value"): one.get("symbol") for one in root.iter("category")}
    (symbol,) = (one for one in root.iter("symbol") if one.get("name") == symbols[category])
    # Further layers of a symbol are lines.
    text = next(one.get("value") for one in symbol.iter("Option") if one.get("name") == "color")
    *colour, alpha = map(int, text.split(","))
    return ground * (1 - alpha / 255) + np.array(colour) * alpha / 255


def main(folder: Path) -> None:
    """Write the pictures of the docs."""
    images = REPOSITORY / "docs" / "images"
    layer = f"{folder / 'changes.gpkg'}|layername=changes"
    run_qgis("render", layer, folder / "map.png", folder / "after_2019.tif")
    run_qgis("tip", layer, folder / "tip.png")
    shown, tip = (Image.open(folder / name).convert("RGB") for name in ("map.png", "tip.png"))
    picture = Image.new("RGB", (shown.width + tip.width, shown.height), "white")
    picture.paste(shown)
    picture.paste(tip, (shown.width, 0))
    picture.save(images / "qgis.webp", quality=80)
    names = ("before_2016.tif", "after_2019.tif")
    run_qgis("dialog", REPOSITORY / "qgis_plugin", *names, folder / "dialog.png")
    Image.open(folder / "dialog.png").convert("RGB").save(images / "qgis_dialog.webp", quality=80)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

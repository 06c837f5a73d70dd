"""Draw the picture of the docs: the demo's report in the QGIS of the system, and a map tip beside it.

    python tests/support/draw_qgis.py FOLDER

The folder is one that ``examples/make_demo_scene.py`` filled, with the report ``changes.gpkg`` that
``rscc caption`` made of its scenes.
"""

import sys
from pathlib import Path

from PIL import Image
from qgis_check import SCRIPT, run_script

TARGET = Path(__file__).parents[2] / "docs" / "images" / "qgis.webp"
TIP = SCRIPT.with_name("qgis_tip.py")


def main(folder: Path) -> None:
    """Write the picture."""
    layer = f"{folder / 'changes.gpkg'}|layername=changes"
    run_script(SCRIPT, layer, folder / "map.png", folder / "after_2019.tif")
    run_script(TIP, layer, folder / "tip.png")
    shown, tip = (Image.open(folder / name).convert("RGB") for name in ("map.png", "tip.png"))
    picture = Image.new("RGB", (shown.width + tip.width, shown.height), "white")
    picture.paste(shown)
    picture.paste(tip, (shown.width, 0))
    picture.save(TARGET, quality=80)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

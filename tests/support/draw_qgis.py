"""Draw the pictures of the docs in QGIS: the demo's report with a map tip, the dialog of the plugin.

    python tests/support/draw_qgis.py FOLDER

The folder is one that ``examples/make_demo_scene.py`` filled, with the report ``changes.gpkg`` that
``rscc caption`` made of its scenes.
"""

import sys
from pathlib import Path

from PIL import Image
from qgis_check import SCRIPT, run_script

REPOSITORY = Path(__file__).parents[2]
IMAGES = REPOSITORY / "docs" / "images"
TIP, DIALOG = SCRIPT.with_name("qgis_tip.py"), SCRIPT.with_name("qgis_dialog.py")


def main(folder: Path) -> None:
    """Write the pictures."""
    layer = f"{folder / 'changes.gpkg'}|layername=changes"
    run_script(SCRIPT, layer, folder / "map.png", folder / "after_2019.tif")
    run_script(TIP, layer, folder / "tip.png")
    shown, tip = (Image.open(folder / name).convert("RGB") for name in ("map.png", "tip.png"))
    picture = Image.new("RGB", (shown.width + tip.width, shown.height), "white")
    picture.paste(shown)
    picture.paste(tip, (shown.width, 0))
    picture.save(IMAGES / "qgis.webp", quality=80)
    names = ("before_2016.tif", "after_2019.tif")
    run_script(DIALOG, REPOSITORY / "qgis_plugin", *names, folder / "dialog.png")
    Image.open(folder / "dialog.png").convert("RGB").save(IMAGES / "qgis_dialog.webp", quality=80)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

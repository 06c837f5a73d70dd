"""Take the picture of the report page that the README shows, in a headless Chromium.

Usage: python examples/draw_page.py [FOLDER] [-o docs/images/page.webp]

Renders demo scenes side by side, some of them backwards in time, and runs ``rscc caption --html``. Needs
playwright (extra ``dev``) and Chromium.
"""

from __future__ import annotations

import argparse
import io
import shutil
import sys
from pathlib import Path

import numpy as np
import rasterio
from make_demo_scene import make_scene
from PIL import Image
from run_rscc import run_rscc

NAMES = ("before_2016.tif", "after_2019.tif")
MOMENTS = ("2016:03:14 11:20:00", "2019:10:05 10:40:00")
COLUMNS, ROWS = 2, 2
WIDTH, HEIGHT = 1400, 840
VIEW = "#change=4&split=0.47"


def make_scenes(folder: Path) -> list[Path]:
    """Render demo scenes side by side, mirrored so that roads meet, and write both dates."""
    folder.mkdir(parents=True, exist_ok=True)
    dates: list[list[list[np.ndarray]]] = [[[] for _ in range(ROWS)] for _ in NAMES]
    for number in range(COLUMNS * ROWS):
        row, column = divmod(number, COLUMNS)
        scene = make_scene(folder / f"seed_{number}", seed=7 + number)
        backwards = number % 3 == 1
        for index, path in enumerate((scene.before, scene.after)):
            with rasterio.open(path) as source:
                profile, image = source.profile, source.read()
            image = image[:, :, ::-1] if column % 2 else image
            dates[index ^ backwards][row].append(image[:, ::-1] if row % 2 else image)
    paths = [folder / name for name in NAMES]
    for path, date, moment in zip(paths, dates, MOMENTS, strict=True):
        whole = np.concatenate([np.concatenate(line, axis=2) for line in date], axis=1)
        profile.update(height=whole.shape[1], width=whole.shape[2])
        with rasterio.open(path, "w", **profile) as target:
            target.write(whole)
            target.update_tags(TIFFTAG_DATETIME=moment)
    return paths


def take_picture(chromium: str, page: Path, target: Path) -> None:
    """Open the page and save what is seen."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        tab = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, reduced_motion="reduce")
        tab.goto(page.resolve().as_uri() + VIEW)
        tab.wait_for_selector("html[data-ready]", state="attached")
        tab.wait_for_timeout(1500)  # detailed images are decoded after they come into view
        Image.open(io.BytesIO(tab.screenshot())).convert("RGB").save(target, quality=82, method=6)
        browser.close()


def main() -> int:
    """Render, caption, and take the picture."""
    parser = argparse.ArgumentParser(description="Take the picture of the report page.")
    parser.add_argument("folder", nargs="?", default="demo_page", type=Path)
    parser.add_argument("-o", "--output", default="docs/images/page.webp", type=Path)
    options = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        print("Chromium is missing: apt-get install chromium", file=sys.stderr)
        return 1
    page = options.folder / "report.html"
    report = page.with_suffix(".geojson")
    run_rscc("caption", *make_scenes(options.folder), "-o", report, "--html", page, "--overwrite")
    take_picture(chromium, page, options.output)
    print(options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Take the pictures of the pages that the docs show, from generated scenes, in a headless Chromium.

Usage: python examples/draw_page.py [FOLDER] [-o docs/images]

Renders scenes as ``make_demo_scene.py`` does, set beside each other, turned, and some backwards in time; runs
``rscc caption --html`` on them, ``rscc batch`` and ``rscc status --html`` on some at several sites, and takes
pictures. Needs playwright (extra ``dev``) and Chromium.
"""

from __future__ import annotations

import argparse
import io
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from affine import Affine
from make_demo_scene import DemoScene, make_scene
from PIL import Image

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
NAMES = ("before_2016.tif", "after_2019.tif")
MOMENTS = ("2016:03:14 11:20:00", "2019:10:05 10:40:00")


@dataclass(frozen=True)
class Shot:
    """One picture: of which scenes, how large, what was done before it was taken."""

    name: str
    scene: str
    size: tuple[int, int]
    dark: bool = False
    scale: float = 1
    hash: str = ""
    keys: tuple[str, ...] = ()
    phone: bool = False


# Rendering takes a while: so many scenes are different, the others are these again.
DIFFERENT = 4
# Columns and rows of demo scenes, and the options of the run.
SCENES: dict[str, tuple[int, int, tuple[str, ...]]] = {
    "few": (2, 2, ()),
    "many": (7, 5, ("--group-distance", "0")),
}
SHOTS = (
    Shot("page.webp", "few", (1400, 840), hash="#change=4&split=0.47"),
    Shot("page_dark.webp", "few", (1400, 840), dark=True, hash="#split=0.5"),
    Shot("page_phone.webp", "few", (390, 800), scale=2, phone=True, hash="#split=0.5"),
    Shot(
        "page_phone_change.webp",
        "few",
        (390, 800),
        dark=True,
        scale=2,
        phone=True,
        hash="#change=1&split=0.4",
    ),
    Shot("page_500.webp", "many", (1400, 840), hash="#split=0.5"),
    Shot("page_archive.webp", "archive", (1400, 840)),
)
# Sites of the archive, how many years lie between their dates, and metres from one to the next.
SITES, YEARS, APART = 14, 3, 3_000


@cache
def rendered(folder: Path, seed: int) -> DemoScene:
    """Render a demo scene once."""
    return make_scene(folder / f"seed_{seed}", seed=seed)


def make_scenes(folder: Path, columns: int, rows: int) -> list[Path]:
    """Render many demo scenes beside each other, every second column and row turned, so that roads meet."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / name for name in NAMES]
    dates: list[list[list[np.ndarray]]] = [[[] for _ in range(rows)] for _ in NAMES]
    for number in range(columns * rows):
        row, column = divmod(number, columns)
        scene = rendered(folder.parent, 7 + number % DIFFERENT)
        backwards = number % 3 == 1
        for place, path in enumerate((scene.before, scene.after)):
            with rasterio.open(path) as source:
                profile, image = source.profile, source.read()
            image = image[:, :, ::-1] if column % 2 else image
            image = image[:, ::-1] if row % 2 else image
            dates[place ^ backwards][row].append(image)
    for path, date, moment in zip(paths, dates, MOMENTS, strict=True):
        whole = np.concatenate([np.concatenate(line, axis=2) for line in date], axis=1)
        profile.update(height=whole.shape[1], width=whole.shape[2])
        with rasterio.open(path, "w", **profile) as target:
            target.write(whole)
            target.update_tags(TIFFTAG_DATETIME=moment)
    return paths


def make_archive(folder: Path) -> Path:
    """Work demo scenes at several sites into an archive, one of which is no raster; return its page."""
    page, scenes = folder / "archive.html", folder / "scenes"
    for number in range(SITES):
        source = rendered(folder.parent, 7 + number % DIFFERENT)
        dates = (source.before, source.after) if number % 3 else (source.after, source.before)
        east, north = APART * (number * 5 % SITES), -APART * (number * number % 9)
        for step, path in enumerate(dates):
            with rasterio.open(path) as scene:
                profile, image = scene.profile, scene.read()
            profile.update(transform=Affine.translation(east, north) @ profile["transform"])
            year = 2010 + number % 5 + YEARS * step
            file = scenes / f"site_{number + 1:02}" / f"{year}.tif"
            file.parent.mkdir(parents=True, exist_ok=True)
            with rasterio.open(file, "w", **profile) as target:
                target.write(image)
    table, archive = folder / "pairs.csv", folder / "archive"
    run("pairs", scenes, "-o", table, "--overwrite")
    (scenes / "site_05" / "2014.tif").write_text("This is no raster.")
    run("batch", table, "--out", archive, "--workers", "1", code=3)
    for report in sorted(archive.glob("pairs/*/changes.geojson"))[:4]:
        run("convert", report, report.with_suffix(".html"), "--overwrite")
    run("status", archive, "--html", page, "--overwrite")
    return page


def run(*words: object, code: int = 0) -> None:
    """Run the command, which ends with this exit code."""
    done = subprocess.run([sys.executable, "-m", "rscc", *map(str, words)], check=False)
    assert done.returncode == code, words


def make_page(folder: Path, scene: str) -> Path:
    """Render scenes and caption them, unless their page is there; return the page."""
    if scene == "archive":
        return make_archive(folder / scene)
    page = folder / scene / "report.html"
    if not page.exists():
        columns, rows, options = SCENES[scene]
        paths = [str(path) for path in make_scenes(page.parent, columns, rows)]
        report = page.with_suffix(".geojson")
        run("caption", *paths, "-o", report, "--html", page, "--overwrite", *options)
    return page


def take(browser: Any, page: Path, shot: Shot, target: Path) -> None:
    """Take one picture."""
    context = browser.new_context(
        viewport={"width": shot.size[0], "height": shot.size[1]},
        color_scheme="dark" if shot.dark else "light",
        device_scale_factor=shot.scale,
        has_touch=shot.phone,
        is_mobile=shot.phone,
        reduced_motion="reduce",
    )
    tab = context.new_page()
    tab.goto(page.resolve().as_uri() + shot.hash)
    tab.wait_for_selector("html[data-ready]", state="attached")
    for key in shot.keys:
        tab.keyboard.press(key)
    # Sharper pictures are decoded when they are first seen.
    tab.wait_for_timeout(1500)
    Image.open(io.BytesIO(tab.screenshot())).convert("RGB").save(target, quality=82, method=6)
    context.close()


def main() -> int:
    """Take all pictures."""
    parser = argparse.ArgumentParser(description="Take the pictures of the page for the docs.")
    parser.add_argument("folder", nargs="?", default="demo_page", type=Path)
    parser.add_argument("-o", "--output", default="docs/images", type=Path)
    parser.add_argument("--only", help="take this picture alone")
    options = parser.parse_args()
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        print("There is no Chromium here: apt-get install chromium", file=sys.stderr)
        return 1
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        for shot in SHOTS:
            if options.only in (None, shot.name):
                take(browser, make_page(options.folder, shot.scene), shot, options.output / shot.name)
                print(options.output / shot.name)
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())

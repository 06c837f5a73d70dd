"""Change that is reported where nothing changed, in percent of the scene, as Markdown.

    python benchmarks/false_change.py [--model rscc-base] [--scenes 7] [--size 1024] [--cache DIR]
        [--picture FILE] [--real FOLDER] [--only-real]

Generated ground is shown twice: as it is, and displaced, under another sun, through haze, in another season,
with noise, or all of that. Every pair runs through the product with each choice of ``--align`` and
``--normalize``; all polygons that it would report are false. Real changes must survive the same choices: the
estates of the demo scene, and with ``--real`` the masked pairs of a folder in LEVIR-CC's layout, joined to
scenes; of the split ``val``, never ``test``.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import textwrap
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from false_change_scenes import DISTURBANCES, Ground, make_scene, write_scene
from PIL import Image, ImageDraw
from rasterio.features import rasterize
from scipy import ndimage

from rscc import Captioner
from rscc.markdown import table
from rscc.shipped import DEFAULT_MODEL
from tiling import Window
from workflows.options import SceneOptions
from workflows.scene.carrier import OpenRun
from workflows.scene.detection import find_regions
from workflows.scene.events import places_of
from workflows.scene.opening import read_headers

FLAGS: dict[str, dict[str, bool]] = {
    "no flags": {},
    "--align": {"align": True},
    "--normalize": {"normalize": True},
    "both": {"align": True, "normalize": True},
}
# Every so-manieth scene shows the finished estate on both dates: houses, roads and their shadows.
BUILT_EVERY = 3
DEMO_SEEDS = (7, 8, 9)
PICTURED = [how.name for how in DISTURBANCES if np.hypot(*how.shift) in (0.0, 3.0)][1:]
# LEVIR-CC cuts LEVIR-CD's scenes into such crops; those that a folder lacks stay black.
SIDE, CROP = 1024, 256


@dataclass(frozen=True)
class Found:
    """What one run reports.

    Attributes:
        changed: (h, w) bool, the pixels inside polygons.
        area: of the polygons, in percent of the scene.
        shift: the length that was measured in pixels, None where it could not be.
        moved: whole columns and rows by which the later date was moved to make up for it.
        pair: what the model saw, (2, 3, h, w) uint8.
    """

    changed: np.ndarray
    area: float
    shift: float | None
    moved: tuple[int, int]
    pair: np.ndarray


class Runner:
    """Runs pairs through reading, model, mosaic and polygons; what flags do not change is not run again."""

    def __init__(self, captioner: Captioner) -> None:
        self.captioner = captioner

    def run(self, before: Path, after: Path) -> dict[str, Found]:
        """Return what is reported with each choice of flags."""
        known: dict[Any, Found] = {}
        found = {}
        infos = read_headers(before, after, SceneOptions())
        for name, flags in FLAGS.items():
            options = SceneOptions(**flags)
            with OpenRun.open(*infos, self.captioner, options) as run:
                light = run.pair.normalization
                key = run.pair.registration.applied, light if light and light.applied else None
                if key not in known:
                    known[key] = self._found(run)
                found[name] = known[key]
        return found

    def _found(self, run: OpenRun) -> Found:
        pair = run.pair
        places = places_of(find_regions(run).regions, pair, run.options.least_outline_for(pair.grid.gsd))
        shape = pair.grid.height, pair.grid.width
        changed = np.zeros(shape, bool)
        if places:
            changed = rasterize([p.region.pixel_polygon for p in places], out_shape=shape).astype(bool)
        area = sum(place.area_m2 for place in places) / (shape[0] * shape[1] * pair.grid.gsd**2)
        seen = pair.read(Window(0, 0, shape[1], shape[0]))[:2]
        cols, rows = pair.registration.applied or (0.0, 0.0)
        moved = round(cols), round(rows)
        return Found(changed, 100 * area, pair.registration.pixels, moved, np.stack(seen))


def false_change(runner: Runner, grounds: list[Ground], cache: Path, picture: Path | None) -> str:
    """Run every disturbance of every scene; return the table, draw the last built scene."""
    areas: dict[tuple[str, str], list[float]] = defaultdict(list)
    shifts: dict[str, list[float | None]] = defaultdict(list)
    drawn: list[tuple[str, dict[str, Found]]] = []
    shown = next((ground for ground in reversed(grounds) if ground.built), grounds[-1])
    with tempfile.TemporaryDirectory() as folder:
        for ground in grounds:
            before = write_scene(Path(folder) / "before.tif", ground.before(cache))
            for how in DISTURBANCES:
                after = write_scene(Path(folder) / "after.tif", ground.after(how, cache))
                found = runner.run(before, after)
                shifts[how.name].append(found["no flags"].shift)
                for name, one in found.items():
                    areas[how.name, name].append(one.area)
                if ground is shown and how.name in PICTURED:
                    drawn.append((how.name, found))
                told = ", ".join(f"{name} {one.area:.2f}" for name, one in found.items())
                print(f"{ground}: {how.name}: {told}", file=sys.stderr, flush=True)
    if picture:
        draw(drawn, picture)
    rows = []
    for how in DISTURBANCES:
        cells = [areas[how.name, name] for name in FLAGS]
        rows.append(
            [how.name, f"{np.hypot(*how.shift):.1f}", _told(shifts[how.name])]
            + [f"{np.mean(cell):.2f} ({max(cell):.2f})" for cell in cells]
        )
    return table(["disturbance", "shift, px", "measured", *FLAGS], rows)


def _told(shifts: list[float | None]) -> str:
    known = [shift for shift in shifts if shift is not None]
    text = f"{min(known):.1f} to {max(known):.1f}" if known else "-"
    return text if len(known) == len(shifts) else f"{text} ({len(shifts) - len(known)} not told)"


def real_change(runner: Runner, scenes: Iterator[tuple[str, Path, Path, np.ndarray]]) -> str:
    """Run pairs with true masks; return the table of what is found with each choice of flags."""
    counts: dict[tuple[str, str], np.ndarray] = defaultdict(lambda: np.zeros(3))
    shifts: dict[str, list[float | None]] = defaultdict(list)
    for kind, before, after, truth in scenes:
        found = runner.run(before, after)
        shifts[kind].append(found["no flags"].shift)
        for name, one in found.items():
            # The masks were drawn on the later date, and go where that goes.
            true = np.roll(truth, one.moved, (1, 0))
            counts[kind, name] += (one.changed & true).sum(), one.changed.sum(), true.sum()
        told = ", ".join(f"{name} {one.area:.2f}" for name, one in found.items())
        print(f"{kind}: shift {found['no flags'].shift}: {told}", file=sys.stderr, flush=True)
    heads = ["real changes", "scenes", "measured shift, px", "flags", "recall", "precision", "F1"]
    rows = []
    for (kind, name), (both, told, true) in counts.items():
        values = both / true, both / max(1, told), 2 * both / (told + true), told / true
        rows.append([kind, str(len(shifts[kind])), _told(shifts[kind]), name, *(f"{v:.3f}" for v in values)])
    return table([*heads, "reported / true area"], rows)


def demo_scenes(folder: Path, size: int) -> Iterator[tuple[str, Path, Path, np.ndarray]]:
    """Yield the generated pairs in which an estate is built, and where its villas stand."""
    for seed in DEMO_SEEDS:
        scene = make_scene(folder / str(seed), seed, (size, size))
        with rasterio.open(scene.truth_raster) as file:
            yield "generated estates", scene.before, scene.after, file.read(1) == 1


def real_scenes(root: Path, folder: Path) -> Iterator[tuple[str, Path, Path, np.ndarray]]:
    """Yield the scenes that the validation pairs of a folder in LEVIR-CC's layout are crops of."""
    listed = json.loads((root / "LevirCCcaptions.json").read_text(encoding="utf-8"))["images"]
    tiles: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for entry in listed:
        if entry["split"] == "val" and "levir_cd" in entry:
            tiles[entry["levir_cd"]["image"]].append(entry)
    for entries in tiles.values():
        dates = np.zeros((2, 3, SIDE, SIDE), np.uint8)
        truth = np.zeros((SIDE, SIDE), bool)
        for entry in entries:
            at = entry["levir_cd"]
            row, col = CROP * at["row"], CROP * at["col"]
            place = np.s_[..., row : row + CROP, col : col + CROP]
            for date, name in zip(dates, "AB", strict=True):
                with Image.open(root / "images" / "val" / name / entry["filename"]) as image:
                    date[place] = np.moveaxis(np.asarray(image.convert("RGB")), -1, 0)
            with Image.open(root / "images" / "val" / "label" / entry["filename"]) as image:
                truth[place] = np.asarray(image.convert("L")) > 127
        before, after = (write_scene(folder / f"{n}.tif", d) for n, d in zip("ab", dates, strict=True))
        yield "LEVIR-CD, val", before, after, truth


def draw(rows: list[tuple[str, dict[str, Found]]], file: Path, side: int = 200) -> None:
    """Draw the part of both dates where most is reported, and what is: without flags and with both."""
    heads = ("before", "after", "reported, no flags", "after, both flags", "reported, both flags")
    label, gap, head = 150, 4, 22
    picture = Image.new("RGB", (label + len(heads) * (side + gap), head + len(rows) * (side + gap)), "white")
    pen = ImageDraw.Draw(picture)
    for number, text in enumerate(heads):
        pen.text((label + number * (side + gap), 5), text, fill="black")
    reported = ndimage.uniform_filter(
        np.sum([found["no flags"].changed for _, found in rows], 0, float), side
    )
    row, col = np.unravel_index(reported.argmax(), reported.shape)
    half = min(side, min(reported.shape) // 2)
    top, left = (
        int(np.clip(at - half, 0, n - 2 * half)) for at, n in zip((row, col), reported.shape, strict=True)
    )
    part = np.s_[..., top : top + 2 * half, left : left + 2 * half]
    for number, (name, found) in enumerate(rows):
        top = head + number * (side + gap)
        pen.text((4, top + side // 2 - 12), "\n".join(textwrap.wrap(name, 22)), fill="black")
        plain, best = found["no flags"], found["both"]
        panels = [plain.pair[0], plain.pair[1], _marked(plain), best.pair[1], _marked(best)]
        for column, panel in enumerate(panels):
            tile = Image.fromarray(np.moveaxis(panel[part], 0, -1)).resize((side, side), Image.Resampling.BOX)
            picture.paste(tile, (label + column * (side + gap), top))
    picture.save(file, quality=80)


def _marked(found: Found) -> np.ndarray:
    """Return the later date in grey with the reported pixels red."""
    grey = np.repeat(found.pair[1].mean(0, keepdims=True), 3, 0)
    red = np.array([230.0, 40.0, 30.0])[:, None, None]
    return np.where(found.changed, 0.35 * grey + 0.65 * red, grey).astype(np.uint8)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--scenes", type=int, default=7)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--cache", type=Path, help="folder that keeps the painted scenes")
    parser.add_argument("--picture", type=Path, help="picture of the last scene")
    parser.add_argument("--real", type=Path, help="folder in LEVIR-CC's layout")
    parser.add_argument("--only-real", action="store_true", help="leave the table of false changes out")
    options = parser.parse_args()
    runner, started = Runner(Captioner.load(options.model)), time.perf_counter()
    grounds = [Ground(n, n % BUILT_EVERY == 0, options.size) for n in range(1, options.scenes + 1)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if not options.only_real:
            print(false_change(runner, grounds, options.cache or folder / "cache", options.picture), "\n")
        print(real_change(runner, demo_scenes(folder, options.size)), "\n")
        if options.real:
            print(real_change(runner, real_scenes(options.real, folder)), "\n")
    print(f"{time.perf_counter() - started:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()

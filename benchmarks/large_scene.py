"""Memory of large scenes, and whether their reports depend on where they were cut; prints Markdown.

    python benchmarks/large_scene.py make   --folder runs/large --side 4000 12000 24000
    python benchmarks/large_scene.py memory --folder runs/large --side 4000 12000 24000 [--json FILE]
    python benchmarks/large_scene.py seams  --folder runs/large --side 12000

``make`` writes generated pairs (uint8 RGB, 0.5 m, tiled, deflated); the other two make what is missing.
``memory`` runs ``python -m rscc caption`` on each size with the default model on the CPU, in a process of its
own, and reads the most memory it ever held from the system. From three sizes on it also fits a straight line
to the seconds by area; what is left of each size says how linear the cost is.
``seams`` compares the report of a pair with the reports of its four quarters, put together, and with that of
the same pair after a prime number of pixels was cut off in the west and the north. Only polygons away from
that cut are compared: beside it the network sees other ground.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
import shapely
from large_pair import GSD, NORTH, WEST, LargePair, load_cells, make_pair, pair_at
from rasterio.shutil import copy as copy_raster
from rasterio.vrt import WarpedVRT
from rasterio.warp import transform_bounds, transform_geom
from seam_match import Captioned, compare, features_of, merged
from turns import write_json

from rscc.markdown import table

SIDES = (4000, 12_000, 24_000)
SEED = 7
CELLS = 2
# Pixels at the cut that are left out: the first tile there, and what the next one shares with it.
AT_THE_CUT = 512
BASELINE = """
import workflows.cli.app, workflows, rscc.captioner
captioner = rscc.captioner.Captioner.load(device="cpu")
print(open("/proc/self/status").read())
"""
MIB = 2**20


@dataclass(frozen=True)
class SizeCost:
    """What the command took for ``side`` x ``side`` pixels: seconds of the process, bytes at most."""

    side: int
    tiles: int
    changes: int
    seconds: float
    peak: int


def pairs_of(
    folder: Path, sides: Sequence[int], *, seed: int = SEED, cells: int = CELLS, changed: float = 0.5
) -> list[LargePair]:
    """Return the pairs of these sides, made where they are missing."""
    pairs = []
    for side in sides:
        pair = pair_at(folder, side)
        if not (pair.before.exists() and pair.after.exists()):
            painted = load_cells(folder / f"cells_{seed}_{cells}.npz", seed, cells)
            pair = make_pair(folder, side, cells=painted, seed=seed, changed=changed)
        pairs.append(pair)
    return pairs


def status_kib(text: str, name: str) -> int:
    """Return a figure of ``/proc/<pid>/status`` in KiB, 0 where it is not there."""
    found = re.search(rf"{name}:\s+(\d+) kB", text)
    return int(found[1]) if found else 0


def peak_of(command: Sequence[str]) -> tuple[int, float, str]:
    """Run a command; return the bytes it held at most, the seconds it took and what it printed.

    Raises:
        RuntimeError: it failed.
    """
    clock, peak = time.perf_counter(), 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            try:
                status = Path(f"/proc/{process.pid}/status").read_text()
            except OSError:
                break
            peak = max(peak, status_kib(status, "VmHWM"))
            time.sleep(0.02)
        printed = process.communicate()[0]
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    return peak * 1024, time.perf_counter() - clock, printed


def costs_of(pairs: Sequence[LargePair], options: Sequence[str] = ()) -> list[SizeCost]:
    """Measure the command on each pair."""
    costs = []
    for pair in pairs:
        output = pair.before.with_name(f"changes_{pair.side}.geojson")
        words = ["caption", str(pair.before), str(pair.after), "-o", str(output), "--device", "cpu"]
        peak, seconds, printed = peak_of(
            [sys.executable, "-m", "rscc", *words, "--overwrite", "-q", "--json", *options]
        )
        run = json.loads(printed)
        costs.append(SizeCost(pair.side, run["run"]["tiling"]["tiles"], run["changes"], seconds, peak))
        print(costs[-1], file=sys.stderr, flush=True)
    return costs


def memory_table(costs: Sequence[SizeCost]) -> str:
    """Return the table of what the command took."""
    loaded = subprocess.run(
        [sys.executable, "-c", BASELINE], capture_output=True, text=True, check=True
    ).stdout
    base = status_kib(loaded, "VmRSS") * 1024
    rows = [
        [
            f"{cost.side} x {cost.side}",
            str(cost.tiles),
            str(cost.changes),
            f"{cost.seconds:.0f}",
            f"{cost.tiles / cost.seconds:.1f}",
            f"{base / MIB:.0f}",
            f"{cost.peak / MIB:.0f}",
            f"{100 * (cost.peak / costs[0].peak - 1):+.1f} %",
        ]
        for cost in costs
    ]
    head = [
        "pixels",
        "tiles",
        "changes",
        "seconds",
        "tiles/s",
        "with the model, MiB",
        "peak, MiB",
        "beside the first",
    ]
    return table(head, rows)


def line_of(costs: Sequence[SizeCost]) -> tuple[float, float, list[float]]:
    """Return seconds at no area and seconds a megapixel by least squares, and what they leave of each size.

    Each size weighs the same: what is left is a share of its own seconds, and the sum of the squares of these
    is the least.
    """
    area = np.array([cost.side**2 / 1e6 for cost in costs])
    seconds = np.array([cost.seconds for cost in costs])
    terms = np.stack([np.ones_like(area), area], axis=1) / seconds[:, None]
    (start, slope), *_ = np.linalg.lstsq(terms, np.ones_like(area), rcond=None)
    return float(start), float(slope), (1 - terms @ (start, slope)).tolist()


def line_text(costs: Sequence[SizeCost]) -> str:
    """Return the line through the sizes in words."""
    start, slope, left = line_of(costs)
    shares = ", ".join(f"{cost.side}: {100 * one:+.1f} %" for cost, one in zip(costs, left, strict=True))
    return f"seconds = {start:.2f} + {slope:.3f} x megapixels; left of each side: {shares}"


class Reports:
    """Captions scenes in this process, with one captioner for all runs.

    Args:
        folder: where the reports go.
        load: gives the captioner for (model, device).
        options: further words for the command.
    """

    def __init__(
        self, folder: Path, load: Callable[[str, str], Any] | None = None, options: Sequence[str] = ()
    ) -> None:
        self.folder, self.options = folder, options
        self._load, self._captioner = load, None

    def __call__(self, name: str, before: Path, after: Path, *words: str) -> list[Captioned]:
        """Run ``rscc caption`` and return what it wrote.

        Raises:
            RuntimeError: it failed.
        """
        from workflows.cli.app import main

        output = self.folder / f"{name}.geojson"
        try:
            main(
                [
                    "caption",
                    str(before),
                    str(after),
                    "-o",
                    str(output),
                    "--overwrite",
                    "-q",
                    # Outlines are compared, not what they are grouped to.
                    "--group-distance",
                    "0",
                    *words,
                    *self.options,
                ],
                captioner_factory=self._captioner_for,
            )
        except SystemExit as end:
            if end.code:
                raise RuntimeError(f"{name}: the command ended with {end.code}") from end
        return features_of(json.loads(output.read_text(encoding="utf-8")))

    def _captioner_for(self, model: str, device: str) -> Any:
        if self._captioner is None:
            if self._load is None:
                from rscc.captioner import load_captioner

                self._load = load_captioner
            self._captioner = self._load(model, device)
        return self._captioner


def quarter_boxes(pair: LargePair) -> list[str]:
    """Return ``W,S,E,N`` in degrees of the north-west, north-east, south-west and south-east quarter."""
    half = pair.side // 2 * GSD
    whole = pair.side * GSD
    with rasterio.open(pair.before) as file:
        crs = file.crs
    boxes = []
    for top, bottom in ((0, half), (half, whole)):
        for left, right in ((0, half), (half, whole)):
            edges = (WEST + left, NORTH - bottom, WEST + right, NORTH - top)
            boxes.append(",".join(f"{v:.9f}" for v in transform_bounds(crs, "EPSG:4326", *edges)))
    return boxes


def cut_pair(pair: LargePair, pixels: int) -> tuple[Path, Path]:
    """Write both dates without the first ``pixels`` columns and rows; return the files."""
    cut = []
    for path in (pair.before, pair.after):
        target = path.with_name(f"{path.stem}_without_{pixels}.tif")
        with rasterio.open(path) as file:
            transform = file.transform * file.transform.translation(pixels, pixels)
            size = {"width": file.width - pixels, "height": file.height - pixels}
            with WarpedVRT(file, crs=file.crs, transform=transform, **size) as view:
                copy_raster(
                    view, target, driver="GTiff", tiled=True, compress="deflate", predictor=2,
                    blockxsize=256, blockysize=256,
                )  # fmt: skip
        cut.append(target)
    return cut[0], cut[1]


def away_from(pair: LargePair, pixels: int, polygons: Sequence[Captioned]) -> list[Captioned]:
    """Return the polygons that lie more than ``AT_THE_CUT`` pixels from the cut in the west and north."""
    margin = (pixels + AT_THE_CUT) * GSD
    east, south = WEST + pair.side * GSD, NORTH - pair.side * GSD
    with rasterio.open(pair.before) as file:
        crs = file.crs
    inside = transform_geom(
        crs,
        "EPSG:4326",
        shapely.box(WEST + margin, south - 1, east + 1, NORTH - margin).segmentize(100).__geo_interface__,
    )
    region = shapely.geometry.shape(inside)
    shapely.prepare(region)
    return [one for one in polygons if region.contains(one.geometry)]


def seams_table(pair: LargePair, prime: int, caption: Reports) -> str:
    """Compare the reports and return the table."""
    whole = caption("whole", pair.before, pair.after)
    quarters = [
        caption(f"quarter_{number}", pair.before, pair.after, "--bbox", box)
        for number, box in enumerate(quarter_boxes(pair), start=1)
    ]
    lines = [["its four quarters", *compare(whole, merged(quarters)).row]]
    shifted = caption("cut", *cut_pair(pair, prime))
    both = (away_from(pair, prime, side) for side in (whole, shifted))
    lines.append([f"{prime} pixels cut off", *compare(*both).row])
    head = [
        f"{pair.side} x {pair.side} beside", "polygons", "there", "identical", "IoU from 0.99", "least IoU",
        "no partner", "same caption",
    ]  # fmt: skip
    return table(head, lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one of the commands."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("command", choices=("make", "memory", "seams"))
    parser.add_argument("--folder", type=Path, default=Path("runs/large"))
    parser.add_argument("--side", type=int, nargs="+", help="sides in pixels")
    parser.add_argument("--prime", type=int, default=97, help="pixels that seams cuts off")
    parser.add_argument(
        "--changed",
        type=float,
        default=0.5,
        help="share of the cells with a new estate, in pairs that are made",
    )
    parser.add_argument("--json", type=Path, help="also write what memory measured")
    parser.add_argument("--option", action="append", default=[], help="further word for rscc caption")
    options = parser.parse_args(arguments)
    sides = options.side or (SIDES if options.command != "seams" else SIDES[1:2])
    pairs = pairs_of(options.folder, sides, changed=options.changed)
    if options.command == "memory":
        costs = costs_of(pairs, options.option)
        write_json(options.json, [asdict(cost) for cost in costs])
        print(memory_table(costs))
        if len(costs) > 2:
            print(f"\n{line_text(costs)}")
    elif options.command == "seams":
        caption = Reports(options.folder, options=options.option)
        print("\n\n".join(seams_table(pair, options.prime, caption) for pair in pairs))
    else:
        print("\n".join(str(path) for pair in pairs for path in (pair.before, pair.after)))


if __name__ == "__main__":
    main()

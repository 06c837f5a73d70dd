"""Render a pair of scenes, run ``rscc caption`` on it, and compare the report with the truth.

Usage: python examples/demo.py [FOLDER] [--model NAME_OR_FOLDER]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from make_demo_scene import make_scene
from rasterio.features import rasterize
from rasterio.warp import transform_geom

MOST_CAPTIONS = 8


def overlap_with_truth(report: dict[str, Any], truth_raster: Path) -> float:
    """Return the intersection over union of all outlines of a report and the changed ground, 0..1.

    Args:
        report: the GeoJSON collection, in WGS84.
        truth_raster: raster of classes in which 0 is unchanged.
    """
    with rasterio.open(truth_raster) as source:
        truth = source.read(1) > 0
        geometries = [
            transform_geom("OGC:CRS84", source.crs, feature["geometry"]) for feature in report["features"]
        ]
        found = np.zeros(truth.shape, bool)
        if geometries:
            found = rasterize(geometries, out_shape=truth.shape, transform=source.transform).astype(bool)
    union = np.count_nonzero(found | truth)
    return float(np.count_nonzero(found & truth) / union) if union else 1.0


def describe(report: dict[str, Any]) -> list[str]:
    """Return one line per caption of a report: number of changes and their area."""
    area: Counter[str] = Counter()
    number: Counter[str] = Counter()
    for feature in report["features"]:
        properties = feature["properties"]
        area[properties["caption"]] += properties["area_m2"]
        number[properties["caption"]] += 1
    lines = [f"  {number[text]:3d} x  {square:8,.0f} m2  {text}" for text, square in area.most_common()]
    if len(lines) > MOST_CAPTIONS:
        left = len(lines) - MOST_CAPTIONS
        lines[MOST_CAPTIONS:] = [f"  ... and {left} other caption{'' if left == 1 else 's'}"]
    return lines


def main() -> int:
    """Run the demo and return the exit code of ``rscc caption``."""
    parser = argparse.ArgumentParser(description="Render a pair of scenes and caption what changed.")
    parser.add_argument("folder", nargs="?", default="demo", type=Path)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--model", default=None, help="name or folder; default: the shipped model")
    options = parser.parse_args()

    print(f"Rendering two scenes into {options.folder} ...", flush=True)
    scene = make_scene(options.folder, seed=options.seed)
    output = options.folder / "report.geojson"
    words = ["caption", str(scene.before), str(scene.after), "-o", str(output), "--overwrite"]
    if options.model is not None:
        words += ["--model", options.model]
    print("rscc " + " ".join(words), flush=True)
    done = subprocess.run([sys.executable, "-m", "rscc", *words], check=False)
    if done.returncode != 0:
        return done.returncode

    report = json.loads(output.read_text(encoding="utf-8"))
    print("\nFound, by caption:" if report["features"] else "\nFound no change.")
    print("\n".join(describe(report)))
    overlap = overlap_with_truth(report, scene.truth_raster)
    print(f"\nOverlap of all polygons with the ground that truly changed (IoU): {overlap:.2f}")
    print(f"Report: {output.resolve()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

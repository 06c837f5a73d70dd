"""The first hour with rscc: twelve commands and Python snippets on a generated scene, each with its seconds.

Usage: python examples/first_use.py [FOLDER]

It ends with an error at the first step that does not do what it says.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

from make_demo_scene import make_scene
from run_rscc import run_rscc

import rscc


def main(folder: Path) -> None:
    """Run the steps in a folder, and print the seconds of each."""
    scene = make_scene(folder / "scene", size=(600, 520))
    before, after, report = scene.before, scene.after, folder / "changes.geojson"
    dated = folder / "dated"
    dated.mkdir(exist_ok=True)
    for path, day in ((before, "31-08-2019"), (after, "2021_06")):
        shutil.copy(path, dated / f"town_{day}.tif")

    def place() -> str:
        """Return the longitude and latitude of a point in the first change."""
        geometry = rscc.open_report(report).to_geodataframe().geometry.iloc[0]
        point = geometry.representative_point()
        return f"{point.x:.7f},{point.y:.7f}"

    def in_python() -> None:
        found = rscc.caption(before, after, direction="appeared")
        print(found.summary)
        found.save(folder / "appeared.gpkg", overwrite=True)

    def read_again() -> None:
        found = rscc.open_report(report)
        print(f"the first of {len(found)}: {found[0].caption}")

    archive, again = folder / "archive", "--overwrite"
    steps: dict[str, Callable[[], object]] = {
        "check two scenes": lambda: run_rscc("inspect", before, after),
        "find the changes": lambda: run_rscc("caption", before, after, "-o", report, again),
        "several outputs": lambda: run_rscc(
            "caption", before, after, "-o", folder / "c.gpkg", "-o", folder / "c.csv", again
        ),
        "a page": lambda: run_rscc("convert", report, folder / "changes.html", again),
        "one change": lambda: run_rscc("explain", report, "--id", 1),
        "a place": lambda: run_rscc("explain", before, after, "--at", place()),
        "a QGIS project": lambda: run_rscc("qgis", report, "-o", folder / "changes.qgz", again),
        "caption in Python": in_python,
        "a report in Python": read_again,
        "find pairs": lambda: run_rscc("pairs", dated, "-o", folder / "pairs.csv", again),
        "estimate an archive": lambda: run_rscc("batch", folder / "pairs.csv", "--out", archive, "--dry-run"),
        "process an archive": lambda: run_rscc("batch", folder / "pairs.csv", "--out", archive),
    }
    seconds = {}
    for name, step in steps.items():
        started = time.perf_counter()
        step()
        seconds[name] = time.perf_counter() - started
    print("\n".join(f"{taken:6.1f} s  {name}" for name, taken in seconds.items()))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "first_use"))

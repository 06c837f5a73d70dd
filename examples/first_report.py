"""A first report: describe the changes between two scenes, print them, and save them in three formats.

Usage: python examples/first_report.py [FOLDER]

The scenes are generated; replace them by your own. The command does the same:
``rscc caption before.tif after.tif -o changes.geojson --html changes.html``
"""

from __future__ import annotations

import sys
from pathlib import Path

from make_demo_scene import make_scene

import rscc

FORMATS = (".geojson", ".gpkg", ".html")


def main(folder: Path) -> rscc.Report:
    """Render two scenes into a folder, describe the changes, save the report there and return it."""
    scene = make_scene(folder, size=(600, 520))
    # One change per outline; by default, outlines up to 28 m apart form one change.
    report = rscc.caption(scene.before, scene.after, group_distance=0.0)

    print(report.run["summary"]["text"])
    for change in report.changes:
        print(f"{change.id:3d}  {change.area_m2:6,.0f} m2  score {change.score:.2f}  {change.caption}")

    frame = report.to_geodataframe()
    print(f"surer than 0.8: {len(frame[frame['score'] > 0.8])} of {len(frame)}")

    for suffix in FORMATS:
        print(report.save(folder / f"changes{suffix}", overwrite=True))
    return report


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo"))

"""Describe changes that another detector found: a mask, and polygons with columns of their own.

Usage: python examples/describe_own_mask.py [FOLDER]

The scenes and the mask are generated; replace them by your own. The command does the same:
``rscc caption before.tif after.tif --changes mask.tif -o described.geojson``
"""

from __future__ import annotations

import sys
from pathlib import Path

import geopandas
from make_demo_scene import make_scene

import rscc


def main(folder: Path) -> tuple[rscc.Report, rscc.Report]:
    """Describe a mask of classes, and the same changes as polygons; return both reports."""
    scene = make_scene(folder, size=(600, 520))
    # A raster of one band on any grid: here 1 for villas, 2 for roads, 3 for clearings.
    of_mask = rscc.caption(scene.before, scene.after, changes=scene.truth_raster)
    print(of_mask.run["summary"]["text"])

    # Polygons of any file or table; their columns stay.
    polygons = geopandas.read_file(scene.truth_polygons)
    of_polygons = rscc.caption(scene.before, scene.after, changes=polygons)
    for change in of_polygons:
        theirs = ", ".join(f"{name} {value}" for name, value in change.attributes.items())
        print(f"{change.source_id:>4}  {theirs:20}  seen {change.supported:4.0%}  {change.caption}")

    doubtful = [change for change in of_polygons if (change.supported or 0) < 0.5]
    print(f"the model sees no change in {len(doubtful)} of {len(of_polygons)}")
    print(of_polygons.save(folder / "described.gpkg", overwrite=True))
    return of_mask, of_polygons


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo"))

"""Many pairs: a table, an archive of reports, one layer of all changes, and a page.

Usage: python examples/caption_archive.py [FOLDER]

The scenes are generated: one folder per site, one scene per date. A second run repeats nothing.
"""

from __future__ import annotations

import sys
from pathlib import Path

import geopandas
from make_demo_scene import make_scene
from run_rscc import run_rscc

SITES = ("harbour", "hill")


def main(folder: Path) -> geopandas.GeoDataFrame:
    """Render scenes of two sites, process them into an archive, and return all changes."""
    scenes, table, archive = folder / "scenes", folder / "pairs.csv", folder / "archive"
    for number, site in enumerate(SITES):
        if not (scenes / site).exists():
            make_scene(scenes / site, seed=number, size=(600, 520), site=number)

    # Find pairs by folders and dates. Check and edit the table here.
    run_rscc("pairs", scenes, "--glob", "*_20??.tif", "-o", table, "--overwrite")
    run_rscc("batch", table, "--out", archive)
    run_rscc("status", archive, "--html", folder / "archive.html", "--overwrite")

    changes = geopandas.read_parquet(archive / "changes.parquet")
    print(changes[["pair", "id", "caption", "area_m2"]].to_string(index=False))
    return changes


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo"))

"""Many pairs: a table of them, an archive of their reports, one layer of all changes, and its page.

Usage: python examples/caption_archive.py [FOLDER]

The scenes are generated: a folder for each site, with a scene for each date. Run it twice: what is done is
not done again.
"""

from __future__ import annotations

import sys
from pathlib import Path

import geopandas
from make_demo_scene import make_scene
from run_rscc import rscc

SITES = ("harbour", "hill")


def main(folder: Path) -> geopandas.GeoDataFrame:
    """Render scenes of two sites, caption them as an archive, return all changes."""
    scenes, table, archive = folder / "scenes", folder / "pairs.csv", folder / "archive"
    for number, site in enumerate(SITES):
        if not (scenes / site).exists():
            make_scene(scenes / site, seed=number, size=(600, 520), site=number)

    # Which scenes belong together, by their folders and dates; look at the table, edit it.
    rscc("pairs", scenes, "--glob", "*_20??.tif", "-o", table, "--overwrite")
    rscc("batch", table, "--out", archive)
    rscc("status", archive, "--html", folder / "archive.html", "--overwrite")

    changes = geopandas.read_parquet(archive / "changes.parquet")
    print(changes[["pair", "id", "caption", "area_m2"]].to_string(index=False))
    return changes


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo"))

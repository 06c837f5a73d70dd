"""A QGIS project: both scenes, the changes on top with their style, a bookmark for each change.

Usage: python examples/qgis_project.py [FOLDER]

Open the project that it prints in QGIS 3.22 or newer. The scenes are generated.
"""

from __future__ import annotations

import sys
from pathlib import Path

from make_demo_scene import make_scene
from run_rscc import rscc


def main(folder: Path) -> Path:
    """Render two scenes, caption them, write the project; return its path."""
    scene = make_scene(folder, size=(600, 520))
    report, project = folder / "changes.geojson", folder / "changes.qgz"
    rscc("caption", scene.before, scene.after, "-o", report, "--overwrite")
    rscc("qgis", report, "-o", project, "--overwrite")
    # A GeoPackage has the style inside, so one file is enough to send to somebody.
    rscc("convert", report, folder / "changes.gpkg", "--overwrite")
    return project


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo"))

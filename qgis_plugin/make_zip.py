"""Zip the plugin as QGIS installs it; the same files make the same bytes.

Usage: python qgis_plugin/make_zip.py [ZIP]
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

FOLDER = Path(__file__).with_name("rscc_changes")
MOST_BYTES = 1_000_000
KINDS = (".py", ".txt", ".svg")


def plugin_files() -> list[Path]:
    """Return the files of the plugin in a fixed order."""
    return sorted(path for path in FOLDER.rglob("*") if path.suffix in KINDS or path.name == "LICENSE")


def write_zip(target: Path) -> Path:
    """Write the zip file and return its path."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in plugin_files():
            # Dated 1980, with fixed permissions, wherever and whenever it is made.
            entry = zipfile.ZipInfo(path.relative_to(FOLDER.parent).as_posix())
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            entry.create_system = 3
            archive.writestr(entry, path.read_bytes())
    if target.stat().st_size > MOST_BYTES:
        raise SystemExit(f"{target}: {target.stat().st_size:,} bytes; a plugin has at most {MOST_BYTES:,}")
    return target


if __name__ == "__main__":
    made = write_zip(Path(sys.argv[1] if len(sys.argv) > 1 else "rscc_changes.zip"))
    print(f"{made}: {made.stat().st_size:,} bytes")

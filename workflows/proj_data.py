"""Ignore a database of PROJ that the environment names and our libraries cannot use."""

import os
import sqlite3
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

_VARIABLES = ("PROJ_DATA", "PROJ_LIB")
_LAYOUT = "SELECT value FROM metadata WHERE key LIKE 'DATABASE.LAYOUT.VERSION.M%' ORDER BY key"


def ignore_unusable_proj_data() -> None:
    """Unset the variables that name no database of PROJ, or one of another layout than that of rasterio.

    Installations of other programs (QGIS, PostGIS, conda) set them for all. PROJ would print an error for
    every coordinate system, and know none. Where rasterio comes without a database, nothing is done.
    """
    named = [name for name in _VARIABLES if os.environ.get(name)]
    if not named:
        return
    spec = find_spec("rasterio")
    own = _layout(Path(spec.origin).parent / "proj_data") if spec and spec.origin else None
    for name in named:
        folders = os.environ[name].split(os.pathsep)
        if own is not None and own not in map(_layout, map(Path, folders)):
            del os.environ[name]


def _layout(folder: Path) -> list[str] | None:
    """Return the version of the layout of a database of PROJ; None without one."""
    address = f"{(folder / 'proj.db').absolute().as_uri()}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(address, uri=True)) as base:
            return [value for (value,) in base.execute(_LAYOUT)] or None
    except sqlite3.Error:
        return None

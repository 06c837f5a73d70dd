"""Small scenes to be paired, and what a catalog says of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rasters import write_scene

from workflows.pairs.catalog import Catalog
from workflows.pairs.options import CatalogOptions
from workflows.pairs.sources import read_catalog

PIXELS = np.full((3, 16, 16), 90, np.uint8)
SIGNED = (
    "addresses in the table are signed or hold a password: whoever has the table can read the scenes, "
    "for as long as these are valid"
)


def write_scenes(root: Path, *names: str, **options) -> Path:
    """Write small scenes of one place under ``root``; the options are those of :func:`write_scene`."""
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        write_scene(root / name, PIXELS, **options)
    return root


def read(source, **options) -> Catalog:
    """The pairs of one source; the options are those of a catalog."""
    return read_catalog([str(source)], CatalogOptions(**options))


def ids(catalog) -> list[str]:
    return [row.pair for row in catalog.rows]


def lines(catalog) -> list[str]:
    return [skipped.line for skipped in catalog.skipped]

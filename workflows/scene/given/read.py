"""Read the changes that a user gives: a vector file, a raster, a GeoDataFrame, or GeoJSON from memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workflows.errors import GivenInvalid
from workflows.polygon_files import PolygonFiles, holds_polygons
from workflows.printable import printable
from workflows.scene.given.layer import MOST_FEATURES, GivenLayer, layer_of
from workflows.scene.given.raster import read_raster_changes

if TYPE_CHECKING:
    from tiling import Access
    from workflows.options import SceneOptions

_FILES = PolygonFiles(GivenInvalid, MOST_FEATURES)


def read_changes(source: Any, access: Access | None = None) -> GivenLayer:
    """Return the changes of a file, a GeoDataFrame or GeoJSON.

    Args:
        source: a path, for another than the first layer with ``|layername=LAYER`` behind it; or a
            GeoDataFrame, a GeoJSON feature collection or anything with ``__geo_interface__``.
        access: servers that may be asked for a raster.

    Raises:
        GivenInvalid: it cannot be read, or is no layer of polygons.
    """
    if isinstance(source, GivenLayer):
        return source
    if isinstance(source, str | Path):
        return _read_file(str(source), access)
    name = "changes"  # in messages and the run record
    with _FILES.one_line(name):
        if hasattr(source, "geometry") and hasattr(source, "crs") and hasattr(source, "columns"):
            return layer_of(source, name)
        content = getattr(source, "__geo_interface__", source)
        if not isinstance(content, Mapping):
            raise GivenInvalid(
                f"{name} is a {type(source).__name__}; give a file, a GeoDataFrame or a GeoJSON collection"
            )
        return layer_of(_FILES.from_geojson(dict(content), name), name)


def with_changes(options: SceneOptions) -> SceneOptions:
    """Return options with the given changes read, so that a wrong layer is refused before other work."""
    if options.changes is None:
        return options
    return replace(options, changes=read_changes(options.changes, options.access))


def _read_file(text: str, access: Access | None) -> GivenLayer:
    file = text.partition("|")[0]
    if not holds_polygons(Path(file)):
        return read_raster_changes(file, access)
    frame, layer = _FILES.read(text)
    with _FILES.one_line(printable(file)):
        return layer_of(frame, Path(file).name, layer)

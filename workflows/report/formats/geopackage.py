"""Write GeoPackages with the styles that QGIS applies by itself; the same content makes the same bytes."""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple

import pyarrow as pa
import pyogrio
from pyogrio.errors import DataLayerError, DataSourceError
from pyogrio.util import vsi_path

from rscc.files import temporary_folder
from workflows.report.formats.parquet import GEOMETRY

# A fixed date, because GDAL notes when a layer was changed. What is written is a draft: it is synchronised
# once when it is complete, not by SQLite at every step, and needs no locks, which some network shares lack.
_SETTINGS = {
    "OGR_CURRENT_DATE": "2000-01-01T00:00:00Z",
    "OGR_SQLITE_SYNCHRONOUS": "OFF",
    "SQLITE_USE_OGR_VFS": "YES",
}
# The settings belong to the process: one thread writes at a time.
_WRITING = RLock()
_STYLE_TEXTS = (
    "f_table_catalog",
    "f_table_schema",
    "f_table_name",
    "f_geometry_column",
    "styleName",
    "styleQML",
    "styleSLD",
)
_STYLES = pa.schema(
    {
        **dict.fromkeys(_STYLE_TEXTS, pa.string()),
        "useAsDefault": pa.bool_(),
        **dict.fromkeys(("description", "owner", "ui"), pa.string()),
        "update_time": pa.timestamp("ms"),
    }
)


class Layer(NamedTuple):
    """A layer of multipolygons in groups of rows, and its QGIS style, if it has one."""

    name: str
    schema: pa.Schema
    groups: Iterable[pa.RecordBatch]
    description: str
    style: str | None = None


def write_geopackage(path: Path, layers: Sequence[Layer], *, crs: str, record: Any) -> None:
    """Write layers to ``path``, each with the run record in its metadata, under ``rscc``."""
    metadata = {"rscc": json.dumps(record)}  # ASCII, because GDAL puts it into XML
    for layer in layers:
        with writing(path) as name_of_file:
            pyogrio.write_arrow(
                pa.RecordBatchReader.from_batches(layer.schema, layer.groups),
                name_of_file,
                layer=layer.name,
                driver="GPKG",
                geometry_name=GEOMETRY,
                geometry_type="MultiPolygon",
                crs=crs,
                append=path.exists(),
                layer_metadata=metadata,
                layer_options={"GEOMETRY_NAME": GEOMETRY, "DESCRIPTION": layer.description},
            )
    styles = [
        {
            **dict.fromkeys((*_STYLE_TEXTS, "description", "owner"), ""),
            "f_table_name": layer.name,
            "f_geometry_column": GEOMETRY,
            "styleName": layer.name,
            "styleQML": layer.style,
            "useAsDefault": True,
        }
        for layer in layers
        if layer.style is not None
    ]
    with writing(path) as name_of_file:
        pyogrio.write_arrow(
            pa.Table.from_pylist(styles, _STYLES),
            name_of_file,
            layer="layer_styles",
            driver="GPKG",
            append=True,
            layer_options={"FID": "id"},
        )


@contextmanager
def writing(path: Path) -> Iterator[str]:
    """Yield the name by which pyogrio writes ``path``; check afterwards that the file is there."""
    with _WRITING:
        before = {name: pyogrio.get_gdal_config_option(name) for name in _SETTINGS}
        pyogrio.set_gdal_config_options(_SETTINGS)
        try:
            with _plain(path) as name_of_file:
                yield name_of_file
        except (DataSourceError, DataLayerError) as error:
            raise OSError(f"{path.name}: {error}") from error
        finally:
            pyogrio.set_gdal_config_options(before)
    if not path.is_file():
        raise OSError(f"{path.name}: was not written; give it a path without ! and line breaks")


@contextmanager
def _plain(path: Path) -> Iterator[str]:
    """Yield a name of ``path`` without ``!``, which pyogrio takes for the end of an archive."""
    name = os.path.abspath(path)
    if vsi_path(name) == name:
        yield name
        return
    with temporary_folder() as folder:
        link = folder / "layers"
        link.symlink_to(os.path.dirname(name), target_is_directory=True)
        yield str(link / path.name)

"""Read the polygons of a vector file that may come from anybody.

GeoJSON and CSV are parsed here, since GDAL would ask the address that a GeoJSON's ``crs`` may name. Of the
other formats only those of :data:`FORMATS` are opened, by their first bytes, and their CRS is checked before
PROJ sees it.
"""

from __future__ import annotations

import csv
import io
import json
import mmap
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice, pairwise
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import shapely
from shapely.geometry import shape
from shapely.geometry.base import BaseGeometry

from rscc.files import parsed_json, read_file, temporary_folder
from tiling import TilingError, UnsafeReference, checked_crs, is_special_file, open_regular
from tiling.crs_texts import check_crs_bytes
from tiling.zip_archives import open_zip
from workflows.bounded import bounded_memory, check_database, check_depth, check_parquet, texts_of_crs
from workflows.errors import WorkflowError
from workflows.printable import printable

if TYPE_CHECKING:
    from geopandas import GeoDataFrame

LARGEST_BYTES = 2**30
"""Largest vector file that is read, and the most bytes that a zip may unpack to."""
_SQLITE = ((b"SQLite format 3\0",), ("GPKG", "SQLite"))
_XML = (b"<", b"\xef\xbb\xbf<")
FORMATS = {
    ".gpkg": _SQLITE,
    ".sqlite": _SQLITE,
    ".fgb": ((b"fgb",), ("FlatGeobuf",)),
    ".shp": ((b"\x00\x00\x27\x0a",), ("ESRI Shapefile",)),
    ".parquet": ((b"PAR1",), ()),
    ".geoparquet": ((b"PAR1",), ()),
    ".kml": (_XML, ("KML", "LIBKML")),
    ".gml": (_XML, ("GML",)),
    ".mif": ((b"Version", b"VERSION", b"version"), ("MapInfo File",)),
    ".tab": ((b"!table", b"!Table", b"!TABLE"), ("MapInfo File",)),
}
"""Formats that libraries read for us by suffix: the first bytes of their files, and GDAL's drivers."""
_GEOJSON = (".geojson", ".json", ".geojsonl", ".geojsons", ".ndjson")
_PARQUET = (".parquet", ".geoparquet")
_DATABASES = (".gpkg", ".sqlite")
_TEXT = (*_GEOJSON, ".csv")
_TEXTS_OF_GDAL = (".kml", ".gml", ".tab", ".mif")
# Files of a shapefile, and of MapInfo, that belong to the one that is named.
_PARTS = (".shx", ".dbf", ".prj", ".cpg", ".mid", ".map", ".dat", ".id")
# What leads GDAL elsewhere: documents of XML and JSON, entities, labels of planetary data, and tables of
# MapInfo that name others. GDAL looks for it at the beginning of files of every format.
_LEADING = re.compile(
    rb"<ogrvrt|<vrtdataset|<ogrwfs|<wfs_|<gdal_|<!doctype|<!entity|gdal_streamed_alg|product_observational"
    rb"|pds_version_id|\bopen\s+table|create\s+view|isseamless",
    re.IGNORECASE,
)
_SYSTEMS = re.compile(rb"srsname\s*=\s*(?:\"([^\"]*)\"|'([^']*)')", re.IGNORECASE)
_HEAD, _LONGEST = 2**16, 2**24
# Values of one feature of a GeoJSON: they take much memory until its corners are a shape.
_MOST_VALUES = 6_000_000
_MOST_COLUMNS, _MOST_CELLS = 2000, 50_000_000
# Do not fetch schemas, write no side-cars.
_SETTINGS = {"GML_DOWNLOAD_SCHEMA": "NO", "GML_SAVE_RESOLVED_TO": "NONE", "GDAL_HTTP_TIMEOUT": "1"}
_WGS84, _FEATURE = "EPSG:4326", "Feature"


class PolygonFiles:
    """Reads polygons for one purpose.

    Args:
        error: class of the errors that are raised for a wrong file; each names the file.
        most: features that are read at most.
    """

    def __init__(self, error: type[WorkflowError], most: int) -> None:
        self.error, self.most = error, most

    def read(self, text: str) -> tuple[GeoDataFrame, str | None]:
        """Return the features of a file with a CRS, and the name of their layer where there are several.

        Args:
            text: a path; for another than the first layer with ``|layername=LAYER`` behind it.
        """
        file, _, rest = text.partition("|")
        layer = rest.removeprefix("layername=") or None
        path, shown = Path(file), printable(file)
        if is_special_file(path) or not path.is_file():
            fact = "is no plain file" if path.exists() else "there is no such file"
            raise self.error(f"{shown}: {fact}; give a file with polygons")
        if path.stat().st_size > LARGEST_BYTES:
            raise self.error(f"{shown}: larger than {LARGEST_BYTES // 2**20} MiB; cut it to the scenes")
        with self.one_line(shown), bounded_memory(), _unpacked(path) as found:
            _check_beside(found)
            suffix = found.suffix.lower()
            if suffix in _GEOJSON:
                frame, used = self.from_geojson(_geojson(found, suffix, self.most), shown), None
            elif suffix == ".csv":
                frame, used = _csv(found, self.most), None
            elif suffix in FORMATS:
                frame, used = _vector(found, suffix, layer, self.most)
            else:
                raise ValueError(f"no such format is read; save it as one of {', '.join(SUFFIXES)}")
            if len(frame) > self.most:
                raise ValueError(f"more than {self.most:,} features; cut it to the scenes")
            if frame.crs is None:
                raise ValueError("no coordinate reference system; set it with ogr2ogr -a_srs EPSG:...")
        return frame, used

    @contextmanager
    def one_line(self, shown: str) -> Iterator[None]:
        """Turn what drivers raise on a damaged file into an error of one line."""
        try:
            yield
        except (self.error, UnsafeReference):
            raise
        except MemoryError as error:
            raise self.error(f"{shown}: takes too much memory; cut it to the ground of the scenes") from error
        except Exception as error:  # of many classes
            reason = printable(" ".join(str(error).split()))[:200]
            raise self.error(f"{shown}: cannot be read as polygons ({reason})") from error

    def from_geojson(self, content: dict[str, Any], shown: str) -> GeoDataFrame:
        """Return the features of a collection, in the CRS of its old ``crs`` member or WGS84."""
        from geopandas import GeoDataFrame

        features = [content] if content.get("type") == _FEATURE else content.get("features")
        if not isinstance(features, list) or not all(isinstance(one, dict) for one in features):
            raise self.error(f"{shown}: is no GeoJSON collection of features")
        if len(features) > self.most:
            raise self.error(f"{shown}: more than {self.most:,} features; cut it to the scenes")
        rows = [one["properties"] if isinstance(one.get("properties"), dict) else {} for one in features]
        shapes = [_shape(one.get("geometry")) for one in features]
        ids = [one.get("id", number) for number, one in enumerate(features, start=1)]
        columns = list(dict.fromkeys(name for row in rows for name in row))
        if len(columns) * len(rows) > _MOST_CELLS:
            raise self.error(f"{shown}: {len(columns):,} columns of {len(rows):,} features are too many")
        cells = {name: [row.get(name) for row in rows] for name in columns if name != "geometry"}
        crs = self._crs_member(content.get("crs"), shown)
        return GeoDataFrame(cells, geometry=shapes, index=ids, crs=crs)

    def _crs_member(self, member: Any, shown: str) -> str:
        if member is None:
            return _WGS84
        properties = member.get("properties") if isinstance(member, dict) else None
        name = properties.get("name") if isinstance(properties, dict) else None
        if not isinstance(name, str):
            raise self.error(f"{shown}: its crs names no coordinate reference system; remove it, or name one")
        return checked_crs(name, shown)


SUFFIXES = (*_TEXT, *FORMATS, ".zip")
"""Suffixes of the files that are read."""


def holds_polygons(path: Path) -> bool:
    """Return whether a file is one of these formats by its name; a zip, by the names in it."""
    if path.suffix.lower() != ".zip" or is_special_file(path) or not path.is_file():
        return _is_vector(path.name)
    try:
        with open_zip(printable(path), path) as archive:
            return any(map(_is_vector, archive.namelist()))
    except (OSError, ValueError, TilingError):
        return False


def _is_vector(name: str) -> bool:
    return PurePosixPath(name).suffix.lower() in (*_TEXT, *FORMATS)


@contextmanager
def _unpacked(path: Path) -> Iterator[Path]:
    """Yield the file itself; of a zip its first vector file, unpacked with what belongs to it."""
    if path.suffix.lower() != ".zip":
        yield path
        return
    with temporary_folder() as folder, open_zip(printable(path), path) as archive:
        first = next((one for one in archive.infolist() if _is_vector(one.filename)), None)
        if first is None:
            raise ValueError("it holds no file with polygons")
        stem = PurePosixPath(first.filename).with_suffix("")
        own = [
            one
            for one in archive.infolist()
            if one is first
            or (
                PurePosixPath(one.filename).with_suffix("") == stem
                and PurePosixPath(one.filename).suffix.lower() in _PARTS
            )
        ]
        if sum(one.file_size for one in own) > LARGEST_BYTES:
            raise ValueError(f"it unpacks to more than {LARGEST_BYTES // 2**20} MiB")
        for one in own:
            with (
                archive.open(one) as source,
                (folder / f"layer{PurePosixPath(one.filename).suffix.lower()}").open("xb") as target,
            ):
                shutil.copyfileobj(source, target)
        yield folder / f"layer{PurePosixPath(first.filename).suffix.lower()}"


def _check_beside(path: Path) -> None:
    """Refuse pipes and devices among the files that a driver may open with one: it would wait for ever."""
    stem = path.stem.lower()
    for name in os.listdir(path.parent):
        if name.lower().startswith(stem) and is_special_file(path.with_name(name)):
            raise ValueError(f"{printable(name)} beside it is a pipe, a socket or a device; remove it")


def _check_leading(path: Path, suffix: str) -> None:
    """Refuse, by a ValueError, a file that is not what its suffix says, or leads a driver to another one."""
    with open(path, "rb", opener=open_regular) as file:
        head = file.read(_HEAD)
        if not head.startswith(FORMATS[suffix][0]):
            raise ValueError(f"it is no {suffix} file; save it again as GeoPackage")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            if _LEADING.search(content if suffix in _TEXTS_OF_GDAL else head):
                raise ValueError("it names other files; save it again as GeoPackage")
            if suffix == ".gml":
                texts = {match[1] or match[2] or b"" for match in _SYSTEMS.finditer(content)}
                check_crs_bytes(printable(path), b"\n".join(texts))
        if suffix == ".fgb":  # the texts of its header
            file.seek(0)
            size = 12 + int.from_bytes(head[8:12], "little")
            check_crs_bytes(printable(path), file.read(min(_LONGEST, size)))
    if suffix in _DATABASES:
        for text in texts_of_crs(path):
            check_crs_bytes(printable(path), text.encode())
    for beside in os.listdir(path.parent):
        if beside.lower() in {f"{path.stem.lower()}{end}" for end in (".prj", ".qpj", ".gfs", ".xsd")}:
            check_crs_bytes(printable(path), read_file(path.with_name(beside), _LONGEST))


def _geojson(path: Path, suffix: str, most: int) -> dict[str, Any]:
    """Return a collection of features with shapes as their geometries."""
    content = read_file(path, LARGEST_BYTES)
    if suffix in (".geojson", ".json"):
        shapes = [match.start() for match in re.finditer(rb'"coordinates"', content)]
        for start, stop in pairwise((0, *shapes, len(content))):
            if content.count(b",", start, stop) > _MOST_VALUES:
                raise ValueError("a feature has millions of values; cut it")
        parsed = parsed_json(content, _with_shape)
        if not isinstance(parsed, dict):
            raise ValueError("it is no GeoJSON")
        return parsed
    lines = (line.strip(b"\x1e \r\t\n") for line in io.BytesIO(content))
    features = (parsed_json(line, _with_shape) for line in lines if line)
    return {"type": "FeatureCollection", "features": list(islice(features, most + 1))}


def _with_shape(member: dict[str, Any]) -> dict[str, Any]:
    """Return a feature with its corners as a shape, which takes a tenth of their memory."""
    return member | {"geometry": _shape(member.get("geometry"))} if member.get("type") == _FEATURE else member


def _shape(member: Any) -> BaseGeometry | None:
    return shape(member) if isinstance(member, dict) else member


def _csv(path: Path, most: int) -> GeoDataFrame:
    """Return the rows of a table with outlines as WKT in degrees, as we write it."""
    from geopandas import GeoDataFrame

    csv.field_size_limit(max(csv.field_size_limit(), _LONGEST))
    reader = csv.DictReader(io.StringIO(read_file(path, LARGEST_BYTES).decode("utf-8-sig")))
    names = [name for name in reader.fieldnames or () if name]
    if len(names) > _MOST_COLUMNS:
        raise ValueError(f"more than {_MOST_COLUMNS:,} columns")
    outline = next((name for name in names if name.lower() in ("wkt", "geometry", "the_geom")), None)
    if outline is None:
        raise ValueError("it has no column wkt with outlines in degrees of longitude and latitude")
    rows = [row for row, _ in zip(reader, range(most + 1), strict=False)]
    for row in rows:
        check_depth(row[outline] or "")
    cells = {name: [row.get(name) or None for row in rows] for name in names if name != outline}
    return GeoDataFrame(cells, geometry=shapely.from_wkt([row[outline] or None for row in rows]), crs=_WGS84)


def _vector(path: Path, suffix: str, layer: str | None, most: int) -> tuple[GeoDataFrame, str | None]:
    """Return the features of a layer, by default the first, and its name where there are several."""
    views = check_database(path) if suffix in _DATABASES else ()
    _check_leading(path, suffix)
    if suffix in _PARQUET:
        return _parquet(path, most), None
    import pyogrio

    before = {name: pyogrio.get_gdal_config_option(name) for name in _SETTINGS}
    pyogrio.set_gdal_config_options(_SETTINGS)
    try:
        layers = [str(one) for one, kind in pyogrio.list_layers(path) if kind is not None]
        if not layers or (layer is not None and layer not in layers):
            there = printable(", ".join(layers[:20])) or "none"
            raise ValueError(f"it has no layer {printable(layer or '')}; its layers of shapes are: {there}")
        chosen = layer or layers[0]
        if chosen.lower() in views:
            raise ValueError(f"{printable(chosen)} is a view; save it as a layer of its own")
        about = pyogrio.read_info(path, layer=chosen)
        if about["driver"] not in FORMATS[suffix][1]:
            raise ValueError(f"it is no {suffix} file; save it again as GeoPackage")
        if about["crs"]:
            checked_crs(about["crs"], printable(path))
        frame = pyogrio.read_dataframe(path, layer=chosen, fid_as_index=True, max_features=most + 1)
    finally:
        pyogrio.set_gdal_config_options(before)
    return frame, chosen if len(layers) > 1 else None


def _parquet(path: Path, most: int) -> GeoDataFrame:
    import geopandas
    import pyarrow.parquet as pq

    metadata = pq.read_metadata(path)
    if metadata.num_rows > most:
        raise ValueError(f"more than {most:,} features")
    shapes = parsed_json((metadata.metadata or {}).get(b"geo", b"{}")).get("columns", {})
    for column in shapes.values():
        if (crs := column.get("crs")) is not None:
            checked_crs(crs if isinstance(crs, str) else json.dumps(crs), printable(path))
    check_parquet(path, LARGEST_BYTES, list(shapes))
    frame = geopandas.read_parquet(path)
    frame.index = range(1, len(frame) + 1)
    return frame

"""Read the header of a scene."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from affine import Affine
from rasterio._err import CPLE_BaseError
from rasterio.control import GroundControlPoint
from rasterio.enums import ColorInterp, MaskFlags
from rasterio.errors import RasterioError
from rasterio.io import DatasetReader
from shapely.geometry import Polygon

from tiling.access import ANYWHERE, Access
from tiling.errors import SceneDamaged
from tiling.georeferencing import outline, read_georeferencing
from tiling.location import Location, locate
from tiling.opening import masked_by, open_checked
from tiling.sidecars import MASK, Sidecars
from tiling.vrt_checks import checked_vrt


@dataclass(frozen=True)
class SceneInfo:
    """The header of a raster.

    Attributes:
        path: the scene as it was named, without secrets; for messages and records.
        source: the name that GDAL opens; it may hold secrets.
        driver: GDAL's name of the format.
        crs: coordinate reference system (rasterio); that of the ground control points if there are any.
        transform: column and row to map coordinates; may rotate, shear or flip. With ground control points
            the affine transform nearest to them.
        width, height: in pixels.
        dtype: type of the pixels; if bands differ, the type that holds them all.
        nodata: value that stands for no data, or None.
        gsd: ground sampling distance in metres at the centre; geometric mean of width and height.
        dtypes: type of each band.
        colors: colour interpretation of each band: "red", "alpha", "undefined", ...
        masked_by: what marks pixels without data: "nothing", "nodata", "mask" or "alpha".
        gcps: ground control points, where they say more than ``transform``; longitudes do not jump.
        descriptions: name of each band, or None.
        palette: red, green, blue and alpha by pixel value of a paletted image, or None.
        scales, offsets: of each band; the quantity is value * scale + offset. Default 1 and 0.
        unused_mask: name of a mask file of which GDAL takes nothing, or None.
        access: the servers that may be asked for it.
    """

    path: str
    source: str = field(repr=False)
    driver: str
    crs: Any
    transform: Affine
    width: int
    height: int
    count: int
    dtype: str
    nodata: float | None
    gsd: float
    tags: Mapping[str, str]
    dtypes: tuple[str, ...]
    colors: tuple[str, ...]
    masked_by: str
    gcps: tuple[GroundControlPoint, ...]
    descriptions: tuple[str | None, ...]
    palette: tuple[tuple[int, int, int, int], ...] | None = field(repr=False)
    scales: tuple[float, ...]
    offsets: tuple[float, ...]
    unused_mask: str | None = None
    access: Access = field(default=ANYWHERE, repr=False)

    @property
    def along_axes(self) -> bool:
        """Whether rows and columns run along the axes of the map, in either direction."""
        return self.transform.b == self.transform.d == 0 and not self.gcps

    @property
    def north_up(self) -> bool:
        """Whether columns run from west to east and rows from north to south."""
        return self.along_axes and self.transform.a > 0 and self.transform.e < 0

    @cached_property
    def footprint(self) -> Polygon:
        """The outline of the image in map coordinates; curved only with ground control points."""
        return outline(self.transform, self.gcps, self.width, self.height)

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        """West, south, east and north edge of the footprint in map coordinates."""
        return self.footprint.bounds


def describe(path: str | Path, access: Access = ANYWHERE) -> SceneInfo:
    """Read the header of a raster; ``access`` says which servers may be asked.

    Raises:
        TilingError: the file is missing, a folder, not an allowed raster, beyond the limits, on a forbidden
            server, not georeferenced, or refers to something outside its folder.
    """
    location = locate(path)
    with open_checked(location, access) as file:
        try:
            return _described(location, access, file)
        except (CPLE_BaseError, RasterioError, UnicodeDecodeError) as error:
            # GDAL reads some parts of a header only on request.
            shown = location.shown
            raise SceneDamaged(f"{shown}: its header is damaged ({error}); get an undamaged copy") from error


@contextmanager
def open_scene(path: str | Path | SceneInfo, access: Access = ANYWHERE) -> Iterator[DatasetReader]:
    """Open a raster for reading; it need not be georeferenced. ``access`` counts for names only."""
    location = locate(path.source if isinstance(path, SceneInfo) else path)
    if isinstance(path, SceneInfo):
        location, access = replace(location, shown=path.path), path.access
    with open_checked(location, access) as file:
        yield file


def files_of(scene: str | Path | SceneInfo, access: Access = ANYWHERE) -> set[str]:
    """Return the local files that a scene is read from."""
    location = locate(scene.source if isinstance(scene, SceneInfo) else scene)
    with open_scene(scene, access) as file:
        names = {name for name in file.files if os.path.isfile(name)}
        if location.member is not None:
            names.add(str(location.local))
        if file.driver == "VRT":
            path = Path(location.source)
            beside = Sidecars().rasters(location.shown, path)
            names.update(str(name) for name in (path, *beside, *checked_vrt(location.shown, path).sources))
    return names


def _described(location: Location, access: Access, file: DatasetReader) -> SceneInfo:
    position = read_georeferencing(location.shown, file)
    real = [np.dtype(dtype) for dtype in file.dtypes if dtype != "complex_int16"]
    return SceneInfo(
        **vars(position),
        path=location.shown,
        source=location.source,
        driver=file.driver,
        width=file.width,
        height=file.height,
        count=file.count,
        dtype=str(np.result_type(*real)) if real else "complex_int16",
        nodata=file.nodata,
        tags=dict(file.tags()),
        dtypes=tuple(file.dtypes),
        colors=tuple(color.name for color in file.colorinterp),
        masked_by=masked_by(file),
        descriptions=_descriptions(file),
        palette=_palette(file),
        scales=tuple(float(scale) for scale in file.scales),
        offsets=tuple(float(offset) for offset in file.offsets),
        unused_mask=_unused_mask(file),
        access=access,
    )


def _descriptions(file: DatasetReader) -> tuple[str | None, ...]:
    try:
        return tuple(file.descriptions)
    except UnicodeDecodeError:
        return (None,) * file.count  # not UTF-8


def _palette(file: DatasetReader) -> tuple[tuple[int, int, int, int], ...] | None:
    first, *others = file.colorinterp
    if first != ColorInterp.palette or any(color != ColorInterp.alpha for color in others):
        return None
    try:
        table = file.colormap(1)
    except ValueError:
        return None  # no table: the band is grey
    return tuple(table[value] for value in range(len(table)))


def _unused_mask(file: DatasetReader) -> str | None:
    """Return the name of a mask file beside a raster that no band uses, or None."""
    if any(set(flags) <= {MaskFlags.per_dataset} for flags in file.mask_flag_enums):
        return None
    beside = f"{file.name}{MASK}".lower()
    return next((Path(name).name for name in file.files if name.lower() == beside), None)

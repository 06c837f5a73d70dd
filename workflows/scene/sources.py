"""Scenes given from Python: paths, open datasets, xarray arrays, and georeferenced numpy arrays."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import rasterio
from rasterio.errors import RasterioError
from rasterio.io import DatasetReaderBase

from rscc.errors import ExtraNotInstalled

if TYPE_CHECKING:
    from affine import Affine


class Copies:
    """A temporary folder for scenes that are no files; it goes when the last reference to this goes."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="rscc-scenes-"))
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)


Source = Any
"""What :func:`scene_file` takes; xarray need not be installed."""
_TAKEN = (
    "a path, an open rasterio dataset, an xarray.DataArray with a CRS (rioxarray), or an array (bands, rows, "
    "columns) or (rows, columns) with transform= and crs="
)


def scene_file(
    source: Source,
    role: str,
    copies: Copies,
    transform: Affine | Sequence[float] | None = None,
    crs: object = None,
) -> str | Path:
    """Return the path of a scene; what is not a file is written to one in ``copies``.

    Args:
        source: see :data:`Source`.
        role: ``before`` or ``after``, the name in messages and of the file.
        transform, crs: georeferencing of a numpy array.

    Raises:
        TypeError: it is something else; the message says what is taken.
        ExtraNotInstalled: an xarray array, and rioxarray is not installed.
    """
    path = copies.folder / f"{role}.tif"
    if isinstance(source, str | Path):
        return source
    if isinstance(source, DatasetReaderBase):
        return _dataset(source, role, path)
    if isinstance(source, np.ndarray):
        return _array(source, role, path, transform, crs)
    if hasattr(source, "dims") and hasattr(source, "values"):
        return _data_array(source, role, path)
    raise TypeError(f"{role} is a {type(source).__name__}; give {_TAKEN}")


def _dataset(source: DatasetReaderBase, role: str, path: Path) -> str | Path:
    if source.closed:
        raise TypeError(f"{role} is a closed rasterio dataset; open it, or give its path")
    if Path(source.name).is_file():
        return source.name
    # In memory, a warped view, or on a server under another session.
    profile = {**source.profile, "driver": "GTiff", "tiled": True, "blockxsize": 256, "blockysize": 256}
    with rasterio.open(path, "w", **profile) as target:
        target.update_tags(**source.tags())
        target.descriptions = source.descriptions
        for _, window in target.block_windows():
            target.write(source.read(window=window), window=window)
    return path


def _array(
    source: np.ndarray, role: str, path: Path, transform: Affine | Sequence[float] | None, crs: object
) -> Path:
    if transform is None or crs is None:
        raise TypeError(f"{role} is an array; give its georeferencing as transform= and crs= too")
    if source.ndim not in (2, 3) or 0 in source.shape:
        raise TypeError(f"{role} is an array of shape {source.shape}; give (bands, rows, columns)")
    bands = source[None] if source.ndim == 2 else source
    bands = bands.astype(np.uint8) if bands.dtype == bool else bands
    try:
        with rasterio.open(
            path,
            "w",
            driver="GTiff",
            width=bands.shape[2],
            height=bands.shape[1],
            count=bands.shape[0],
            dtype=bands.dtype,
            crs=crs,
            transform=rasterio.Affine(*tuple(transform)[:6]),
        ) as target:
            target.write(np.ma.getdata(bands))
            if np.ma.isMaskedArray(bands):
                target.write_mask(~np.ma.getmaskarray(bands).any(axis=0))
    except (RasterioError, TypeError, ValueError) as error:
        raise TypeError(f"{role} is an array that makes no scene ({error}); give {_TAKEN}") from error
    return path


def _data_array(source: Any, role: str, path: Path) -> Path:
    try:
        import rioxarray  # noqa: F401  it adds the accessor rio
    except ModuleNotFoundError as error:
        raise ExtraNotInstalled(
            f"{role} is an xarray array, which needs rioxarray; install rscc[notebook]"
        ) from error
    if source.rio.crs is None:
        raise TypeError(f"{role} is an xarray.DataArray without a CRS; set it with .rio.write_crs")
    source.rio.to_raster(path)
    return path

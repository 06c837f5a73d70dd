"""Virtual rasters as ``gdalbuildvrt`` writes them, of one GeoTIFF: a mosaic of its parts, or of its bands."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import rasterio
from rasterio.dtypes import dtype_rev, typename_fwd
from rasterio.io import DatasetReader
from rasterio.windows import Window
from rasters import band, source, write_bands


def mosaic_vrt(path: Path) -> Path:
    """Cut a GeoTIFF into four files in a folder beside it, write the VRT of them, remove the GeoTIFF."""
    with rasterio.open(path) as file:
        folder = path.with_name(path.stem + "_parts")
        folder.mkdir()
        half_row, half_col = file.height // 2 + 3, file.width // 2 - 5
        windows = [
            Window(col, row, cols, rows)
            for row, rows in ((0, half_row), (half_row, file.height - half_row))
            for col, cols in ((0, half_col), (half_col, file.width - half_col))
        ]
        parts = [_part(file, folder / f"part_{n}.tif", w) for n, w in enumerate(windows, start=1)]
        names = [part.relative_to(path.parent).as_posix() for part in parts]
        sources = [
            "".join(_source(name, number, window) for name, window in zip(names, windows, strict=True))
            for number in file.indexes
        ]
        return _written(file, path, sources)


def band_vrt(path: Path) -> Path:
    """Write every band of a GeoTIFF as a file beside it and a VRT of them; remove the GeoTIFF."""
    with rasterio.open(path) as file:
        window = Window(0, 0, file.width, file.height)
        parts = [
            _part(file, path.with_name(f"{path.stem}_band_{number}.tif"), window, [number])
            for number in file.indexes
        ]
        return _written(file, path, [_source(part.name, 1, window) for part in parts])


def _part(file: DatasetReader, path: Path, window: Window, bands: list[int] | None = None) -> Path:
    numbers = bands or list(file.indexes)
    profile: dict[str, Any] = {
        "driver": "GTiff", "crs": file.crs, "transform": file.window_transform(window), "count": len(numbers),
        "dtype": file.dtypes[0], "width": window.width, "height": window.height, "nodata": file.nodata,
    }  # fmt: skip
    with rasterio.open(path, "w", **profile) as part:
        part.write(file.read(numbers, window=window))
    return path


def _source(name: str, number: int, window: Window) -> str:
    size = f'xSize="{window.width}" ySize="{window.height}"'
    place = f'<DstRect xOff="{window.col_off}" yOff="{window.row_off}" {size}/>'
    return source(escape(name), number, more=f'<SrcRect xOff="0" yOff="0" {size}/>{place}')


def _written(file: DatasetReader, path: Path, sources: list[str]) -> Path:
    """Write the VRT of the sources of each band of a GeoTIFF, and remove it."""
    nodata = "" if file.nodata is None else f"<NoDataValue>{file.nodata:g}</NoDataValue>"
    bands = []
    for number, color, dtype, content in zip(
        file.indexes, file.colorinterp, file.dtypes, sources, strict=True
    ):
        shown = f"<ColorInterp>{color.name.capitalize()}</ColorInterp>"
        bands.append(band(number, nodata + shown + content, typename_fwd[dtype_rev[dtype]]))
    numbers = ", ".join(repr(float(value)) for value in file.transform.to_gdal())
    place = f"<SRS>{escape(file.crs.to_wkt())}</SRS><GeoTransform>{numbers}</GeoTransform>"
    path.unlink()
    return write_bands(path.with_suffix(".vrt"), "".join(bands), (file.width, file.height), place)

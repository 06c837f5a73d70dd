"""Virtual rasters as ``gdalbuildvrt`` writes them, of one GeoTIFF: a mosaic of its parts, or of its bands."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import rasterio
from rasterio.dtypes import dtype_rev, typename_fwd
from rasterio.io import DatasetReader
from rasterio.windows import Window


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
        bands = [
            _band(file, band, [_source(p, path.parent, band, w) for p, w in zip(parts, windows, strict=True)])
            for band in range(1, file.count + 1)
        ]
        text = _dataset(file, bands)
    return _replaced(path, text)


def band_vrt(path: Path) -> Path:
    """Write every band of a GeoTIFF as a file beside it and a VRT of them; remove the GeoTIFF."""
    with rasterio.open(path) as file:
        window = Window(0, 0, file.width, file.height)
        bands = []
        for band in range(1, file.count + 1):
            part = _part(file, path.with_name(f"{path.stem}_band_{band}.tif"), window, [band])
            bands.append(_band(file, band, [_source(part, path.parent, 1, window)]))
        text = _dataset(file, bands)
    return _replaced(path, text)


def _replaced(path: Path, text: str) -> Path:
    target = path.with_suffix(".vrt")
    target.write_text(text, encoding="utf-8")
    path.unlink()
    return target


def _part(file: DatasetReader, path: Path, window: Window, bands: list[int] | None = None) -> Path:
    numbers = bands or list(range(1, file.count + 1))
    profile: dict[str, Any] = {
        "driver": "GTiff", "crs": file.crs, "transform": file.window_transform(window), "count": len(numbers),
        "dtype": file.dtypes[0], "width": window.width, "height": window.height, "nodata": file.nodata,
    }  # fmt: skip
    with rasterio.open(path, "w", **profile) as part:
        part.write(file.read(numbers, window=window))
    return path


def _source(part: Path, folder: Path, band: int, window: Window) -> str:
    size = f'xSize="{window.width}" ySize="{window.height}"'
    col, row = window.col_off, window.row_off
    return (
        f'<SimpleSource><SourceFilename relativeToVRT="1">{escape(part.relative_to(folder).as_posix())}'
        f"</SourceFilename><SourceBand>{band}</SourceBand>"
        f'<SrcRect xOff="0" yOff="0" {size}/><DstRect xOff="{col}" yOff="{row}" {size}/>'
        "</SimpleSource>"
    )


def _band(file: DatasetReader, number: int, sources: list[str]) -> str:
    kind = typename_fwd[dtype_rev[file.dtypes[number - 1]]]
    nodata = "" if file.nodata is None else f"<NoDataValue>{file.nodata:g}</NoDataValue>"
    color = file.colorinterp[number - 1].name.capitalize()
    return (
        f'<VRTRasterBand dataType="{kind}" band="{number}">{nodata}<ColorInterp>{color}</ColorInterp>'
        + "".join(sources)
        + "</VRTRasterBand>"
    )


def _dataset(file: DatasetReader, bands: list[str]) -> str:
    place = ", ".join(repr(float(value)) for value in file.transform.to_gdal())
    return (
        f'<VRTDataset rasterXSize="{file.width}" rasterYSize="{file.height}">'
        f"<SRS>{escape(file.crs.to_wkt())}</SRS><GeoTransform>{place}</GeoTransform>"
        + "".join(bands)
        + "</VRTDataset>\n"
    )

"""VRTs written as texts, with nothing between what a test says and what GDAL reads."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rasters import UTM

PLACE = f"<SRS>{UTM}</SRS><GeoTransform>500000, 0.5, 0, 5600000, 0, -0.5</GeoTransform>"


def source(name: object, band: object = 1, relative: object = 1, more: str = "", kind: str = "Simple") -> str:
    """A source of a band: a band of the raster ``name``."""
    return (
        f'<{kind}Source><SourceFilename relativeToVRT="{relative}">{name}</SourceFilename>'
        f"<SourceBand>{band}</SourceBand>{more}</{kind}Source>"
    )


def band(number: int, content: str, dtype: str = "Byte") -> str:
    """A band of what ``content`` says."""
    return f'<VRTRasterBand dataType="{dtype}" band="{number}">{content}</VRTRasterBand>'


def gcp_list(points: Iterable[tuple[object, ...]]) -> str:
    """A place by ground control points: column, row, x and y of each."""
    listed = (
        f'<GCP Id="{n}" Pixel="{col}" Line="{row}" X="{x}" Y="{y}"/>'
        for n, (col, row, x, y) in enumerate(points)
    )
    return f'<GCPList Projection="{UTM}">{"".join(listed)}</GCPList>'


def write_bands(path: Path, content: str, size: tuple[int, int] = (60, 40), place: str = PLACE) -> Path:
    """Write a VRT of bands and what else ``content`` says."""
    wide, high = size
    path.write_text(f'<VRTDataset rasterXSize="{wide}" rasterYSize="{high}">{place}{content}</VRTDataset>')
    return path


def write_vrt(
    path: Path, name: object = "a.tif", *, relative: object = 1, extra: str = "", **options: Any
) -> Path:
    """Write a VRT of three bands of the raster ``name`` and what else ``extra`` says."""
    bands = "".join(band(number, source(name, number, relative)) for number in (1, 2, 3))
    return write_bands(path, bands + extra, **options)

"""Small georeferenced rasters and VRTs on disk, scenes opened from them or refused, and random tile grids."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from affine import Affine
from hypothesis import strategies as st
from pyproj import Transformer
from rasterio.enums import ColorInterp

from tiling import ScenePair, TileGrid, TilingError, Window, describe

UTM = "EPSG:32633"
ORIGIN = (500_000.0, 5_600_000.0)


def north_up(x: float = ORIGIN[0], y: float = ORIGIN[1], cell: float = 0.5) -> Affine:
    """The transform of a north-up grid with its top left corner at (x, y)."""
    return Affine(cell, 0.0, x, 0.0, -cell, y)


def textured(height: int, width: int, *, bands: int = 3, seed: int = 0, dtype: str = "uint8") -> np.ndarray:
    """Smooth random pixels (bands, height, width) in 20..235, never 0, so that warps can be compared."""
    coarse = np.random.default_rng(seed).uniform(20, 235, (bands, height // 8 + 2, width // 8 + 2))
    rows, cols = np.linspace(0, height // 8, height), np.linspace(0, width // 8, width)
    r, c = rows.astype(int), cols.astype(int)
    fr, fc = (rows - r)[:, None], (cols - c)[None, :]
    top = coarse[:, r][:, :, c] * (1 - fc) + coarse[:, r][:, :, c + 1] * fc
    low = coarse[:, r + 1][:, :, c] * (1 - fc) + coarse[:, r + 1][:, :, c + 1] * fc
    return (top * (1 - fr) + low * fr).astype(dtype)


def write_dates(folder: Path, *images: np.ndarray, **options: Any) -> list[Path]:
    """Write two scenes that differ only in pixels, before.tif and after.tif."""
    names = ("before.tif", "after.tif")
    return [write_scene(folder / name, image, **options) for name, image in zip(names, images, strict=True)]


def write_scene(
    path: Path,
    array: np.ndarray,
    *,
    crs: str | None = UTM,
    transform: Affine | None = north_up(),  # noqa: B008 (an Affine cannot be changed)
    nodata: float | None = None,
    tags: Mapping[str, str] | None = None,
    mask: np.ndarray | None = None,
    alpha: np.ndarray | None = None,
    colors: Sequence[str] | None = None,
    names: Sequence[str | None] | None = None,
    scales: Sequence[float] | None = None,
    offsets: Sequence[float] | None = None,
    palette: Mapping[int, tuple[int, ...]] | None = None,
    driver: str = "GTiff",
    **options: Any,
) -> Path:
    """Write (bands, height, width) and return ``path``.

    ``mask`` (height, width) bool is written as an internal mask, ``alpha`` (height, width) as one more band;
    ``colors`` names the colour interpretation of every band of ``array``; ``names``, ``scales`` and
    ``offsets`` are what the file says of each band, ``palette`` its colours by pixel value.
    """
    colors = ["palette"] if palette and not colors else colors
    shown = list(colors or ["red", "green", "blue", *["undefined"] * array.shape[0]][: array.shape[0]])
    if alpha is not None:
        array, shown = np.concatenate([array, alpha[None].astype(array.dtype)]), [*shown, "alpha"]
    options |= {} if transform is None else {"transform": transform}
    options |= dict(zip(("count", "height", "width"), array.shape, strict=True))
    options |= {"driver": driver, "dtype": array.dtype, "crs": crs, "nodata": nodata}
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True), rasterio.open(path, "w", **options) as file:
        if driver == "GTiff":
            file.colorinterp = [ColorInterp[name] for name in shown]
        if palette is not None:
            file.write_colormap(1, palette)
        file.write(array)
        if mask is not None:
            file.write_mask(mask)
        file.update_tags(**(tags or {}))
        for what, said in (("descriptions", names), ("scales", scales), ("offsets", offsets)):
            if said is not None:
                setattr(file, what, said)
    return path


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


# What stands for a secret in an address: it must come up in no message.
SECRETS = ("0123456789abcdef", "hunter2")


def whole(pair: ScenePair) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Both dates and the validity of all the pixels of a pair."""
    return pair.read(Window(0, 0, pair.grid.width, pair.grid.height))


def read_pair(before: Path, after: Path | None = None, **options: Any) -> tuple[np.ndarray, ...]:
    """Both dates and the validity of all the pixels of two files, or of one twice."""
    with ScenePair.open(before, before if after is None else after, **options) as pair:
        return whole(pair)


def lonlat(x: float, y: float, crs: Any = UTM) -> tuple[float, float]:
    """A place on a map in degrees."""
    return Transformer.from_crs(crs, "EPSG:4326", always_xy=True).transform(x, y)


def refused(
    error: type[TilingError], scene: Any, *words: str, describing: Callable[[Any], object] = describe
) -> TilingError:
    """The error that a scene is refused with: one line with a remedy and ``words``, without any secret."""
    with pytest.raises(error) as caught:
        describing(scene)
    assert type(caught.value) is error
    message = str(caught.value)
    assert "\n" not in message and "; " in message
    for word in words:
        assert word in message
    assert not any(secret in text for secret in SECRETS for text in (message, repr(caught.value)))
    return caught.value


def refused_file(error: type[TilingError], path: Path, *words: str) -> None:
    """Have a file refused for what it is, in a line that begins with its name."""
    caught = refused(error, path, *words)
    assert str(caught).startswith(f"{path}: ") and caught.exit_code == 2


def refused_pair(
    error: type[TilingError], before: Path, after: Path, *words: str, **options: Any
) -> TilingError:
    """The error that a pair is refused with."""
    caught = refused(error, before, *words, describing=lambda scene: ScenePair.open(scene, after, **options))
    assert caught.exit_code == 2
    return caught


@st.composite
def grids(draw):
    """A grid over a small scene, perhaps of an area that sticks out of it."""
    tile, width, height = (draw(st.integers(1, most)) for most in (30, 70, 70))
    area = None
    if draw(st.booleans()):
        col, row = draw(st.integers(-5, width - 1)), draw(st.integers(-5, height - 1))
        area = Window(
            col, row, draw(st.integers(max(1, 1 - col), 80)), draw(st.integers(max(1, 1 - row), 80))
        )
    anchor = (draw(st.integers(-500, 500)), draw(st.integers(-500, 500)))
    overlap = draw(st.integers(0, tile - 1))
    least = draw(st.integers(overlap + 1, tile))
    return TileGrid(width, height, tile=tile, overlap=overlap, anchor=anchor, area=area, least=least)

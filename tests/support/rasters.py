"""Small georeferenced rasters, written to disk for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from affine import Affine
from rasterio.enums import ColorInterp

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
    """Write two scenes alike but for their pixels, before.tif and after.tif."""
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

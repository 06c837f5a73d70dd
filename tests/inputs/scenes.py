"""One date as a file: where its pixels lie, what they are made of, how they are stored."""

from __future__ import annotations

import dataclasses
import zipfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
import rasterio.shutil
from affine import Affine
from ground import FULL, Ground, hidden
from pyproj import Transformer
from rasterio.control import GroundControlPoint
from rasterio.crs import CRS
from rasterio.enums import ColorInterp
from vrt_texts import band_vrt, mosaic_vrt

UTM = "EPSG:32633"
# Pixel value = brightness * first + second.
UNITS = {
    "uint8": (1.0, 0.0),
    "uint16": (20.0, 200.0),
    "int16": (30.0, -2500.0),
    "int32": (1000.0, 5.0),
    "float32": (1 / 500, 0.01),
    "float64": (3.0, -7.0),
}
TIFFS: dict[str, dict[str, Any]] = {
    "tiled": {"tiled": True, "blockxsize": 64, "blockysize": 64, "compress": "deflate"},
    "striped": {"tiled": False, "blockysize": 7, "compress": "lzw", "predictor": 2},
    "planar": {"tiled": True, "blockxsize": 48, "blockysize": 80, "interleave": "band"},
    "bigtiff": {"BIGTIFF": "YES", "ENDIANNESS": "BIG", "compress": "zstd"},
    "jpeg in tiff": {
        "tiled": True, "blockxsize": 64, "blockysize": 64, "compress": "jpeg", "photometric": "ycbcr",
        "jpeg_quality": 85,
    },
}  # fmt: skip
COPIES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "cog": (".tif", "COG", {"BLOCKSIZE": 128, "OVERVIEWS": "AUTO", "OVERVIEW_RESAMPLING": "AVERAGE"}),
    "jpeg2000": (".jp2", "JP2OpenJPEG", {"QUALITY": 100, "REVERSIBLE": "YES"}),
    "png": (".png", "PNG", {"WORLDFILE": "YES"}),
    "jpeg": (".jpg", "JPEG", {"WORLDFILE": "YES", "QUALITY": 90}),
}


@dataclass(frozen=True)
class Date:
    """How one date is written.

    Attributes:
        crs: reference system.
        gsd: metres on the ground per pixel.
        aspect: how many times as high as wide a pixel is.
        size: rows and columns.
        rotation: degrees by which the image is turned, counter-clockwise; shear: degrees.
        flip: "rows" (south up), "columns", "both" or "".
        west: longitudes are counted below -180 degrees, not beyond 180 (in degrees on the antimeridian).
        moved: metres east and north of the middle of the ground at which the middle of the image lies.
        gcps: ground control points along each side instead of a transform, 0 for none.
        bend: pixels by which a GCP image is bent in the middle of its sides.
        dtype: type of the pixels.
        bands: what each band is: "red", "green", "blue", "grey", "palette", "alpha", or "other", in which
            everything changes between the dates.
        colors: the file says which band is what; else no band has a colour.
        names: descriptions of the bands.
        nodata: what marks pixels without data: "", a number, "nan", "unsaid nan" (the file does not tell),
            "mask", "external mask" or "alpha".
        hide: where there are none, see :func:`ground.hidden`.
        light: contrast and brightness are changed to first * value + second.
        layout: a key of TIFFS or COPIES, "vrt", "vrt of bands", "zip" or "folder in zip".
        overviews: "", "internal" or "external".
    """

    crs: str = UTM
    gsd: float = 0.5
    aspect: float = 1.0
    size: tuple[int, int] = (150, 200)
    rotation: float = 0.0
    shear: float = 0.0
    flip: str = ""
    west: bool = False
    moved: tuple[float, float] = (0.0, 0.0)
    gcps: int = 0
    bend: float = 0.0
    dtype: str = "uint8"
    bands: tuple[str, ...] = ("red", "green", "blue")
    colors: bool = True
    names: tuple[str, ...] = ()
    nodata: str | float = ""
    hide: str = ""
    light: tuple[float, float] = (1.0, 0.0)
    layout: str = "tiled"
    overviews: str = ""

    def transform(self, ground: Ground) -> Affine:
        """Column and row to the map."""
        x, y = _middle(ground, self.crs, self.west)
        to_metres = ground.in_metres(self.crs)
        step = 1e-4 if CRS.from_user_input(self.crs).is_geographic else 10.0  # some ten metres
        here, east, north = (
            np.array(to_metres.transform(*at)) for at in ((x, y), (x + step, y), (x, y + step))
        )
        per_metre = [step / float(np.hypot(*(there - here))) for there in (east, north)]
        height, width = self.size
        return (
            Affine.translation(x + self.moved[0] * per_metre[0], y + self.moved[1] * per_metre[1])
            @ Affine.scale(*per_metre)
            @ Affine.rotation(self.rotation)
            @ Affine.shear(self.shear, 0)
            @ Affine.scale(self.gsd, -self.gsd * self.aspect)
            @ Affine.scale(
                -1 if self.flip in ("columns", "both") else 1, -1 if self.flip in ("rows", "both") else 1
            )
            @ Affine.translation(-width / 2, -height / 2)
        )

    def on_map(self, ground: Ground, cols: Any, rows: Any) -> tuple[Any, Any]:
        """Where columns and rows (0, 0 is the outer corner of the first pixel) lie in the file's CRS."""
        height, width = self.size
        if self.bend:
            across, down = 2 * cols / width - 1, 2 * rows / height - 1
            cols, rows = cols + self.bend * (1 - down**2), rows - self.bend * (1 - across**2)
        a, b, c, d, e, f = self.transform(ground)[:6]
        return a * cols + b * rows + c, d * cols + e * rows + f

    def metres(self, ground: Ground, cols: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where pixel centres lie, in metres of the ground."""
        x, y = self.on_map(ground, cols + 0.5, rows + 0.5)
        return ground.in_metres(self.crs).transform(x, y)


def _middle(ground: Ground, crs: str, west: bool) -> tuple[float, float]:
    if CRS.from_user_input(crs).is_geographic:
        return ground.lon - 360 * west, ground.lat
    return Transformer.from_crs("EPSG:4326", crs, always_xy=True).transform(ground.lon, ground.lat)


@dataclass(frozen=True)
class Drawing:
    """What is drawn: the ground, with the change that adds ``full`` to its brightness or without it.

    ``misplaced``: metres east and north by which the file is wrong about its place.
    """

    ground: Ground
    after: bool
    full: float = FULL
    misplaced: tuple[float, float] = (0.0, 0.0)


def write(folder: Path, name: str, date: Date, drawing: Drawing) -> Path:
    """Write one date as ``name`` with the suffix of its layout."""
    base = folder / f"{name}.tif"
    if date.layout in COPIES:
        suffix, driver, options = COPIES[date.layout]
        base = folder / f"{name}_plain.tif"
        _write_tiff(base, date, drawing)
        target = folder / (name + suffix)
        with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True):
            rasterio.shutil.copy(base, target, driver=driver, **options)
        with rasterio.open(base) as drawn, rasterio.open(target) as copied:
            assert drawn.transform.almost_equals(copied.transform, 1e-6), "this format cannot hold the place"
        base.unlink()
        return target
    _write_tiff(base, date, drawing)
    if date.layout == "vrt":
        return mosaic_vrt(base)
    if date.layout == "vrt of bands":
        return band_vrt(base)
    if date.layout == "zip":
        return zipped(base, base.name)
    return zipped(base, f"delivery/{base.name}") if date.layout == "folder in zip" else base


def zipped(file: Path, member: str) -> Path:
    """Replace a file by a zip that holds it under a name."""
    target = file.with_suffix(".zip")
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(file, member)
    file.unlink()
    return target


def _write_tiff(path: Path, date: Date, drawing: Drawing) -> None:
    brightness, covered = _drawn(date, drawing)
    images = [_band(role, brightness, covered, date, drawing.after) for role in date.bands]
    profile: dict[str, Any] = dict(TIFFS.get(date.layout, TIFFS["tiled"]))
    if not date.colors:
        profile["photometric"] = "minisblack"
    if isinstance(date.nodata, int | float) or date.nodata == "nan":
        profile["nodata"] = _nodata_value(date)
    if date.gcps:
        profile["gcps"] = _control_points(date, drawing.ground)
    else:
        profile["transform"] = date.transform(drawing.ground)
    internal = date.nodata != "external mask"
    with (
        rasterio.Env(GDAL_TIFF_INTERNAL_MASK=internal),
        rasterio.open(
            path, "w", driver="GTiff", crs=date.crs, dtype=date.dtype, count=len(images),
            height=date.size[0], width=date.size[1], **profile,
        ) as file,
    ):  # fmt: skip
        if "palette" in date.bands:
            file.write_colormap(1, {index: (v, v, v, 255) for v, index in enumerate(_shuffled().tolist())})
        elif "ycbcr" not in profile.values():
            file.colorinterp = [_color(role, date) for role in date.bands]
        for number, image in enumerate(images, start=1):
            file.write(image, number)
            if date.names:
                file.set_band_description(number, date.names[number - 1])
        if date.nodata in ("mask", "external mask"):
            file.write_mask(~covered)
    if date.overviews:
        with rasterio.Env(TIFF_USE_OVR=date.overviews == "external"), rasterio.open(path, "r+") as file:
            file.build_overviews([2, 4], rasterio.enums.Resampling.average)


def _drawn(date: Date, drawing: Drawing) -> tuple[np.ndarray, np.ndarray]:
    """Return brightness, and where there are no data."""
    brightness, x, y = _painted(dataclasses.replace(date, **_NOT_PAINTED), drawing)
    return brightness * date.light[0] + date.light[1], hidden(date.hide, x, y)


# What a date is made of once it is painted; dates that differ in nothing else show the same.
_NOT_PAINTED: dict[str, Any] = {
    field.name: field.default
    for field in dataclasses.fields(Date)
    if field.name
    not in ("crs", "gsd", "aspect", "size", "rotation", "shear", "flip", "west", "moved", "bend")
}


@lru_cache(maxsize=32)
def _painted(date: Date, drawing: Drawing) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Brightness of the ground, and where its pixels lie in metres; not to be written to."""
    ground = drawing.ground

    def in_metres(cols: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x, y = date.metres(ground, cols, rows)
        return x - drawing.misplaced[0], y - drawing.misplaced[1]

    cols, rows = np.meshgrid(np.arange(date.size[1], dtype=float), np.arange(date.size[0], dtype=float))
    x, y = in_metres(cols, rows)
    brightness = ground.picture(x, y)
    if drawing.after:
        brightness = brightness + drawing.full * ground.change(cols, rows, x, y, in_metres)
    for array in (brightness, x, y):
        array.setflags(write=False)
    return brightness, x, y


def _band(role: str, brightness: np.ndarray, covered: np.ndarray, date: Date, after: bool) -> np.ndarray:
    """One band in the type of the file; under a mask lies what would be a change if it were seen."""
    gain, offset = UNITS[date.dtype]
    is_whole = np.dtype(date.dtype).kind in "ui"
    if role == "alpha":
        most = np.iinfo(date.dtype).max if is_whole else 1
        return np.where(covered, 0, most).astype(date.dtype)
    shown = np.full_like(brightness, 230.0 if after else 30.0) if role == "other" else brightness
    shown = np.where(covered, 0.0 if after else 255.0, shown)
    values = shown * gain + offset
    if is_whole:
        values = np.rint(values)
    if isinstance(date.nodata, int | float) or date.nodata in ("nan", "unsaid nan"):
        taken = ~covered & (values == date.nodata)
        values = np.where(covered, float(str(date.nodata).split()[-1]), np.where(taken, values + 1, values))
    image = values.astype(date.dtype)
    return _shuffled()[image].astype(np.uint8) if role == "palette" else image


def _nodata_value(date: Date) -> float:
    """The value of the header; in a palette an index."""
    return float(_shuffled()[int(date.nodata)] if "palette" in date.bands else date.nodata)


def _shuffled() -> np.ndarray:
    """The index of each brightness in a palette; neighbours in brightness are none in the palette."""
    return np.random.default_rng(11).permutation(256)


def _color(role: str, date: Date) -> ColorInterp:
    if role == "alpha":
        return ColorInterp.alpha
    if not date.colors:
        return ColorInterp.undefined
    return ColorInterp[{"grey": "gray", "other": "undefined"}.get(role, role)]


def _control_points(date: Date, ground: Ground) -> list[GroundControlPoint]:
    height, width = date.size
    points = []
    for row in np.linspace(0, height, date.gcps):
        for col in np.linspace(0, width, date.gcps):
            x, y = date.on_map(ground, col, row)
            points.append(GroundControlPoint(row=float(row), col=float(col), x=float(x), y=float(y)))
    return points

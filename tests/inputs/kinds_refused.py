"""Rows about what is refused: in one line that names the file, says what is wrong and what to do."""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import rasterio
from kind import ANY, Kind, both
from rasterio.errors import NotGeoreferencedWarning
from rasterio.rpc import RPC
from scenes import Date


def without(path: Path, *what: str, rpcs: RPC | None = None) -> Path:
    """Write the pixels again without "crs" or "transform", perhaps with RPCs."""
    with rasterio.open(path) as file:
        pixels, profile = file.read(), file.profile
    for key in what:
        del profile[key]
    path.unlink()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        with rasterio.open(path, "w", **profile) as file:
            file.write(pixels)
            if rpcs is not None:
                file.rpcs = rpcs
    return path


def no_crs(path: Path) -> Path:
    """Take the reference system away."""
    return without(path, "crs")


def only_rpcs(path: Path) -> Path:
    """Leave rational polynomial coefficients as the only georeferencing."""
    ones = [1.0] + [0.0] * 19
    coefficients = RPC(
        err_bias=1.0, err_rand=1.0, height_off=100.0, height_scale=500.0, lat_off=50.5, lat_scale=0.001,
        line_off=75.0, line_scale=75.0, long_off=15.0, long_scale=0.001, samp_off=100.0, samp_scale=100.0,
        line_num_coeff=[0.0, 0.0, 1.0] + [0.0] * 17, line_den_coeff=ones,
        samp_num_coeff=[0.0, 1.0] + [0.0] * 18, samp_den_coeff=ones,
    )  # fmt: skip
    return without(path, "crs", "transform", rpcs=coefficients)


def cut_short(path: Path) -> Path:
    """Keep the first half of the file."""
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    return path


def text(path: Path) -> Path:
    """Replace the file by a text."""
    path.write_text("no picture", encoding="utf-8")
    return path


def removed(path: Path) -> Path:
    """Remove the file."""
    path.unlink()
    return path


def complex_pixels(path: Path) -> Path:
    """Write the pixels as complex numbers."""
    with rasterio.open(path) as file:
        pixels, profile = file.read(), file.profile
    with rasterio.open(path, "w", **{**profile, "dtype": "complex64"}) as file:
        file.write(pixels.astype("complex64"))
    return path


def two_in_a_zip(path: Path) -> Path:
    """Zip the file twice, under two names."""
    target = path.with_suffix(".zip")
    with zipfile.ZipFile(target, "w") as archive:
        archive.write(path, "june.tif")
        archive.write(path, "july.tif")
    return target


def naming(source: str) -> Callable[[Path], Path]:
    """Let a VRT name another source than its first part: ``source`` says relative or not, and what."""

    def spoilt(path: Path) -> Path:
        content = path.read_text(encoding="utf-8")
        path.write_text(content.replace('"1">after_parts/part_1.tif', source), encoding="utf-8")
        return path

    return spoilt


def refused(name: str, named: str, spoilt: Callable[[Path], Path] | None = None, **how: Any) -> Kind:
    """A row that ends with an error about the file ``named``."""
    return Kind(name, refused=named or ANY, spoilt=spoilt, **how)


REFUSED = {
    "Refused": [
        refused("no reference system", "after.tif", no_crs),
        refused("RPC only", "after.tif", only_rpcs),
        refused("missing", "after.tif", removed),
        refused("not a raster", "after.tif", text),
        refused("cut short", "after.tif", cut_short),
        refused("complex pixels", "after.tif", complex_pixels),
        refused("other place", "after.tif", after=Date(moved=(5000.0, 0.0))),
        refused(
            "all nodata", "", before=Date(nodata=0, hide="all but west"), after=Date(nodata=0, hide="west")
        ),
        refused("too coarse", "before.tif", **both(gsd=5.0, size=(60, 70))),
        refused("band that is not there", "before.tif", options=("--bands", "1,2,7")),
        refused("band name that is not there", "before.tif", options=("--bands", "B04,B03,B02")),
        refused("several files in a zip", "after.zip", two_in_a_zip),
        refused("VRT that reaches out", "after.vrt", naming('"1">../part_1.tif'), after=Date(layout="vrt")),
        refused(
            "VRT of an address",
            "after.vrt",
            naming('"0">/vsicurl/http://example.org/part_1.tif'),
            after=Date(layout="vrt"),
        ),
        refused("address not found", "/nowhere/after.tif", opened=("path", "missing")),
        refused("address forbidden", "/private/after.tif", opened=("path", "wrong token")),
        refused("nobody answers", "/after.tif", opened=("path", "nobody"), code=1),
        refused("object not found", "s3://scenes/nowhere/after.tif", opened=("path", "missing key")),
        refused("offline", "/after.tif", options=("--offline",), opened=("path", "http")),
        refused("other protocol", "", opened=("path", "ftp")),
        refused("other /vsi", "/vsisubfile...", opened=("path", "/vsisubfile/")),
    ]
}

"""Rows about what is refused: in one line that names the file, says what is wrong and what to do."""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import rasterio
from kind import Kind, both
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


def refused(
    name: str, built: str, text: str, spoilt: Callable[[Path], Path] | None = None, **how: Any
) -> Kind:
    """A row that ends with the error ``text``."""
    return Kind(name, built, refused=text, spoilt=spoilt, **how)


REFUSED = {
    "Refused": [
        refused(
            "no reference system",
            "AFTER without a CRS",
            "after.tif: …no coordinate reference system; …gdal_edit.py…",
            no_crs,
        ),
        refused("RPC only", "AFTER with nothing but RPCs", "after.tif: …RPC…; …gdalwarp -rpc…", only_rpcs),
        refused("missing", "AFTER is not there", "after.tif: there is no such file; check the path", removed),
        refused(
            "not a raster", "AFTER is a text", "after.tif: this is not a raster that can be read; …", text
        ),
        refused(
            "cut short",
            "AFTER ends in the middle",
            "after.tif: some of its pixels cannot be decoded; get a sound copy of the file",
            cut_short,
        ),
        refused(
            "complex pixels", "AFTER of complex64", "after.tif: …complex…; give amplitudes…", complex_pixels
        ),
        refused(
            "other place",
            "AFTER 5 km away",
            "after.tif: it shows no ground of before.tif …; give two scenes of one place",
            after=Date(moved=(5000.0, 0.0)),
        ),
        refused(
            "all nodata",
            "BEFORE has data only where AFTER has none",
            "…no pixel has data on both dates; …",
            before=Date(nodata=0, hide="all but west"),
            after=Date(nodata=0, hide="west"),
        ),
        refused(
            "too coarse",
            "both 5 m, far beyond the model's range",
            "before.tif: 5 m per pixel is coarser than the 2 m …--force…",
            **both(gsd=5.0, size=(60, 70)),
        ),
        refused(
            "band that is not there",
            "three bands, `--bands 1,2,7`",
            "before.tif: …band 7…; …",
            options=("--bands", "1,2,7"),
        ),
        refused(
            "band name that is not there",
            "no such name, `--bands B04,B03,B02`",
            "before.tif: …B04…; …",
            options=("--bands", "B04,B03,B02"),
        ),
        refused(
            "several files in a zip",
            "AFTER a `.zip` of two GeoTIFFs",
            "after.zip: the archive holds 2 rasters; name one …: july.tif, june.tif",
            two_in_a_zip,
        ),
        refused(
            "VRT that reaches out",
            "AFTER a VRT that names a file above its folder",
            "after.vrt: the VRT names '../part_1.tif', which is not in or under its folder; …",
            naming('"1">../part_1.tif'),
            after=Date(layout="vrt"),
        ),
        refused(
            "VRT of an address",
            "AFTER a VRT that names an address",
            "after.vrt: the VRT names …",
            naming('"0">/vsicurl/http://example.org/part_1.tif'),
            after=Date(layout="vrt"),
        ),
        refused(
            "address not found",
            "AFTER by an address that the server does not know (404)",
            "http://…/nowhere/after.tif: the server has no such file; check the address",
            opened=("path", "missing"),
        ),
        refused(
            "address forbidden",
            "AFTER by an address with a wrong token (403)",
            "http://…/private/after.tif: the server refuses it; check the credentials …",
            opened=("path", "wrong token"),
        ),
        refused(
            "nobody answers",
            "AFTER by an address where no server listens",
            "http://…/after.tif: the server cannot be reached; check the address …",
            opened=("path", "nobody"),
            code=1,
        ),
        refused(
            "object not found",
            "AFTER an `s3://` object that is not there",
            "s3://scenes/nowhere/after.tif: …; …",
            opened=("path", "missing key"),
        ),
        refused(
            "offline",
            "AFTER by an address, `--offline`",
            "http://…/after.tif: this is on a server, and --offline opens no address; …",
            options=("--offline",),
            opened=("path", "http"),
        ),
        refused("other protocol", "AFTER named as `ftp://`", "ftp://…: …; …", opened=("path", "ftp")),
        refused(
            "other /vsi",
            "AFTER named as `/vsisubfile/`",
            "/vsisubfile...: scenes are not read through this file system of GDAL; …",
            opened=("path", "/vsisubfile/"),
        ),
    ]
}

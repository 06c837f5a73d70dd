"""Rows about how files are stored and named, and about combinations of everything."""

from __future__ import annotations

from ground import Ground
from kind import LARGE, Kind, both
from kinds_pixels import RGB, SENTINEL, SENTINEL_ROLES
from kinds_places import FIJI, NEAR_SOUTH_POLE, NORTH_OF_UTM
from scenes import Date

FORMATS = [
    Kind("striped and tiled", Date(layout="striped")),
    Kind("bands apart, big-endian BigTIFF", Date(layout="planar"), Date(layout="bigtiff")),
    Kind("COG", **both(layout="cog")),
    Kind(
        "COG with a mask, coarser",
        Date(layout="cog", nodata="mask", hide="clouds", gsd=0.2, size=(360, 480)),
        Date(layout="cog", nodata="mask", hide="other clouds", gsd=0.2, size=(360, 480)),
    ),
    Kind(
        "overviews beside the file",
        Date(gsd=0.2, size=(360, 480), overviews="external"),
        Date(gsd=0.25, size=(300, 400), overviews="internal"),
    ),
    Kind("JPEG 2000", **both(layout="jpeg2000")),
    Kind("PNG with a world file", after=Date(layout="png")),
    Kind("JPEG with a world file", after=Date(layout="jpeg")),
    Kind("VRT mosaic", **both(layout="vrt")),
    Kind("VRT of bands", after=Date(layout="vrt of bands")),
    Kind(
        "VRT mosaic with nodata",
        after=Date(layout="vrt", nodata=0, hide="clouds", crs="EPSG:4326", size=LARGE),
    ),
]

ZIPS = [
    Kind("zip", **both(layout="zip")),
    Kind("zip with a folder", after=Date(layout="folder in zip")),
    Kind("a file in a zip", after=Date(layout="zip"), opened=("path", "inner")),
    Kind("/vsizip/", Date(layout="zip"), opened=("/vsizip/", "path")),
    Kind("absolute paths", opened=("absolute", "absolute")),
    Kind("http", **both(layout="cog"), opened=("http", "http")),
    Kind("/vsicurl/", after=Date(layout="cog"), opened=("path", "/vsicurl/")),
    Kind("address with a token", opened=("path", "token")),
    Kind("address with a token, kept maps", options=("--keep-maps", "maps"), opened=("path", "token")),
    Kind("s3", **both(layout="cog"), opened=("s3", "s3")),
    Kind("/vsis3/", opened=("/vsis3/", "path")),
]

MIXED = [
    Kind(
        "zipped, rotated, uint16",
        Date(layout="zip", dtype="uint16", nodata=0, hide="west", rotation=33.0, size=LARGE),
        Date(layout="vrt", dtype="uint16", nodata=65535, hide="other clouds", gsd=0.7, size=(150, 190)),
    ),
    Kind(
        "south-up COG and JPEG 2000 in degrees",
        Date(flip="rows", bands=(*RGB, "alpha"), nodata="alpha", hide="clouds"),
        Date(layout="jpeg2000", crs="EPSG:4326", size=LARGE),
    ),
    Kind(
        "GCPs, palette, by http",
        after=Date(bands=("palette",), gcps=3, rotation=5.0, size=LARGE),
        opened=("path", "http"),
    ),
    Kind(
        "antimeridian, float32 with NaN, rotated",
        Date(crs="EPSG:4326", dtype="float32", nodata="nan", hide="clouds"),
        Date(crs="EPSG:32701", dtype="float32", nodata=-1, hide="east", rotation=50.0, size=(290, 290)),
        ground=FIJI,
    ),
    Kind(
        "polar, masked, grey",
        Date(crs="EPSG:3031", bands=("grey",), dtype="uint16", nodata="mask", hide="clouds"),
        Date(crs="EPSG:5042", dtype="uint16", gcps=3, size=LARGE),
        ground=NEAR_SOUTH_POLE,
        warns=("before.tif",),
    ),
    Kind(
        "13 bands, s3, other zone",
        Date(bands=SENTINEL_ROLES, names=SENTINEL, colors=False, dtype="uint16", layout="cog"),
        Date(
            bands=SENTINEL_ROLES,
            names=SENTINEL,
            colors=False,
            dtype="uint16",
            crs="EPSG:32634",
            size=LARGE,
            nodata=0,
            hide="east",
        ),
        options=("--bands", "B04,B03,B02"),
        opened=("s3", "path"),
    ),
    Kind(
        "mirrored PNG and sheared JPEG",
        Date(layout="png", flip="columns"),
        Date(layout="jpeg", shear=6.0, gsd=0.7, size=(160, 200)),
    ),
    Kind(
        "two GCP images north of UTM",
        Date(crs="EPSG:4326", gcps=4, gsd=0.4, size=(220, 260)),
        Date(crs="EPSG:4326", gcps=4, gsd=0.8, nodata="mask", hide="clouds", size=(130, 160)),
        ground=NORTH_OF_UTM,
    ),
    Kind(
        "enlarged, masked, rotated in feet",
        Date(crs="EPSG:2263", gsd=1.1, size=(90, 110), nodata="mask", hide="west"),
        Date(
            crs="EPSG:26918",
            gsd=0.9,
            rotation=-28.0,
            size=(160, 170),
            bands=(*RGB, "alpha"),
            nodata="alpha",
            hide="other clouds",
        ),
        ground=Ground(-73.95, 40.75),
    ),
]

FILES = {"Formats": FORMATS, "Archives and addresses": ZIPS, "Combinations": MIXED}

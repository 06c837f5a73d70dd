"""Rows about how files are stored and named, and about combinations of everything."""

from __future__ import annotations

from ground import Ground
from kind import LARGE, Kind, both
from kinds_pixels import GREY, RGB, SENTINEL, SENTINEL_ROLES
from kinds_places import FIJI, NEAR_SOUTH_POLE, NORTH_OF_UTM
from scenes import Date

FORMATS = [
    Kind("striped and tiled", "BEFORE a GeoTIFF in strips, AFTER in tiles", Date(layout="striped")),
    Kind(
        "bands apart, big-endian BigTIFF",
        "BEFORE a GeoTIFF band by band, AFTER a BigTIFF, big-endian, ZSTD",
        Date(layout="planar"),
        Date(layout="bigtiff"),
    ),
    Kind("COG", "both cloud-optimised, with overviews", **both(layout="cog")),
    Kind(
        "COG with a mask, coarser",
        "both COGs of 0.2 m with overviews and masks",
        Date(layout="cog", nodata="mask", hide="clouds", gsd=0.2, size=(360, 480)),
        Date(layout="cog", nodata="mask", hide="other clouds", gsd=0.2, size=(360, 480)),
    ),
    Kind(
        "overviews beside the file",
        "BEFORE 0.2 m with overviews in a file beside it (`.ovr`), AFTER 0.25 m with internal ones",
        Date(gsd=0.2, size=(360, 480), overviews="external"),
        Date(gsd=0.25, size=(300, 400), overviews="internal"),
    ),
    Kind("JPEG 2000", "both JPEG 2000 without loss", **both(layout="jpeg2000")),
    Kind("PNG with a world file", "AFTER a PNG, its CRS in `.aux.xml`", after=Date(layout="png")),
    Kind("JPEG with a world file", "AFTER a JPEG, its CRS in `.aux.xml`", after=Date(layout="jpeg")),
    Kind("VRT mosaic", "both VRTs of four files in a folder beside them", **both(layout="vrt")),
    Kind("VRT of bands", "AFTER a VRT of three files of one band", after=Date(layout="vrt of bands")),
    Kind(
        "VRT mosaic with nodata",
        "AFTER a VRT of four files with nodata 0, in degrees",
        after=Date(layout="vrt", nodata=0, hide="clouds", crs="EPSG:4326", size=LARGE),
    ),
]

ZIPS = [
    Kind("zip", "both a `.zip` that holds one GeoTIFF", **both(layout="zip")),
    Kind("zip with a folder", "AFTER a GeoTIFF in a folder in a `.zip`", after=Date(layout="folder in zip")),
    Kind(
        "a file in a zip",
        "AFTER named as `after.zip/after.tif`",
        after=Date(layout="zip"),
        opened=("path", "inner"),
    ),
    Kind(
        "/vsizip/",
        "BEFORE named as `/vsizip/before.zip/before.tif`",
        Date(layout="zip"),
        opened=("/vsizip/", "path"),
    ),
    Kind("absolute paths", "both named from the root", opened=("absolute", "absolute")),
    Kind("http", "both by an address, COG", **both(layout="cog"), opened=("http", "http")),
    Kind(
        "/vsicurl/", "AFTER as GDAL names an address", after=Date(layout="cog"), opened=("path", "/vsicurl/")
    ),
    Kind(
        "address with a token",
        "AFTER by an address with a token in its query; the token is nowhere in the report",
        opened=("path", "token"),
    ),
    Kind(
        "address with a token, tile cache",
        "AFTER by an address with a token; finished tiles are kept with `--tile-cache cache` in the meantime",
        options=("--tile-cache", "cache"),
        opened=("path", "token"),
    ),
    Kind(
        "s3",
        "both `s3://`, signed with the keys of the environment",
        **both(layout="cog"),
        opened=("s3", "s3"),
    ),
    Kind("/vsis3/", "BEFORE as GDAL names an object in a bucket", opened=("/vsis3/", "path")),
]

MIXED = [
    Kind(
        "zipped, rotated, uint16",
        "BEFORE zipped, uint16 with nodata 0, turned by 33 degrees; AFTER uint16 VRT with 65535",
        Date(layout="zip", dtype="uint16", nodata=0, hide="west", rotation=33.0, size=LARGE),
        Date(layout="vrt", dtype="uint16", nodata=65535, hide="other clouds", gsd=0.7, size=(150, 190)),
    ),
    Kind(
        "south-up COG and JPEG 2000 in degrees",
        "BEFORE a south-up GeoTIFF with alpha, AFTER JPEG 2000 in EPSG:4326",
        Date(flip="rows", bands=(*RGB, "alpha"), nodata="alpha", hide="clouds"),
        Date(layout="jpeg2000", crs="EPSG:4326", size=LARGE),
    ),
    Kind(
        "GCPs, palette, by http",
        "AFTER a palette image placed by 9 GCPs, by an address",
        after=Date(bands=("palette",), gcps=3, rotation=5.0, size=LARGE),
        opened=("path", "http"),
    ),
    Kind(
        "antimeridian, float32 with NaN, rotated",
        "BEFORE EPSG:4326 float32 with NaN, AFTER UTM 1 south, turned by 50 degrees, float32 with -1",
        Date(crs="EPSG:4326", dtype="float32", nodata="nan", hide="clouds"),
        Date(crs="EPSG:32701", dtype="float32", nodata=-1, hide="east", rotation=50.0, size=(290, 290)),
        ground=FIJI,
    ),
    Kind(
        "polar, masked, grey",
        "BEFORE one uint16 band with a mask (EPSG:3031), AFTER uint16 GCPs in UPS south",
        Date(crs="EPSG:3031", bands=("grey",), dtype="uint16", nodata="mask", hide="clouds"),
        Date(crs="EPSG:5042", dtype="uint16", gcps=3, size=LARGE),
        ground=NEAR_SOUTH_POLE,
        warns=(GREY.format("before"),),
    ),
    Kind(
        "13 bands, s3, other zone",
        "BEFORE Sentinel-2 bands in a COG by `s3://`, AFTER in UTM 34, nodata 0, `--bands B04,B03,B02`",
        Date(bands=SENTINEL_ROLES, names=SENTINEL, colors=False, dtype="uint16", layout="cog"),
        Date(
            bands=SENTINEL_ROLES, names=SENTINEL, colors=False, dtype="uint16", crs="EPSG:32634", size=LARGE,
            nodata=0, hide="east",
        ),
        options=("--bands", "B04,B03,B02"),
        opened=("s3", "path"),
    ),
    Kind(
        "mirrored PNG and sheared JPEG",
        "BEFORE a mirrored PNG, AFTER a sheared JPEG of 0.7 m",
        Date(layout="png", flip="columns"),
        Date(layout="jpeg", shear=6.0, gsd=0.7, size=(160, 200)),
    ),
    Kind(
        "two GCP images north of UTM",
        "both by GCPs in degrees at 87 degrees north, BEFORE 0.4 m, AFTER 0.8 m with a mask",
        Date(crs="EPSG:4326", gcps=4, gsd=0.4, size=(220, 260)),
        Date(crs="EPSG:4326", gcps=4, gsd=0.8, nodata="mask", hide="clouds", size=(130, 160)),
        ground=NORTH_OF_UTM,
    ),
    Kind(
        "enlarged, masked, rotated in feet",
        "BEFORE 1.1 m in US survey feet with a mask, AFTER 0.9 m, turned by -28 degrees, alpha",
        Date(crs="EPSG:2263", gsd=1.1, size=(90, 110), nodata="mask", hide="west"),
        Date(
            crs="EPSG:26918", gsd=0.9, rotation=-28.0, size=(160, 170), bands=(*RGB, "alpha"), nodata="alpha",
            hide="other clouds",
        ),
        ground=Ground(-73.95, 40.75),
    ),
]  # fmt: skip

FILES = {"Formats": FORMATS, "Archives and addresses": ZIPS, "Combinations": MIXED}

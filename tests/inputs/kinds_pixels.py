"""Rows about bands, data types, radiometry, and pixels without data."""

from __future__ import annotations

from kind import LARGE, Kind, both
from scenes import Date

RGB = ("red", "green", "blue")
SENTINEL = tuple(
    f"B{n}" for n in ("01", "02", "03", "04", "05", "06", "07", "08", "8A", "09", "10", "11", "12")
)
SENTINEL_ROLES = tuple({"B04": "red", "B03": "green", "B02": "blue"}.get(name, "other") for name in SENTINEL)


BANDS = [
    Kind(
        "one band",
        **both(bands=("grey",)),
        warns=(
            "before.tif",
            "after.tif",
        ),
    ),
    Kind("grey before, colour after", Date(bands=("grey",)), warns=("before.tif",)),
    Kind("two bands", after=Date(bands=("grey", "other"), colors=False), warns=("after.tif",)),
    Kind("grey and alpha", Date(bands=("grey", "alpha"), nodata="alpha", hide="west"), warns=("before.tif",)),
    # Their fourth band may be near infrared, which a hint says.
    Kind(
        "four bands",
        **both(bands=(*RGB, "other"), colors=False),
        warns=("before.tif", "after.tif"),
    ),
    Kind(
        "colours in another order",
        after=Date(bands=("other", "blue", "green", "red")),
        warns=("after.tif",),
    ),
    Kind("bands by number", **both(bands=("other", *RGB), colors=False), options=("--bands", "4,3,2")),
    Kind(
        "bands by name",
        **both(
            bands=("other", "blue", "other", "green", "red", "other"),
            colors=False,
            names=("Kueste", "Blau", "Rand", "Gruen", "Rot", "NIR"),
        ),
        options=("--bands", "rot,gruen,blau"),
    ),
    Kind(
        "six bands without names",
        **both(bands=(*RGB, "other", "other", "other"), colors=False),
        warns=("before.tif", "after.tif"),
    ),
    Kind("13 bands", **both(bands=SENTINEL_ROLES, names=SENTINEL, colors=False, dtype="uint16")),
    Kind(
        "13 bands and three", after=Date(bands=SENTINEL_ROLES, names=SENTINEL, colors=False, dtype="uint16")
    ),
    Kind("palette", after=Date(bands=("palette",))),
    Kind(
        "palette, warped",
        Date(bands=("palette",), rotation=9.0),
        Date(bands=("palette",), crs="EPSG:32634", gsd=0.6, size=(200, 240)),
    ),
    Kind(
        "palette with nodata",
        Date(bands=("palette",), nodata=0, hide="west"),
        Date(bands=("palette",), nodata=3, hide="east", gsd=0.4, size=LARGE),
    ),
]

TYPES = [
    Kind("uint16", **both(dtype="uint16")),
    Kind("int16", **both(dtype="int16")),
    Kind("int32", **both(dtype="int32")),
    Kind("float32", **both(dtype="float32")),
    Kind("float64", Date(dtype="float64"), Date(dtype="float64", gsd=0.8)),
    Kind("uint8 and uint16", after=Date(dtype="uint16")),
    Kind("uint16 and uint8", Date(dtype="uint16"), Date(crs="EPSG:4326", size=LARGE)),
    Kind("int16 and float32", Date(dtype="int16"), Date(dtype="float32")),
    Kind("a scale of the user", **both(dtype="uint16"), options=("--scale", "1000,6100")),
    Kind(
        "reflectance",
        **both(dtype="uint16"),
        options=("--scale", "reflectance", "--threshold", "0.7"),
        warns=("before.tif", "after.tif"),
    ),
    Kind("another sun", after=Date(light=(0.6, 50.0)), options=("--normalize",)),
    Kind("shifted by three pixels", misplaced=(1.5, 1.0), options=("--align",)),
]

NODATA = [
    Kind("the same nodata value", Date(nodata=0, hide="west"), Date(nodata=0, hide="east")),
    Kind(
        "nodata that differs per date", Date(nodata=0, hide="clouds"), Date(nodata=255, hide="other clouds")
    ),
    Kind("nodata of one date is a value of the other", Date(nodata=190, hide="clouds")),
    Kind(
        "nodata, resampled",
        Date(nodata=0, hide="clouds"),
        Date(nodata=255, hide="east", crs="EPSG:32634", gsd=0.6, size=(200, 240)),
    ),
    Kind("internal masks", Date(nodata="mask", hide="clouds"), Date(nodata="mask", hide="other clouds")),
    Kind("external mask", Date(nodata="external mask", hide="clouds")),
    Kind(
        "alpha bands",
        Date(bands=(*RGB, "alpha"), nodata="alpha", hide="clouds"),
        Date(bands=(*RGB, "alpha"), nodata="alpha", hide="other clouds"),
    ),
    Kind(
        "alpha, rotated",
        Date(bands=(*RGB, "alpha"), nodata="alpha", hide="clouds", rotation=22.0),
        Date(nodata="mask", hide="other clouds", flip="rows", size=LARGE),
    ),
    Kind(
        "float32 with NaN",
        Date(dtype="float32", nodata="unsaid nan", hide="clouds"),
        Date(dtype="float32", nodata="unsaid nan", hide="other clouds"),
    ),
    Kind(
        "NaN as the nodata value, warped",
        Date(dtype="float32", nodata="nan", hide="clouds"),
        Date(dtype="float32", nodata=-9999, hide="east", crs="EPSG:4326", size=LARGE),
    ),
    Kind(
        "int16 with -32768",
        Date(dtype="int16", nodata=-32768, hide="west"),
        Date(dtype="int16", nodata=-32768, hide="other clouds", gsd=0.3, size=(260, 340)),
    ),
    Kind(
        "uint16 with 0 and uint8 with alpha",
        Date(dtype="uint16", nodata=0, hide="west"),
        Date(bands=(*RGB, "alpha"), nodata="alpha", hide="other clouds", shear=8.0, size=LARGE),
    ),
    Kind(
        "JPEG with a mask",
        Date(layout="jpeg in tiff", nodata="mask", hide="west"),
        Date(layout="jpeg in tiff", nodata="mask", hide="east", moved=(0.2, 0.1)),
    ),
]

PIXELS = {"Bands": BANDS, "Data types and radiometry": TYPES, "Pixels without data": NODATA}

"""Rows about bands, data types, radiometry, and pixels without data."""

from __future__ import annotations

from kind import LARGE, Kind, both
from scenes import Date

RGB = ("red", "green", "blue")
SENTINEL = tuple(
    f"B{n}" for n in ("01", "02", "03", "04", "05", "06", "07", "08", "8A", "09", "10", "11", "12")
)
SENTINEL_ROLES = tuple({"B04": "red", "B03": "green", "B02": "blue"}.get(name, "other") for name in SENTINEL)
GREY = "{0}.tif: …grey…"


def grey(*names: str) -> tuple[str, ...]:
    """The warning of each of the files, shown in grey."""
    return tuple(GREY.format(name) for name in names)


BANDS = [
    Kind("one band", "both dates one grey band", **both(bands=("grey",)), warns=grey("before", "after")),
    Kind(
        "grey before, colour after",
        "BEFORE one band, AFTER three",
        Date(bands=("grey",)),
        warns=grey("before"),
    ),
    Kind(
        "two bands",
        "AFTER two bands without colours, the second shows something else",
        after=Date(bands=("grey", "other"), colors=False),
        warns=grey("after"),
    ),
    Kind(
        "grey and alpha",
        "BEFORE a grey and an alpha band, a ragged part transparent",
        Date(bands=("grey", "alpha"), nodata="alpha", hide="west"),
        warns=grey("before"),
    ),
    Kind(
        "four bands",
        "red, green, blue and near infrared, without colours",
        **both(bands=(*RGB, "other"), colors=False),
    ),
    Kind(
        "colours in another order",
        "AFTER says that its bands are near infrared, blue, green, red",
        after=Date(bands=("other", "blue", "green", "red")),
    ),
    Kind(
        "bands by number",
        "four bands without colours, the first is another, `--bands 4,3,2`",
        **both(bands=("other", *RGB), colors=False),
        options=("--bands", "4,3,2"),
    ),
    Kind(
        "bands by name",
        "six bands with names of their own, `--bands Rot,Gruen,Blau`",
        **both(
            bands=("other", "blue", "other", "green", "red", "other"),
            colors=False,
            names=("Kueste", "Blau", "Rand", "Gruen", "Rot", "NIR"),
        ),
        options=("--bands", "rot,gruen,blau"),
    ),
    Kind(
        "six bands without names",
        "six bands of which nothing is said, the first three are red, green, blue",
        **both(bands=(*RGB, "other", "other", "other"), colors=False),
        warns=("before.tif: …--bands…", "after.tif: …--bands…"),
    ),
    Kind(
        "13 bands",
        "uint16, the 13 bands of Sentinel-2 with their names: B04, B03 and B02 are taken",
        **both(bands=SENTINEL_ROLES, names=SENTINEL, colors=False, dtype="uint16"),
    ),
    Kind(
        "13 bands and three",
        "BEFORE red, green, blue in uint8; AFTER the 13 bands of Sentinel-2 with their names, uint16",
        after=Date(bands=SENTINEL_ROLES, names=SENTINEL, colors=False, dtype="uint16"),
    ),
    Kind("palette", "AFTER one band with a colour table in no order", after=Date(bands=("palette",))),
    Kind(
        "palette, warped",
        "both with a colour table, BEFORE turned by 9 degrees, AFTER of 0.6 m in UTM 34",
        Date(bands=("palette",), rotation=9.0),
        Date(bands=("palette",), crs="EPSG:32634", gsd=0.6, size=(200, 240)),
    ),
    Kind(
        "palette with nodata",
        "both with a colour table and an index for nodata, each with ragged edges of its own; AFTER 0.4 m",
        Date(bands=("palette",), nodata=0, hide="west"),
        Date(bands=("palette",), nodata=3, hide="east", gsd=0.4, size=LARGE),
    ),
]

TYPES = [
    Kind("uint16", "both dates uint16", **both(dtype="uint16")),
    Kind("int16", "both dates int16, with values below 0", **both(dtype="int16")),
    Kind("int32", "both dates int32", **both(dtype="int32")),
    Kind("float32", "both dates float32 reflectance", **both(dtype="float32")),
    Kind(
        "float64", "both dates float64, AFTER of 0.8 m", Date(dtype="float64"), Date(dtype="float64", gsd=0.8)
    ),
    Kind("uint8 and uint16", "BEFORE uint8, AFTER uint16", after=Date(dtype="uint16")),
    Kind(
        "uint16 and uint8",
        "BEFORE uint16, AFTER uint8 in degrees",
        Date(dtype="uint16"),
        Date(crs="EPSG:4326", size=LARGE),
    ),
    Kind("int16 and float32", "BEFORE int16, AFTER float32", Date(dtype="int16"), Date(dtype="float32")),
    Kind(
        "a scale of the user",
        "both uint16 with `--scale 1000,6100`",
        **both(dtype="uint16"),
        options=("--scale", "1000,6100"),
    ),
    Kind(
        "reflectance",
        "both uint16, 0 to 10,000 for 0 to 1, with `--scale reflectance`",
        **both(dtype="uint16"),
        options=("--scale", "reflectance", "--threshold", "0.7"),
        warns=tuple(f"{date}.tif: …wholly black or white…" for date in ("before", "after")),
    ),
    Kind(
        "another sun",
        "AFTER with 0.6 of the contrast and 50 brighter, with `--normalize`",
        after=Date(light=(0.6, 50.0)),
        options=("--normalize",),
    ),
    Kind(
        "shifted by three pixels",
        "AFTER says that it lies 1.5 m east and 1 m north of where it does, with `--align`",
        misplaced=(1.5, 1.0),
        options=("--align",),
    ),
]

NODATA = [
    Kind(
        "the same nodata value",
        "0 on both dates, ragged edges in the west of one and the east of the other",
        Date(nodata=0, hide="west"),
        Date(nodata=0, hide="east"),
    ),
    Kind(
        "nodata that differs per date",
        "BEFORE 0, AFTER 255, clouds cut out of each elsewhere",
        Date(nodata=0, hide="clouds"),
        Date(nodata=255, hide="other clouds"),
    ),
    Kind(
        "nodata of one date is a value of the other",
        "BEFORE 190, the brightness of the change in AFTER, which has no nodata value",
        Date(nodata=190, hide="clouds"),
    ),
    Kind(
        "nodata, resampled",
        "BEFORE 0 in UTM 33, AFTER 255 in UTM 34 and of 0.6 m",
        Date(nodata=0, hide="clouds"),
        Date(nodata=255, hide="east", crs="EPSG:32634", gsd=0.6, size=(200, 240)),
    ),
    Kind(
        "internal masks",
        "uint8 with a mask in each file, clouds elsewhere on each date",
        Date(nodata="mask", hide="clouds"),
        Date(nodata="mask", hide="other clouds"),
    ),
    Kind(
        "external mask",
        "BEFORE with a mask in a file beside it (`.msk`)",
        Date(nodata="external mask", hide="clouds"),
    ),
    Kind(
        "alpha bands",
        "uint8 with an alpha band in each file, clouds elsewhere on each date",
        Date(bands=(*RGB, "alpha"), nodata="alpha", hide="clouds"),
        Date(bands=(*RGB, "alpha"), nodata="alpha", hide="other clouds"),
    ),
    Kind(
        "alpha, rotated",
        "BEFORE with an alpha band, turned by 22 degrees, AFTER with an internal mask, south-up",
        Date(bands=(*RGB, "alpha"), nodata="alpha", hide="clouds", rotation=22.0),
        Date(nodata="mask", hide="other clouds", flip="rows", size=LARGE),
    ),
    Kind(
        "float32 with NaN",
        "both dates float32, NaN in clouds elsewhere on each date, no nodata value",
        Date(dtype="float32", nodata="unsaid nan", hide="clouds"),
        Date(dtype="float32", nodata="unsaid nan", hide="other clouds"),
    ),
    Kind(
        "NaN as the nodata value, warped",
        "BEFORE float32 with NaN, AFTER float32 with -9999, in degrees",
        Date(dtype="float32", nodata="nan", hide="clouds"),
        Date(dtype="float32", nodata=-9999, hide="east", crs="EPSG:4326", size=LARGE),
    ),
    Kind(
        "int16 with -32768",
        "int16 with -32768 on both dates, AFTER of 0.3 m",
        Date(dtype="int16", nodata=-32768, hide="west"),
        Date(dtype="int16", nodata=-32768, hide="other clouds", gsd=0.3, size=(260, 340)),
    ),
    Kind(
        "uint16 with 0 and uint8 with alpha",
        "BEFORE uint16 with nodata 0, AFTER uint8 with an alpha band, sheared",
        Date(dtype="uint16", nodata=0, hide="west"),
        Date(bands=(*RGB, "alpha"), nodata="alpha", hide="other clouds", shear=8.0, size=LARGE),
    ),
    Kind(
        "JPEG with a mask",
        "both JPEG in a TIFF with an internal mask, ragged edges elsewhere on each date",
        Date(layout="jpeg in tiff", nodata="mask", hide="west"),
        Date(layout="jpeg in tiff", nodata="mask", hide="east", moved=(0.2, 0.1)),
    ),
]

PIXELS = {"Bands": BANDS, "Data types and radiometry": TYPES, "Pixels without data": NODATA}

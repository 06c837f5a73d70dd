"""Rows about where the pixels of the two dates lie."""

from __future__ import annotations

from ground import Ground
from kind import EUROPE, LARGE, Kind, both
from scenes import Date

PARIS = Ground(2.35, 48.85)
NEW_YORK = Ground(-73.95, 40.75)
SYDNEY = Ground(151.1, -33.85)
# The change lies on the antimeridian itself.
FIJI = Ground(180.0, -16.8, change_at=(1.3, 2.0))
ARCTIC = Ground(-42.0, 81.5)
NORTH_OF_UTM = Ground(25.0, 87.2)
ANTARCTICA = Ground(166.6, -77.85)
NEAR_SOUTH_POLE = Ground(12.0, -89.99)


def across(name: str, first: int, second: int, ground: Ground = EUROPE) -> Kind:
    """A row of two reference systems by their EPSG codes; AFTER covers all that BEFORE shows."""
    return Kind(name, Date(crs=f"EPSG:{first}"), Date(crs=f"EPSG:{second}", size=LARGE), ground)


GRIDS = [
    Kind("same grid"),
    Kind("other extent, whole pixels", after=Date(size=(120, 160), moved=(-12.0, 7.0))),
    Kind("other origin, parts of a pixel", after=Date(moved=(0.13, -0.185))),
    Kind("half an overlap", Date(moved=(-30.0, 0.0)), Date(moved=(25.15, -4.0))),
    Kind("AFTER finer", after=Date(gsd=0.3, size=(260, 340))),
    Kind("AFTER coarser", after=Date(gsd=0.8, size=(110, 140))),
    Kind("BEFORE finer than the model", Date(gsd=0.2, size=(360, 480))),
    Kind("both far finer", **both(gsd=0.2, size=(360, 480))),
    Kind("both coarser than the model", Date(gsd=1.2, size=(80, 100)), Date(gsd=1.0, size=(90, 110))),
    Kind("own resolution wanted", after=Date(gsd=0.6, size=(130, 170)), options=("--gsd", "0.8")),
    Kind("pixels that are not square", Date(aspect=1.4, size=(110, 200))),
    Kind("only a box", options=("--bbox", "15.39955,50.49995,15.4001,50.5003")),
    Kind("a box that cuts the change", options=("--bbox", "15.39985,50.49995,15.4004,50.5003")),
]

SYSTEMS = [
    across("next UTM zone", 32633, 32634),
    across("UTM and web mercator", 32633, 3857),
    across("web mercator and UTM", 3857, 32633),
    across("UTM and degrees", 32633, 4326),
    across("degrees and UTM", 4326, 32633),
    Kind("both in degrees", **both(crs="EPSG:4326")),
    across("national grid and UTM", 2154, 32631, PARIS),
    across("feet and metres", 2263, 26918, NEW_YORK),
    Kind(
        "southern hemisphere",
        Date(crs="EPSG:32756"),
        Date(crs="+proj=tmerc +lat_0=-33 +lon_0=150 +datum=WGS84 +units=m", size=LARGE),
        SYDNEY,
    ),
]

TURNED = [
    Kind("AFTER rotated", after=Date(size=LARGE, rotation=30.0)),
    Kind("BEFORE rotated", Date(rotation=-17.0), Date(size=LARGE)),
    Kind("both rotated alike", **both(rotation=12.0)),
    Kind(
        "both rotated differently",
        Date(size=(190, 210), rotation=41.0),
        Date(gsd=0.4, size=(300, 340), rotation=-8.0),
    ),
    Kind("sheared", after=Date(size=LARGE, shear=14.0)),
    Kind(
        "rotated and sheared, other zone",
        Date(size=(190, 210), rotation=20.0),
        Date(crs="EPSG:32632", size=(290, 290), rotation=65.0, shear=-9.0),
    ),
    Kind("rotated in degrees", Date(crs="EPSG:4326", rotation=10.0), Date(size=LARGE)),
    Kind("AFTER south-up", after=Date(flip="rows")),
    Kind("BEFORE south-up", Date(flip="rows")),
    Kind("both south-up", **both(flip="rows")),
    Kind("south-up in degrees", Date(crs="EPSG:4326", flip="rows"), Date(gsd=0.4, size=LARGE, flip="rows")),
    Kind("mirrored", after=Date(flip="columns")),
    Kind("upside down and turned", Date(size=(200, 150), rotation=90.0), Date(flip="both")),
]

GCPS = [
    Kind("four ground control points", after=Date(gcps=2)),
    Kind("bent by ground control points", after=Date(size=LARGE, rotation=7.0, gcps=6, bend=3.0)),
    Kind("BEFORE by GCPs", Date(rotation=15.0, gcps=3)),
    Kind("GCPs in degrees", after=Date(crs="EPSG:4326", size=LARGE, gcps=4)),
    Kind(
        "both by GCPs",
        Date(crs="EPSG:4326", size=(190, 220), rotation=-20.0, gcps=5),
        Date(crs="EPSG:32634", size=LARGE, gcps=3),
    ),
]

FAR = [
    Kind(
        "across the antimeridian, degrees",
        Date(crs="EPSG:4326"),
        Date(crs="EPSG:4326", size=LARGE, west=True, moved=(0.2, 0.1)),
        FIJI,
    ),
    across("across the antimeridian, two zones", 32760, 32701, FIJI),
    Kind(
        "across the antimeridian, UTM and degrees",
        Date(crs="EPSG:32701"),
        Date(crs="EPSG:4326", size=LARGE, flip="rows"),
        FIJI,
    ),
    Kind(
        "across the antimeridian, Pacific mercator",
        Date(crs="EPSG:3832"),
        Date(crs="EPSG:32760", size=LARGE, rotation=25.0),
        FIJI,
    ),
    across("Arctic", 3413, 32623, ARCTIC),
    across(
        "north of UTM, degrees",
        4326,
        3995,
        NORTH_OF_UTM,
    ),
    Kind("Antarctica", Date(crs="EPSG:3031"), Date(crs="EPSG:4326", size=LARGE, flip="rows"), ANTARCTICA),
    Kind(
        "a kilometre from the pole",
        Date(crs="EPSG:3031", rotation=33.0),
        Date(crs="EPSG:5042", size=LARGE),
        NEAR_SOUTH_POLE,
    ),
    across(
        "across the antimeridian in the Arctic",
        32660,
        3413,
        Ground(180.0, 71.2, change_at=(-1.0, 3.0)),
    ),
]

PLACES = {
    "Grids and extents": GRIDS,
    "Reference systems": SYSTEMS,
    "Rotated, sheared, flipped": TURNED,
    "Ground control points": GCPS,
    "The antimeridian and the poles": FAR,
}

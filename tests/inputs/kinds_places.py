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


def across(name: str, built: str, first: int, second: int, ground: Ground = EUROPE) -> Kind:
    """A row of two reference systems by their EPSG codes; AFTER covers all that BEFORE shows."""
    return Kind(name, built, Date(crs=f"EPSG:{first}"), Date(crs=f"EPSG:{second}", size=LARGE), ground)


GRIDS = [
    Kind("same grid", "one UTM grid"),
    Kind(
        "other extent, whole pixels",
        "AFTER on the same pixels, cut elsewhere: 12 m east, 7 m north, smaller",
        after=Date(size=(120, 160), moved=(-12.0, 7.0)),
    ),
    Kind(
        "other origin, parts of a pixel",
        "AFTER shifted by 0.26 and 0.37 pixels",
        after=Date(moved=(0.13, -0.185)),
    ),
    Kind(
        "half an overlap",
        "BEFORE 30 m west, AFTER 25 m east of the middle, 0.3 pixels apart",
        Date(moved=(-30.0, 0.0)),
        Date(moved=(25.15, -4.0)),
    ),
    Kind("AFTER finer", "AFTER 0.3 m, BEFORE 0.5 m", after=Date(gsd=0.3, size=(260, 340))),
    Kind("AFTER coarser", "AFTER 0.8 m, BEFORE 0.5 m", after=Date(gsd=0.8, size=(110, 140))),
    Kind(
        "BEFORE finer than the model",
        "BEFORE 0.2 m, AFTER 0.5 m: reduced to 0.5 m",
        Date(gsd=0.2, size=(360, 480)),
    ),
    Kind(
        "both far finer",
        "BEFORE and AFTER 0.2 m on one grid: averaged to 0.5 m",
        **both(gsd=0.2, size=(360, 480)),
    ),
    Kind(
        "both coarser than the model",
        "1.2 m and 1 m: enlarged to 0.5 m",
        Date(gsd=1.2, size=(80, 100)),
        Date(gsd=1.0, size=(90, 110)),
    ),
    Kind(
        "own resolution wanted",
        "0.5 m and 0.6 m with `--gsd 0.8`",
        after=Date(gsd=0.6, size=(130, 170)),
        options=("--gsd", "0.8"),
    ),
    Kind(
        "pixels that are not square",
        "BEFORE pixels 1.4 times as high as wide, AFTER square",
        Date(aspect=1.4, size=(110, 200)),
    ),
    Kind(
        "only a box",
        "one UTM grid and a `--bbox` that holds the change",
        options=("--bbox", "15.39955,50.49995,15.4001,50.5003"),
    ),
    Kind(
        "a box that cuts the change",
        "one UTM grid and a `--bbox` that ends in the change, which is reported whole",
        options=("--bbox", "15.39985,50.49995,15.4004,50.5003"),
    ),
]

SYSTEMS = [
    across("next UTM zone", "UTM 33 and UTM 34", 32633, 32634),
    across("UTM and web mercator", "UTM 33 and EPSG:3857", 32633, 3857),
    across("web mercator and UTM", "EPSG:3857 and UTM 33", 3857, 32633),
    across("UTM and degrees", "UTM 33 and EPSG:4326", 32633, 4326),
    across("degrees and UTM", "EPSG:4326 and UTM 33", 4326, 32633),
    Kind("both in degrees", "EPSG:4326, one grid", **both(crs="EPSG:4326")),
    across("national grid and UTM", "Lambert-93 (EPSG:2154) and UTM 31", 2154, 32631, PARIS),
    across(
        "feet and metres", "US survey feet (EPSG:2263) and NAD83 / UTM 18 (EPSG:26918)", 2263, 26918, NEW_YORK
    ),
    Kind(
        "southern hemisphere",
        "UTM 56 south (EPSG:32756) and a transverse Mercator of its own, south of the equator, as PROJ text",
        Date(crs="EPSG:32756"),
        Date(crs="+proj=tmerc +lat_0=-33 +lon_0=150 +datum=WGS84 +units=m", size=LARGE),
        SYDNEY,
    ),
]

TURNED = [
    Kind("AFTER rotated", "AFTER turned by 30 degrees", after=Date(size=LARGE, rotation=30.0)),
    Kind("BEFORE rotated", "BEFORE turned by -17 degrees", Date(rotation=-17.0), Date(size=LARGE)),
    Kind("both rotated alike", "both turned by 12 degrees on one grid", **both(rotation=12.0)),
    Kind(
        "both rotated differently",
        "BEFORE turned by 41, AFTER by -8 degrees and of 0.4 m",
        Date(size=(190, 210), rotation=41.0),
        Date(gsd=0.4, size=(300, 340), rotation=-8.0),
    ),
    Kind("sheared", "AFTER sheared by 14 degrees", after=Date(size=LARGE, shear=14.0)),
    Kind(
        "rotated and sheared, other zone",
        "BEFORE turned by 20 degrees; AFTER sheared by -9 and turned by 65 degrees, in UTM 32",
        Date(size=(190, 210), rotation=20.0),
        Date(crs="EPSG:32632", size=(290, 290), rotation=65.0, shear=-9.0),
    ),
    Kind(
        "rotated in degrees",
        "BEFORE in EPSG:4326, turned by 10 degrees",
        Date(crs="EPSG:4326", rotation=10.0),
        Date(size=LARGE),
    ),
    Kind("AFTER south-up", "AFTER with its rows from south to north", after=Date(flip="rows")),
    Kind("BEFORE south-up", "BEFORE with its rows from south to north", Date(flip="rows")),
    Kind("both south-up", "both with rows from south to north", **both(flip="rows")),
    Kind(
        "south-up in degrees",
        "BEFORE bottom-up in EPSG:4326, AFTER UTM, bottom-up and finer",
        Date(crs="EPSG:4326", flip="rows"),
        Date(gsd=0.4, size=LARGE, flip="rows"),
    ),
    Kind("mirrored", "AFTER with its columns from east to west", after=Date(flip="columns")),
    Kind(
        "upside down and turned",
        "BEFORE turned by a quarter, AFTER by a half",
        Date(size=(200, 150), rotation=90.0),
        Date(flip="both"),
    ),
]

GCPS = [
    Kind("four ground control points", "AFTER without transform, a GCP in each corner", after=Date(gcps=2)),
    Kind(
        "bent by ground control points",
        "AFTER bent by 3 pixels, turned by 7 degrees, placed by 36 GCPs",
        after=Date(size=LARGE, rotation=7.0, gcps=6, bend=3.0),
    ),
    Kind("BEFORE by GCPs", "BEFORE turned by 15 degrees, placed by 9 GCPs", Date(rotation=15.0, gcps=3)),
    Kind(
        "GCPs in degrees",
        "AFTER placed by 16 GCPs in EPSG:4326",
        after=Date(crs="EPSG:4326", size=LARGE, gcps=4),
    ),
    Kind(
        "both by GCPs",
        "BEFORE by 25 GCPs in degrees, turned by -20; AFTER by 9 in UTM 34",
        Date(crs="EPSG:4326", size=(190, 220), rotation=-20.0, gcps=5),
        Date(crs="EPSG:32634", size=LARGE, gcps=3),
    ),
]

FAR = [
    Kind(
        "across the antimeridian, degrees",
        "EPSG:4326, BEFORE counts beyond 180, AFTER below -180; the change lies on the line",
        Date(crs="EPSG:4326"),
        Date(crs="EPSG:4326", size=LARGE, west=True, moved=(0.2, 0.1)),
        FIJI,
    ),
    across("across the antimeridian, two zones", "UTM 60 south and UTM 1 south", 32760, 32701, FIJI),
    Kind(
        "across the antimeridian, UTM and degrees",
        "UTM 1 south and EPSG:4326, rows from south to north",
        Date(crs="EPSG:32701"),
        Date(crs="EPSG:4326", size=LARGE, flip="rows"),
        FIJI,
    ),
    Kind(
        "across the antimeridian, Pacific mercator",
        "EPSG:3832 and UTM 60 south, turned by 25 degrees",
        Date(crs="EPSG:3832"),
        Date(crs="EPSG:32760", size=LARGE, rotation=25.0),
        FIJI,
    ),
    across("Arctic", "polar stereographic (EPSG:3413) and UTM 23", 3413, 32623, ARCTIC),
    across(
        "north of UTM, degrees",
        "EPSG:4326 at 87 degrees north and polar stereographic (EPSG:3995)",
        4326,
        3995,
        NORTH_OF_UTM,
    ),
    Kind(
        "Antarctica",
        "EPSG:3031 and EPSG:4326 with its rows from south to north",
        Date(crs="EPSG:3031"),
        Date(crs="EPSG:4326", size=LARGE, flip="rows"),
        ANTARCTICA,
    ),
    Kind(
        "a kilometre from the pole",
        "EPSG:3031, turned by 33 degrees, and UPS south (EPSG:5042)",
        Date(crs="EPSG:3031", rotation=33.0),
        Date(crs="EPSG:5042", size=LARGE),
        NEAR_SOUTH_POLE,
    ),
    across(
        "across the antimeridian in the Arctic",
        "UTM 60 and polar stereographic (EPSG:3413)",
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

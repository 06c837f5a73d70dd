"""Rows about where the pixels of the two dates lie."""

from __future__ import annotations

from ground import Ground
from kind import Kind
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

LARGE = (230, 280)

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
        before=Date(moved=(-30.0, 0.0)),
        after=Date(moved=(25.15, -4.0)),
    ),
    Kind("AFTER finer", "AFTER 0.3 m, BEFORE 0.5 m", after=Date(gsd=0.3, size=(260, 340))),
    Kind("AFTER coarser", "AFTER 0.8 m, BEFORE 0.5 m", after=Date(gsd=0.8, size=(110, 140))),
    Kind(
        "BEFORE finer than the model",
        "BEFORE 0.2 m, AFTER 0.5 m: reduced to 0.5 m",
        before=Date(gsd=0.2, size=(360, 480)),
    ),
    Kind(
        "both far finer",
        "BEFORE and AFTER 0.2 m on one grid: averaged to 0.5 m",
        before=Date(gsd=0.2, size=(360, 480)),
        after=Date(gsd=0.2, size=(360, 480)),
    ),
    Kind(
        "both coarser than the model",
        "1.2 m and 1 m: enlarged to 0.5 m",
        before=Date(gsd=1.2, size=(80, 100)),
        after=Date(gsd=1.0, size=(90, 110)),
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
        before=Date(aspect=1.4, size=(110, 200)),
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
    Kind("next UTM zone", "UTM 33 and UTM 34", after=Date(crs="EPSG:32634", size=LARGE)),
    Kind("UTM and web mercator", "UTM 33 and EPSG:3857", after=Date(crs="EPSG:3857", size=LARGE)),
    Kind(
        "web mercator and UTM", "EPSG:3857 and UTM 33", before=Date(crs="EPSG:3857"), after=Date(size=LARGE)
    ),
    Kind("UTM and degrees", "UTM 33 and EPSG:4326", after=Date(crs="EPSG:4326", size=LARGE)),
    Kind("degrees and UTM", "EPSG:4326 and UTM 33", before=Date(crs="EPSG:4326"), after=Date(size=LARGE)),
    Kind("both in degrees", "EPSG:4326, one grid", before=Date(crs="EPSG:4326"), after=Date(crs="EPSG:4326")),
    Kind(
        "national grid and UTM",
        "Lambert-93 (EPSG:2154) and UTM 31",
        before=Date(crs="EPSG:2154"),
        after=Date(crs="EPSG:32631", size=LARGE),
        ground=PARIS,
    ),
    Kind(
        "feet and metres",
        "US survey feet (EPSG:2263) and NAD83 / UTM 18 (EPSG:26918)",
        before=Date(crs="EPSG:2263"),
        after=Date(crs="EPSG:26918", size=LARGE),
        ground=NEW_YORK,
    ),
    Kind(
        "southern hemisphere",
        "UTM 56 south (EPSG:32756) and a transverse Mercator of its own, south of the equator, as PROJ text",
        before=Date(crs="EPSG:32756"),
        after=Date(crs="+proj=tmerc +lat_0=-33 +lon_0=150 +datum=WGS84 +units=m", size=LARGE),
        ground=SYDNEY,
    ),
]

TURNED = [
    Kind("AFTER rotated", "AFTER turned by 30 degrees", after=Date(rotation=30.0, size=LARGE)),
    Kind(
        "BEFORE rotated", "BEFORE turned by -17 degrees", before=Date(rotation=-17.0), after=Date(size=LARGE)
    ),
    Kind(
        "both rotated alike",
        "both turned by 12 degrees on one grid",
        before=Date(rotation=12.0),
        after=Date(rotation=12.0),
    ),
    Kind(
        "both rotated differently",
        "BEFORE turned by 41, AFTER by -8 degrees and of 0.4 m",
        before=Date(rotation=41.0, size=(190, 210)),
        after=Date(rotation=-8.0, gsd=0.4, size=(300, 340)),
    ),
    Kind("sheared", "AFTER sheared by 14 degrees", after=Date(shear=14.0, size=LARGE)),
    Kind(
        "rotated and sheared, other zone",
        "BEFORE turned by 20 degrees; AFTER sheared by -9 and turned by 65 degrees, in UTM 32",
        before=Date(rotation=20.0, size=(190, 210)),
        after=Date(crs="EPSG:32632", rotation=65.0, shear=-9.0, size=(290, 290)),
    ),
    Kind(
        "rotated in degrees",
        "BEFORE in EPSG:4326, turned by 10 degrees",
        before=Date(crs="EPSG:4326", rotation=10.0),
        after=Date(size=LARGE),
    ),
    Kind("AFTER south-up", "AFTER with its rows from south to north", after=Date(flip="rows")),
    Kind("BEFORE south-up", "BEFORE with its rows from south to north", before=Date(flip="rows")),
    Kind(
        "both south-up",
        "both with rows from south to north",
        before=Date(flip="rows"),
        after=Date(flip="rows"),
    ),
    Kind(
        "south-up in degrees",
        "BEFORE bottom-up in EPSG:4326, AFTER UTM, bottom-up and finer",
        before=Date(crs="EPSG:4326", flip="rows"),
        after=Date(flip="rows", gsd=0.4, size=LARGE),
    ),
    Kind("mirrored", "AFTER with its columns from east to west", after=Date(flip="columns")),
    Kind(
        "upside down and turned",
        "BEFORE turned by a quarter, AFTER by a half",
        before=Date(rotation=90.0, size=(200, 150)),
        after=Date(flip="both"),
    ),
]

GCPS = [
    Kind("four ground control points", "AFTER without transform, a GCP in each corner", after=Date(gcps=2)),
    Kind(
        "bent by ground control points",
        "AFTER bent by 3 pixels, turned by 7 degrees, placed by 36 GCPs",
        after=Date(gcps=6, bend=3.0, rotation=7.0, size=LARGE),
    ),
    Kind(
        "BEFORE by GCPs", "BEFORE turned by 15 degrees, placed by 9 GCPs", before=Date(gcps=3, rotation=15.0)
    ),
    Kind(
        "GCPs in degrees",
        "AFTER placed by 16 GCPs in EPSG:4326",
        after=Date(crs="EPSG:4326", gcps=4, size=LARGE),
    ),
    Kind(
        "both by GCPs",
        "BEFORE by 25 GCPs in degrees, turned by -20; AFTER by 9 in UTM 34",
        before=Date(crs="EPSG:4326", gcps=5, rotation=-20.0, size=(190, 220)),
        after=Date(crs="EPSG:32634", gcps=3, size=LARGE),
    ),
]

FAR = [
    Kind(
        "across the antimeridian, degrees",
        "EPSG:4326, BEFORE counts beyond 180, AFTER below -180; the change lies on the line",
        before=Date(crs="EPSG:4326"),
        after=Date(crs="EPSG:4326", west=True, size=LARGE, moved=(0.2, 0.1)),
        ground=FIJI,
    ),
    Kind(
        "across the antimeridian, two zones",
        "UTM 60 south and UTM 1 south",
        before=Date(crs="EPSG:32760"),
        after=Date(crs="EPSG:32701", size=LARGE),
        ground=FIJI,
    ),
    Kind(
        "across the antimeridian, UTM and degrees",
        "UTM 1 south and EPSG:4326, rows from south to north",
        before=Date(crs="EPSG:32701"),
        after=Date(crs="EPSG:4326", flip="rows", size=LARGE),
        ground=FIJI,
    ),
    Kind(
        "across the antimeridian, Pacific mercator",
        "EPSG:3832 and UTM 60 south, turned by 25 degrees",
        before=Date(crs="EPSG:3832"),
        after=Date(crs="EPSG:32760", rotation=25.0, size=LARGE),
        ground=FIJI,
    ),
    Kind(
        "Arctic",
        "polar stereographic (EPSG:3413) and UTM 23",
        before=Date(crs="EPSG:3413"),
        after=Date(crs="EPSG:32623", size=LARGE),
        ground=ARCTIC,
    ),
    Kind(
        "north of UTM, degrees",
        "EPSG:4326 at 87 degrees north and polar stereographic (EPSG:3995)",
        before=Date(crs="EPSG:4326"),
        after=Date(crs="EPSG:3995", size=LARGE),
        ground=NORTH_OF_UTM,
    ),
    Kind(
        "Antarctica",
        "EPSG:3031 and EPSG:4326 with its rows from south to north",
        before=Date(crs="EPSG:3031"),
        after=Date(crs="EPSG:4326", flip="rows", size=LARGE),
        ground=ANTARCTICA,
    ),
    Kind(
        "a kilometre from the pole",
        "EPSG:3031, turned by 33 degrees, and UPS south (EPSG:5042)",
        before=Date(crs="EPSG:3031", rotation=33.0),
        after=Date(crs="EPSG:5042", size=LARGE),
        ground=NEAR_SOUTH_POLE,
    ),
    Kind(
        "across the antimeridian in the Arctic",
        "UTM 60 and polar stereographic (EPSG:3413)",
        before=Date(crs="EPSG:32660"),
        after=Date(crs="EPSG:3413", size=LARGE),
        ground=Ground(180.0, 71.2, change_at=(-1.0, 3.0)),
    ),
]

PLACES = {
    "Grids and extents": GRIDS,
    "Reference systems": SYSTEMS,
    "Rotated, sheared, flipped": TURNED,
    "Ground control points": GCPS,
    "The antimeridian and the poles": FAR,
}

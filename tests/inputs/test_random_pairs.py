"""Any two files drawn by chance: the change comes back within half a pixel, through the command."""

from __future__ import annotations

import dataclasses
import math
import tempfile
from pathlib import Path

import pytest
from ground import Ground
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from judging import HALF_A_PIXEL, assert_only_the_change, full_change, run_command
from kind import fits
from kinds_pixels import RGB
from kinds_places import FIJI
from scenes import Date, Drawing, write

PLAIN_LAYOUTS = ("tiled", "striped", "planar", "bigtiff", "cog", "zip", "folder in zip")
RADIUS_M = 52.0
# Where the ground is: the reference systems that know the place.
WORLD = {
    "Europe": (Ground(15.4, 50.5), ("EPSG:32633", "EPSG:32632", "EPSG:3857", "EPSG:4326", "EPSG:3035")),
    "antimeridian": (FIJI, ("EPSG:32760", "EPSG:32701", "EPSG:4326", "EPSG:3832")),
    "north": (Ground(-42.0, 81.5), ("EPSG:3413", "EPSG:32623", "EPSG:4326", "EPSG:3995")),
    "far south": (Ground(166.6, -86.0), ("EPSG:3031", "EPSG:5042", "EPSG:4326")),
}  # fmt: skip
HIDDEN = {
    "Europe": ("west", "east", "clouds", "other clouds"),
    "antimeridian": (),
    "north": ("clouds",),
    "far south": ("west",),
}
NUMBERS = {"uint8": (0, 255, 190), "uint16": (0, 65535), "int16": (-32768, 0), "float32": (-9999.0, 0.0)}


@st.composite
def dates(draw, place: str) -> Date:
    """One date over all of the ground of a place."""
    gsd = draw(st.floats(0.3, 1.0))
    side = math.ceil(2 * RADIUS_M / gsd)
    date = Date(
        crs=draw(st.sampled_from(WORLD[place][1])),
        gsd=gsd,
        size=(side, side + draw(st.integers(0, 40))),
        rotation=draw(st.one_of(st.just(0.0), st.floats(-180, 180))),
        shear=draw(st.one_of(st.just(0.0), st.floats(-15, 15))),
        flip=draw(st.sampled_from(("", "rows", "columns", "both"))),
        moved=(draw(st.floats(-2, 2)), draw(st.floats(-2, 2))),
    )
    kind = draw(st.sampled_from(("plain", "typed", "palette", "grey", "alpha", "gcps", "vrt", "coded")))
    hide = draw(st.sampled_from(HIDDEN[place] or ("",)))
    layout = draw(st.sampled_from(PLAIN_LAYOUTS))
    dtype = draw(st.sampled_from(tuple(NUMBERS)))
    number = draw(st.sampled_from(NUMBERS[dtype])) if hide else ""
    vrt = draw(st.sampled_from(("vrt", "vrt of bands")))
    more = {
        "plain": {"layout": layout, "nodata": "mask", "hide": hide},
        "typed": {"layout": layout, "dtype": dtype, "nodata": number, "hide": hide},
        "palette": {"bands": ("palette",)},
        "grey": {"bands": ("grey",), "dtype": dtype, "layout": layout},
        "alpha": {"bands": (*RGB, "alpha"), "nodata": "alpha", "hide": hide, "layout": layout},
        "gcps": {"gcps": draw(st.integers(2, 5)), "dtype": dtype, "nodata": number, "hide": hide},
        "vrt": {"layout": vrt, "nodata": number, "dtype": dtype, "hide": hide},
        "coded": {"layout": draw(st.sampled_from(("jpeg2000", "png", "jpeg", "jpeg in tiff")))},
    }  # fmt: skip
    date = dataclasses.replace(date, **more[kind])
    if date.layout == "jpeg2000" and date.rotation == date.shear == 0:
        # GDAL writes the box that places such a file as if it were north-up.
        date = dataclasses.replace(date, flip={"rows": "", "both": "columns"}.get(date.flip, date.flip))
    return date


@st.composite
def pairs(draw) -> tuple[Ground, Date, Date]:
    """Two dates of one place."""
    place = draw(st.sampled_from(tuple(WORLD)))
    return WORLD[place][0], draw(dates(place)), draw(dates(place))


# An example takes a second: one that fails is shown as it was drawn.
AS_DRAWN = {"phases": (Phase.generate,), "suppress_health_check": list(HealthCheck)}


def check(ground, before, after, capfd, monkeypatch):
    full = full_change(before, after)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        monkeypatch.chdir(folder)
        first = write(folder, "before", before, Drawing(ground, after=False))
        second = write(folder, "after", after, Drawing(ground, True, full))
        run = run_command(capfd, first.name, second.name, folder)
        monkeypatch.undo()
    assert run.report is not None, run.lines
    # A scene of coarser pixels than the working grid is as exact as they are.
    coarsest = max(1.0, *(date.gsd / run.report["rscc"]["tiling"]["gsd"] for date in (before, after)))
    assert_only_the_change(run, ground, HALF_A_PIXEL * coarsest)
    grey = [path.name for path, date in ((first, before), (second, after)) if date.bands == ("grey",)]
    assert len(run.warnings) == len(grey), run.warnings
    assert all(fits(f"{name}…: …grey…", line) for name, line in zip(grey, run.warnings, strict=True))


@pytest.mark.slow
@settings(max_examples=10, derandomize=True, **AS_DRAWN)
@given(pair=pairs())
def test_the_change_comes_back(pair, capfd, monkeypatch):
    check(*pair, capfd, monkeypatch)


@pytest.mark.slow
@settings(max_examples=15, **AS_DRAWN)
@given(pair=pairs())
def test_the_change_comes_back_from_many_more(pair, capfd, monkeypatch):
    check(*pair, capfd, monkeypatch)

"""What an inspection says of a pair, and that it agrees with the run that it speaks of."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import time

import numpy as np
import pytest
from affine import Affine
from captioners import BrightnessCaptioner, card
from rasterio.control import GroundControlPoint
from rasters import north_up, textured, write_scene

from tiling import describe
from workflows import SceneOptions, caption_scene
from workflows.scene.inspect.inspect import inspect_pair
from workflows.scene.inspect.scene_facts import placement_words

CARD = card()


@pytest.fixture
def scenes(tmp_path):
    """Write a pair; the options of each date replace those of a plain one."""

    def write(before=None, after=None, names=("a_2016-03-14.tif", "b_2019.tif")):
        paths = []
        for name, own in zip(names, (before or {}, after or {}), strict=True):
            own = {"array": textured(300, 400), **own}
            paths.append(write_scene(tmp_path / name, own.pop("array"), **own))
        return paths

    return write


def inspected(paths, **options):
    return inspect_pair(*paths, CARD, SceneOptions(**options))


def refused_by_run(paths, **options):
    """Run in earnest; return the error's line and exit code, or None and the report."""
    try:
        return None, caption_scene(*paths, BrightnessCaptioner(), SceneOptions(**options))
    except Exception as error:
        return (" ".join(str(error).split()), error.exit_code), None


GRAY = textured(300, 400, bands=1)
MANY = textured(300, 400, bands=6)
ROTATED = Affine.translation(500_000, 5_600_000) * Affine.rotation(-20) * Affine.scale(0.5, -0.5)
CASES = {
    "plain": ({}, {}, {}),
    "swapped": ({"tags": {"ACQUISITION_DATE": "2021-01-01"}}, {}, {}),
    "grey": ({"array": GRAY}, {}, {}),
    "bands without names": ({}, {"array": MANY, "colors": ["gray"] + ["undefined"] * 5}, {}),
    "coarse": ({}, {"transform": north_up(cell=10.0)}, {}),
    "coarse by force": ({}, {"transform": north_up(cell=10.0)}, {"force": True}),
    "elsewhere": ({}, {"transform": north_up(x=900_000.0)}, {}),
    "rotated": ({"transform": ROTATED}, {}, {}),
    "degrees": ({"crs": "EPSG:4326", "transform": Affine(7e-6, 0, 15.0, 0, -4.5e-6, 50.551726)}, {}, {}),
    "no band 9": ({}, {}, {"bands": (1, 2, 9)}),
    "no such name": ({}, {}, {"bands": ("red", "swir", "blue")}),
    "all nodata": ({}, {"nodata": 7, "array": np.full((3, 300, 400), 7, np.uint8)}, {}),
    "box": ({}, {}, {"bounds": (15.0005, 50.5507, 15.0012, 50.5511)}),
    "box outside": ({}, {}, {"bounds": (20, 50, 21, 51)}),
    "box of nonsense": ({}, {}, {"bounds": (15, 51, 16, 50)}),
    "no reference system": ({}, {"crs": None}, {}),
    "fine": ({}, {}, {"gsd": 0.01}),
    "little memory": ({}, {}, {"memory": 10**6}),
    "other types": (
        {"array": textured(300, 400, dtype="uint16") * 9},
        {"array": textured(300, 400, seed=1)},
        {},
    ),
    "scaled": ({"array": textured(300, 400, dtype="uint16")}, {}, {"scale": (0.0, 300.0), "normalize": True}),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_an_inspection_agrees_with_the_run(scenes, case):
    before, after, options = CASES[case]
    paths = scenes(before, after)
    inspection = inspected(paths, **options)
    error, report = refused_by_run(paths, **options)
    assert [(r.message, r.exit_code) for r in inspection.refusals[:1]] == ([error] if error else [])
    assert inspection.exit_code == (error[1] if error else 0)
    if report is not None:
        run = report.run
        assert list(inspection.warnings) == run["warnings"]
        assert inspection.tiling == {name: run["tiling"][name] for name in inspection.tiling}
        assert inspection.pair == {name: run[name] for name in inspection.pair}
        for role in ("before", "after"):
            record = {name: value for name, value in run["inputs"][role].items() if name != "identity"}
            assert {name: getattr(inspection, role)[name] for name in record} == record
        planned = inspection.expected["memory"]
        assert {name: planned[name] for name in run["memory"]} == run["memory"]
    assert json.loads(json.dumps(inspection.as_dict(), allow_nan=False))["exit_code"] == inspection.exit_code
    assert max(map(len, inspection.as_text().splitlines())) <= 100


def test_the_time_is_measured_with_the_model_and_grows_with_the_tiles(scenes):
    paths, loaded = scenes(after={"array": textured(300, 400, seed=2)}), []

    class Slow(BrightnessCaptioner):
        def search(self, before, after):
            time.sleep(0.05 * len(before))
            return super().search(before, after)

    def load():
        loaded.append(Slow())
        return loaded[-1]

    inspection = inspect_pair(*paths, CARD, load=load)
    expected = inspection.expected
    assert 0.05 * inspection.tiling["tiles"] < expected["seconds"] and expected["device"] == "cpu"
    assert "on this machine (cpu)" in inspection.as_text()
    refused = inspect_pair(*paths, CARD, SceneOptions(bounds=(20, 50, 21, 51)), load)
    assert refused.refusals and len(loaded) == 1  # a model is loaded only for what goes through


def test_a_pair_that_is_too_coarse_is_shown_nevertheless(scenes):
    coarse = {"transform": north_up(cell=10.0)}
    inspection = inspected(scenes(coarse, coarse))
    assert inspection.refusals and inspection.tiling is not None and inspection.pair is not None
    titles = {line.split(" ")[0] for line in inspection.as_text().splitlines()}
    assert {"ground", "grid", "shift", "verdict"} <= titles


@pytest.mark.parametrize(
    ("row", "col", "words"), [(3, 2, "(2.0 right, 3.0 down)"), (-3, -2, "(2.0 left, 3.0 up)")]
)
def test_the_shift_is_told_by_its_directions(scenes, row, col, words):
    moved = np.roll(textured(300, 400), (row, col), axis=(1, 2))
    assert words in inspected(scenes(after={"array": moved})).as_text()


def test_how_much_is_shared_and_has_data(scenes):
    mask = np.ones((300, 400), bool)
    mask[:150] = False
    inspection = inspected(scenes({"mask": mask}, {"transform": north_up(500_050.0, 5_599_900.0, 0.25)}))
    shared = inspection.overlap
    assert shared["area_m2"] == pytest.approx(100 * 50, rel=0.03)
    west, south, east, north = shared["bounds"]
    assert 15.0007 < west < east < 15.0022 and 50.55 < south < north < 50.5512
    checked = {one["name"]: one["found"] for one in inspection.preconditions}
    assert checked["overlap"].endswith("17% of before, 67% of after")
    assert checked["data"] == "100% of it on both dates"
    half = inspected(scenes({"mask": mask})).preconditions
    assert {"name": "data", "found": "50% of it on both dates", "warnings": ()} in half
    assert inspection.resampling["before"]["method"] is None
    assert inspection.resampling["after"] == {
        "method": "bilinear", "from_gsd": 0.25, "to_gsd": 0.5, "reprojected": False, "turned": False,
        "moved": False,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("transform", "words"),
    [
        (north_up(), "north-up"),
        (Affine(0.5, 0, 0, 0, 0.5, 0), "south-up"),
        (Affine(-0.5, 0, 0, 0, -0.5, 0), "mirrored, columns from east to west"),
        (Affine.rotation(30) * Affine.scale(0.5, -0.5), "rotated by 30 degrees counter-clockwise"),
        (Affine.rotation(-7.25) * Affine.scale(0.5, -0.5), "rotated by 7.25 degrees clockwise"),
        (Affine.rotation(180) * Affine.scale(0.5, -0.5), "rotated by 180 degrees"),
        (Affine(0.5, 0.1, 0, 0, -0.5, 0), "sheared by 11.3 degrees"),
        (
            Affine.rotation(30) * Affine.scale(0.5, 0.5),
            "rotated by 30 degrees counter-clockwise and mirrored",
        ),
    ],
)
def test_how_a_scene_lies_on_the_map(scenes, transform, words):
    info = dataclasses.replace(describe(scenes()[0]), transform=transform)
    assert placement_words(info).startswith(words)
    assert ("sheared" in placement_words(info)) == ("sheared" in words)
    placed = dataclasses.replace(info, gcps=(GroundControlPoint(0, 0, 500_000, 5_600_000),) * 4)
    assert placement_words(placed) == "placed by 4 ground control points"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_nodata_value_that_is_no_number_is_said_in_json(scenes, value):
    image = textured(300, 400, dtype="float32")
    inspection = inspected(scenes({"array": image, "nodata": value}, {"array": image}))
    assert inspection.before["nodata"] == str(value)
    assert f"no data where {value}" in inspection.as_text()
    json.dumps(inspection.as_dict(), allow_nan=False)


def test_the_least_memory_that_is_named_is_enough(scenes):
    paths = scenes()
    (refusal,) = inspected(paths, memory=10**6).refusals
    least = int(re.search(r"needs at least (\d+) MB", refusal.message)[1])
    assert inspected(paths, memory=least * 10**6 + 5 * 10**6).refusals == ()
    assert inspected(paths, memory=least * 10**6 - 10**7).refusals != ()

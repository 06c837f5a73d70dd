"""What an inspection says of a pair, and that it agrees with the run that it speaks of."""

from __future__ import annotations

import dataclasses
import json
import math
import re

import numpy as np
import pytest
from affine import Affine
from fakes import BrightnessCaptioner, card
from rasterio.control import GroundControlPoint
from rasters import north_up, textured, write_scene
from scene_pairs import make_pair

from tiling import describe
from workflows import SceneOptions, caption_scene
from workflows.expected import CORE_SECONDS, stated_rate
from workflows.inspection import inspect_pair
from workflows.inspection_facts import placement_words
from workflows.inspection_words import duration, inspection_text

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


def inspected(paths, captioner=None, **options):
    load = None if captioner is None else (lambda: captioner)
    return inspect_pair(*paths, CARD, SceneOptions(**options), load)


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


@pytest.mark.parametrize("case", CASES)
def test_an_inspection_agrees_with_the_run(scenes, case):
    before, after, options = CASES[case]
    paths = scenes(before, after)
    found = inspected(paths, **options)
    error, report = refused_by_run(paths, **options)
    assert [(r.message, r.exit_code) for r in found.refusals[:1]] == ([error] if error else [])
    assert found.exit_code == (error[1] if error else 0)
    if report is not None:
        run = report.run
        assert list(found.warnings) == run["warnings"]
        assert found.tiling == {name: run["tiling"][name] for name in found.tiling}
        assert found.pair == {name: run[name] for name in found.pair}
        for role in ("before", "after"):
            record = run["inputs"][role]
            assert {name: getattr(found, role)[name] for name in record} == record
        planned = found.expected["memory"]
        assert {name: planned[name] for name in run["memory"]} == run["memory"]
    assert json.loads(json.dumps(found.as_dict(), allow_nan=False))["exit_code"] == found.exit_code
    assert max(map(len, found.as_text().splitlines())) <= 100


def test_a_plain_pair_in_words(scenes):
    paths = scenes(after={"transform": north_up(x=500_100.0)})
    lines = inspected(paths).as_text().splitlines()
    assert [line.split()[0] for line in lines if not line.startswith(" ")] == [
        "before", "after", "ground", "grid", "shift", "light", "model", "cost", "verdict",
    ]  # fmt: skip
    text = " ".join(" ".join(lines).split())
    for words in (
        "GeoTIFF, 400 x 300 pixels of 0.5 m, uint8",
        "3 bands (red, green, blue); 1,2,3 shown, by their colours; no mask",
        "EPSG:32633 (WGS 84 / UTM zone 33N), north-up",
        "taken 2016-03-14, from its name",
        "taken 2019, from its name",
        "15,000 m2 in common: 50 % of before, 50 % of after; 100 % of it has data on both dates",
        "200 x 300 pixels of 0.5 m in EPSG:32633",
        "both scenes as they are, pixel by pixel",
        "8 bits on both dates, taken as they are",
        "the time is not known for this model, --time measures it",
        "verdict ready for rscc caption",
    ):
        assert words in text


def test_one_unreadable_scene_leaves_the_other_described(scenes, tmp_path):
    paths = scenes()
    found = inspected((tmp_path / "none.tif", paths[1]))
    assert found.before is None and found.after["width"] == 400 and found.tiling is None
    assert len(found.refusals) == 1 and "none.tif" in found.refusals[0].message
    assert "cannot be read" in found.as_text() and "would refuse this with exit code 2" in found.as_text()
    both = inspected((tmp_path / "none.tif", tmp_path / "nothing.tif"))
    assert ["none.tif" in both.refusals[0].message, "nothing.tif" in both.refusals[1].message] == [True] * 2


def test_what_is_refused_for_its_resolution_is_shown_all_the_same(scenes):
    found = inspected(scenes(after={"transform": north_up(cell=10.0)}))
    assert len(found.refusals) == 1 and "10 m per pixel" in found.refusals[0].message
    assert found.overlap["share_before"] == 1.0
    assert found.resampling["after"]["method"] == "bilinear"


def test_how_much_is_shared_and_has_data(scenes):
    mask = np.ones((300, 400), bool)
    mask[:150] = False
    found = inspected(scenes({"mask": mask}, {"transform": north_up(500_050.0, 5_599_900.0, 0.25)}))
    shared = found.overlap
    assert shared["share_before"] == pytest.approx(200 * 100 / (300 * 400), abs=1e-3)
    assert shared["share_after"] == pytest.approx((50 * 100) / (75 * 100), abs=0.02)
    assert shared["area_m2"] == pytest.approx(100 * 50, rel=0.03)
    assert shared["share_valid"] == pytest.approx(1.0)
    west, south, east, north = shared["bounds"]
    assert 15.0007 < west < east < 15.0022 and 50.55 < south < north < 50.5512
    assert inspected(scenes({"mask": mask})).overlap["share_valid"] == pytest.approx(0.5, abs=0.02)
    assert found.resampling["before"]["method"] is None
    assert found.resampling["after"] == {
        "method": "bilinear", "from_gsd": 0.25, "to_gsd": 0.5, "reprojected": False, "turned": False,
        "moved": False,
    }  # fmt: skip


def test_fewer_pixels_are_asked_for_by_a_box(scenes):
    paths = scenes()
    whole, part = inspected(paths), inspected(paths, bounds=(15.0005, 50.5507, 15.0008, 50.5509))
    assert part.tiling["tiles"] < whole.tiling["tiles"]
    assert "; asked for are" in part.as_text() and "asked for are" not in whole.as_text()
    assert part.pair["stretch"] == whole.pair["stretch"]


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


def test_control_points_are_counted(scenes):
    points = tuple(
        GroundControlPoint(row, col, 500_000 + col / 2, 5_600_000 - row / 2)
        for row, col in ((0, 0), (0, 400), (300, 400), (300, 0))
    )
    info = dataclasses.replace(describe(scenes()[0]), gcps=points)
    assert placement_words(info) == "placed by 4 ground control points"


def test_a_nodata_value_that_is_no_number_is_said_in_json(scenes):
    image = textured(300, 400, dtype="float32")
    found = inspected(scenes({"array": image, "nodata": math.nan}, {"array": image}))
    assert found.before["nodata"] == "nan"
    assert "no data where nan" in found.as_text()
    json.dumps(found.as_dict(), allow_nan=False)


def test_time_is_measured_with_the_model_or_stated_for_the_shipped_ones(scenes):
    paths = scenes()
    captioner = BrightnessCaptioner()
    measured = inspected(paths, captioner).expected
    assert measured["rate"]["source"] == "measured" and measured["seconds"] >= 0
    assert captioner.shapes and captioner.crops
    assert sum(shape[0] for shape in captioner.shapes) <= 3 * 16
    assert "measured on 16 tiles" in inspected(paths, captioner).as_text()
    base = inspect_pair(*paths, card(name="rscc-base")).expected
    assert base["rate"]["source"] == "stated"
    assert base["seconds"] == pytest.approx(base["rate"]["tile"] * measured_tiles(paths), abs=0.1)
    assert stated_rate(CARD) is None
    assert inspected(paths).expected["seconds"] is None


def test_the_least_memory_that_is_named_is_enough(scenes):
    paths = scenes()
    (refusal,) = inspected(paths, memory=10**6).refusals
    least = int(re.search(r"needs at least (\d+) MB", refusal.message)[1])
    assert inspected(paths, memory=least * 10**6 + 5 * 10**6).refusals == ()
    assert inspected(paths, memory=least * 10**6 - 10**7).refusals != ()


def measured_tiles(paths):
    return inspected(paths).tiling["tiles"]


def test_every_shipped_model_has_a_rate():
    from rscc.weights import available_models

    assert {model.name for model in available_models()} == set(CORE_SECONDS)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "1 s"), (89, "89 s"), (100, "2 min"), (5400, "1 h 30 min"), (90000, "25 h 0 min")],
)
def test_durations(seconds, words):
    assert duration(seconds) == words


def test_long_lists_and_names_are_wrapped(scenes):
    found = inspected(scenes()).as_dict()
    found["before"]["path"] = "/folder" * 40
    found["warnings"] = ["word " * 60]
    text = inspection_text(found, 80)
    assert all(len(line) <= 80 or "/folder" in line for line in text.splitlines())
    assert "warning   word word" in text


def test_dates_from_names_are_those_of_the_run(tmp_path):
    pair = make_pair(tmp_path, [(10, 10, 30, 30, 240)], names=("x_20090818.tif", "y_20190701.tif"))
    found = inspect_pair(pair.before, pair.after, CARD)
    assert (found.before["date"], found.after["date"]) == ("2009-08-18", "2019-07-01")
    assert found.refusals == ()

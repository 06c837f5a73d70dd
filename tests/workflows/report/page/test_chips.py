"""Pictures of changes for map tips: what they show, how many there are, and where they are written."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pyogrio
import pytest
from pages import made_report, square
from PIL import Image
from scene_pairs import GROUND, make_pair
from shapely.geometry import MultiPolygon, box

from tiling import Window
from workflows.report.formats.layers import CHIP_FIELDS
from workflows.report.page import chips as chips_module
from workflows.report.page.chips import SIDE, _chip, chips_of

SIZE = (300, 420)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A small change, a large one of which a picture shows the middle, and one at the edge."""
    pair = make_pair(tmp_path_factory.mktemp("pair"), [(60, 60, 40, 40, 240)], size=SIZE, nodata_rows=20)
    changes = [square(1, 60, 60, 40), square(2, 10, 25, 260), square(3, 410, 100, 9)]
    return pair, made_report(pair, changes)


def pixels(jpeg):
    return np.asarray(Image.open(io.BytesIO(jpeg))).astype(int)


def test_a_chip_shows_its_change_in_the_middle_with_its_outline(made, tmp_path):
    pair, report = made
    chips = chips_of(replace(report, scenes=(pair.before, pair.after)))
    assert chips.keys() == {1, 2, 3}
    before, after = map(pixels, chips[1])
    assert before.shape == after.shape == (SIDE, SIDE, 3)
    # 40 of 54 pixels are the change.
    middle, corner = (slice(30, 98), slice(30, 98)), (slice(0, 12), slice(0, 12))
    assert after[middle].mean() == pytest.approx(240, abs=6)
    assert before[middle].mean() == pytest.approx(GROUND, abs=6)
    assert after[corner].mean() == pytest.approx(GROUND, abs=8)
    yellow, large = (before[..., 0] - before[..., 2] > 60).sum(), pixels(chips[2][1])
    assert 200 < yellow < 1500, "a thin line around it"
    assert (large[..., 0] - large[..., 2] <= 60).all(), "none where it would hide what it goes around"
    assert max(large.shape) == SIDE and large[20:32, 28:40].mean() > 230, "of a large change its middle"
    assert all(max(pixels(one).shape) == SIDE for one in chips[3])


def test_ground_without_data_is_white():
    nothing = Image.new("RGBA", (60, 60))
    chip = pixels(_chip(nothing, MultiPolygon([box(2, 2, 5, 5)]), Window(0, 0, 60, 60)))
    assert chip[30:, 30:].min() > 250


@pytest.mark.slow
def test_a_run_and_a_conversion_with_its_scenes_write_the_same_chips(rscc_command, tmp_path):
    pair = make_pair(tmp_path, [(40, 40, 40, 40, 250)])
    words = ("caption", pair.before, pair.after, "--quiet", "-o")
    assert rscc_command(*words, tmp_path / "a.gpkg") == (0, "", "")
    assert rscc_command(*words, tmp_path / "r.geojson") == (0, "", "")
    scenes = ("--before", pair.before, "--after", pair.after)
    assert rscc_command("convert", tmp_path / "r.geojson", tmp_path / "b.gpkg", *scenes, "--quiet")[0] == 0
    assert rscc_command("convert", tmp_path / "r.geojson", tmp_path / "c.gpkg", "--quiet")[0] == 0
    ran, converted, plain = (
        pyogrio.read_dataframe(tmp_path / f"{name}.gpkg", layer="changes") for name in "abc"
    )
    assert [bytes(one) for one in ran["chip_after"]] == [bytes(one) for one in converted["chip_after"]]
    assert pixels(bytes(ran["chip_after"][0]))[50:70, 50:70].mean() > 230
    assert not set(CHIP_FIELDS) & set(plain.columns)


@pytest.mark.parametrize("command", ["review", "convert"])
def test_a_geopackage_made_of_another_has_its_chips(made, rscc_command, tmp_path, monkeypatch, command):
    pair, report = made
    monkeypatch.setattr(chips_module, "MOST", 2)
    chips = chips_of(replace(report, scenes=(pair.before, pair.after)))
    assert chips.keys() == {1, 2}, "the largest"
    source, target = report.write(tmp_path / "r.gpkg", chips=chips), tmp_path / "s.gpkg"
    words = (source, target) if command == "convert" else (source, "-o", target)
    assert rscc_command(command, *words, "--quiet")[0] == 0
    assert target.read_bytes() == source.read_bytes()
    assert rscc_command("convert", target, tmp_path / "p.geojson", "--quiet")[0] == 0

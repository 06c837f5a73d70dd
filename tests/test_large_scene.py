from __future__ import annotations

import numpy as np
import pytest
import rasterio
from fakes import BrightnessCaptioner
from large_pair import CELL, STEP, Cell, make_pair
from large_scene import Reports, cut_pair, main, memory_table, pairs_of, seams_table
from seam_match import Captioned, compare, merged
from shapely.geometry import box

SIDE = 1290


def cells():
    """Two grounds of noise; the first gets houses, the second one that is as wide as two tiles."""
    chance = np.random.default_rng(2)
    made = []
    for houses in (
        [(r, c, 20, 28) for r in range(40, 960, 90) for c in range(30, 950, 110)],
        [(400, 430, 150, 140)],
    ):
        before = chance.integers(60, 100, (3, CELL, CELL)).astype(np.uint8) // STEP * STEP
        built = before.copy()
        for row, col, height, width in houses:
            built[:, row : row + height, col : col + width] = 240
        made.append(Cell(before, built, before + STEP))
    return made


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return make_pair(tmp_path_factory.mktemp("large"), SIDE, cells=cells(), seed=5, changed=0.7)


def read(path):
    with rasterio.open(path) as file:
        return file.read(), file.profile


def test_the_pair_is_tiled_compressed_and_the_same_every_time(pair, tmp_path):
    before, profile = read(pair.before)
    after, _ = read(pair.after)
    assert before.shape == after.shape == (3, SIDE, SIDE)
    assert profile["tiled"] and profile["compress"] == "deflate" and profile["crs"].to_epsg() == 32614
    again = make_pair(tmp_path, SIDE, cells=cells(), seed=5, changed=0.7)
    assert np.array_equal(read(again.after)[0], after)
    other = make_pair(tmp_path, SIDE, cells=cells(), seed=6, changed=0.7)
    assert not np.array_equal(read(other.after)[0], after)


def test_changes_lie_across_the_middle_lines(pair):
    changed = (read(pair.after)[0].astype(int) - read(pair.before)[0]).max(0) > 50
    half = SIDE // 2
    across = changed[half - 1] & changed[half]
    down = changed[:, half - 1] & changed[:, half]
    assert across.sum() + down.sum() > 20
    # Part of the ground has no change at all.
    assert 0.005 < changed.mean() < 0.2


def test_cutting_moves_no_pixel(pair):
    cut, _ = cut_pair(pair, 97)
    values, profile = read(cut)
    assert np.array_equal(values, read(pair.before)[0][:, 97:, 97:])
    whole = read(pair.before)[1]["transform"]
    assert (profile["transform"].c, profile["transform"].f) == (whole.c + 97 * 0.5, whole.f - 97 * 0.5)


def test_reports_do_not_depend_on_where_the_scene_is_cut(pair, tmp_path):
    caption = Reports(tmp_path, lambda model, device: BrightnessCaptioner(), ["--focus-captions", "none"])
    lines = seams_table(pair, 97, caption).splitlines()
    assert len(lines) == 4
    for line in lines[2:]:
        _, _, first, second, identical, same, least, alone, captions, _ = (
            part.strip() for part in line.split("|")
        )
        assert int(first) == int(second) > 30
        assert (identical, same, captions) == ("100.00 %",) * 3
        assert (float(least), int(alone)) == (1.0, 0)


def test_polygons_are_compared_one_to_one():
    squares = [Captioned(box(n, 0, n + 0.8, 1), f"house {n}") for n in range(4)]
    assert merged([squares[:2], squares[1:], squares[3:]]) == squares
    moved = [
        squares[0],
        Captioned(box(1, 0, 1.8, 1.001), "house 1"),
        Captioned(box(2, 0, 2.8, 0.9), "house 2"),
        Captioned(squares[3].geometry, "garage"),
        Captioned(box(9, 0, 10, 1), "pond"),
    ]
    found = compare(squares, moved)
    assert (found.first, found.second, found.identical, found.same) == (4, 5, 2, 3)
    assert found.least_iou == pytest.approx(0.9)
    assert (found.same_captions, found.unmatched) == (2, 1)
    nothing = compare([], [])
    assert (nothing.same, nothing.least_iou, nothing.unmatched) == (0, 1.0, 0)


@pytest.mark.slow
def test_memory_is_measured_of_the_real_command(tmp_path, repository, monkeypatch):
    monkeypatch.chdir(repository)
    pair = make_pair(tmp_path, 500, cells=cells(), seed=5)
    head, _, line = memory_table([pair], ["--beams", "1"]).splitlines()
    assert "peak, MiB" in head
    values = [part.strip() for part in line.split("|")[1:-1]]
    assert values[0] == "500 x 500" and int(values[1]) == 9
    assert 200 < int(values[5]) < int(values[6]) < 2500
    assert values[7] == "+0.0 %"


def test_what_is_there_is_not_made_again(pair, capsys):
    folder = pair.before.parent
    assert pairs_of(folder, [SIDE]) == [pair]
    main(["make", "--folder", str(folder), "--side", str(SIDE)])
    assert capsys.readouterr().out.split() == [str(pair.before), str(pair.after)]

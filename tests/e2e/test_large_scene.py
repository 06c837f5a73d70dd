from __future__ import annotations

import numpy as np
import pytest
from fakes import BrightnessCaptioner
from large_pair import CELL, STEP, Cell, make_pair
from large_scene import Reports, costs_of, memory_table, seams_table

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


@pytest.mark.slow
def test_reports_do_not_depend_on_where_the_scene_is_cut(pair, tmp_path):
    caption = Reports(tmp_path, lambda model, device: BrightnessCaptioner(), ["--focus-captions", "none"])
    lines = seams_table(pair, 97, caption).splitlines()
    assert len(lines) == 4
    for line in lines[2:]:
        first, second, *shares, least, alone, captions = (part.strip() for part in line.split("|")[2:-1])
        assert int(first) == int(second) > 30
        assert [*shares, captions] == ["100.00 %"] * 3
        assert (float(least), int(alone)) == (1.0, 0)


@pytest.mark.slow
def test_memory_is_measured_of_the_real_command(tmp_path, repository, monkeypatch):
    monkeypatch.chdir(repository)
    pair = make_pair(tmp_path, 500, cells=cells(), seed=5)
    head, _, line = memory_table(costs_of([pair], ["--beams", "1"])).splitlines()
    assert "peak, MiB" in head
    values = [part.strip() for part in line.split("|")[1:-1]]
    assert values[0] == "500 x 500" and int(values[1]) == 1
    assert 200 < int(values[5]) < int(values[6]) < 2500
    assert values[7] == "+0.0 %"

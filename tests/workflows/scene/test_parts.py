from __future__ import annotations

import json
import os
import random
import signal
from itertools import pairwise
from threading import Lock

import pytest
from archive_commands import DEADLINE, commands, kill, wait_until
from captioners import captioned
from hypothesis import given
from hypothesis import strategies as st
from report_checks import without_times
from rscc_stand_in import SlowCaptioner, do_parts
from scene_pairs import make_pair

from rscc.captioner import Captioner
from rscc.files import DRAFTS
from tiling import NothingValid, TileGrid, Window
from workflows import SceneOptions
from workflows.errors import OptionInvalid
from workflows.scene.network import memory
from workflows.scene.network.mosaics import row_edges
from workflows.scene.opening import open_pair, planned_tiles
from workflows.scene.parts import find_part, join_parts, plan_parts, split_of

# 21 rows of 5 tiles of 64 pixels that share 16: tiles are fixed to the ground, not to the edges.
SIZE = (976, 208)
chance = random.Random(7)
# Over many seams of rows, small and tall ones, some side by side.
SPOTS = [
    (row + chance.randrange(20), col + chance.randrange(40), chance.choice([9, 30, 120]), 12, 170 + row % 80)
    for row in range(10, 840, 60)
    for col in (10, 120)
]
# Degrees: from the second quarter of the columns and rows to the last but one.
BOX = (15.0004, 50.5487, 15.0012, 50.5517)


class InBatches(SlowCaptioner):
    """As of a real network, the last bits depend on what else is in the batch."""

    def __init__(self):
        super().__init__(0)


class Idle(InBatches):
    def predict_change(self, before, after):
        raise AssertionError("all tiles are done")


def parts_of(pair, options, most, model=None):
    return split_of(pair.before, pair.after, (model or InBatches()).card, options, most)


def do(pair, model, options, parts):
    for rows in parts:
        find_part(pair.before, pair.after, model, options, rows)


def joined(pair, model, options):
    return join_parts(pair.before, pair.after, model, options)


def same(report, other):
    assert report.changes == other.changes
    assert without_times(report.run) == without_times(other.run)


def counts_of(report):
    tiling = report.run["tiling"]
    return {name: tiling[name] for name in ("tiles", "blank", "identical", "ruled_out")}


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return make_pair(tmp_path_factory.mktemp("pair"), SPOTS, size=SIZE)


@pytest.fixture(scope="module")
def whole(pair):
    """The report of the pair in one run, by no options."""
    return captioned(pair, InBatches())


@pytest.mark.slow
@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"batch_size": 5, "group_distance": 12.0, "threshold": 0.8},
        {"bounds": BOX, "group_distance": 30.0, "overlap": 31},
        {"overlap": 0, "regularize": True, "memory": 900_000_000},
    ],
)
def test_parts_in_any_order_give_the_report_of_the_whole(pair, whole, tmp_path, asked, monkeypatch):
    # What this process holds, after many other tests, is not what a worker does.
    monkeypatch.setattr(memory, "resident_bytes", lambda: 0)
    if asked:
        whole = captioned(pair, InBatches(), **asked)
    options = SceneOptions(keep_maps=tmp_path / "maps", **asked)
    tiles = counts_of(whole)["tiles"]
    parts = parts_of(pair, options, tiles // 5)
    assert len(parts) >= 4 and len(whole.changes) > 2
    for rows in random.Random(3).sample(parts, len(parts)):
        model = InBatches()
        do(pair, model, options, [rows])
        assert 0 < model.seen < tiles / 2
    report = joined(pair, Idle(), options)
    same(report, whole)
    report.write(tmp_path / "report.geojson")
    assert not (tmp_path / "maps").exists()


@pytest.mark.slow
def test_parts_that_are_missing_are_done_in_the_end_and_a_part_goes_on_where_it_was(pair, whole, tmp_path):
    options = SceneOptions(keep_maps=tmp_path / "maps")
    parts = parts_of(pair, options, 15)
    do(pair, InBatches(), options, [*parts[1:3], *parts[5:6]])
    about = json.loads((tmp_path / "maps" / "maps.json").read_text())
    about["rows"][1]["checksums"][0] += 1
    del about["rows"][-1]
    (tmp_path / "maps" / "maps.json").write_text(json.dumps(about))
    model = InBatches()
    do(pair, model, options, parts[1:2])
    # Two rows of tiles see the rows that were lost, and batches are whole.
    assert 10 <= model.seen <= 10 + 2 * 15
    model = InBatches()
    same(joined(pair, model, options), whole)
    assert 30 < model.seen < whole.run["tiling"]["tiles"]


@pytest.mark.slow
def test_a_part_keeps_the_rows_that_others_wrote_meanwhile(pair, tmp_path):
    options, lock = SceneOptions(keep_maps=tmp_path / "maps"), Lock()
    first, *others = parts_of(pair, options, 30)

    class Meanwhile(InBatches):
        """Others do their parts while this one does its first tiles."""

        def predict_change(self, before, after):
            with lock:
                while others:
                    do(pair, InBatches(), options, [others.pop()])
            return super().predict_change(before, after)

    do(pair, Meanwhile(), options, [first])
    joined(pair, Idle(), options)


@pytest.mark.slow
def test_tiles_without_data_are_counted_once(tmp_path):
    pair = make_pair(tmp_path, [(300, 20, 30, 30, 220)], size=(500, 210), nodata_rows=200)
    whole = captioned(pair, InBatches())
    options = SceneOptions(keep_maps=tmp_path / "maps")
    parts = parts_of(pair, options, 12)
    assert len(parts) > 3
    do(pair, InBatches(), options, parts)
    assert counts_of(whole)["blank"] > 8
    same(joined(pair, Idle(), options), whole)


@pytest.mark.slow
def test_a_box_without_data_is_refused_as_a_whole(tmp_path):
    pair = make_pair(tmp_path, [(440, 20, 30, 30, 220)], size=(500, 110), nodata_rows=420)
    options = SceneOptions(keep_maps=tmp_path / "maps", bounds=(14.99, 50.5508, 15.01, 50.56))
    do(pair, Idle(), options, parts_of(pair, options, 2))
    with pytest.raises(NothingValid):
        joined(pair, Idle(), options)


@given(
    height=st.integers(1, 3000),
    width=st.integers(1, 900),
    overlap=st.integers(0, 31),
    anchor=st.integers(0, 100),
    top=st.integers(0, 2999),
    rows=st.integers(1, 3000),
    most=st.integers(1, 400),
)
def test_parts_lie_under_each_other_and_hold_as_much_as_is_allowed(
    height, width, overlap, anchor, top, rows, most
):
    area = Window(0, min(top, height - 1), width, rows)
    grid = TileGrid(width, height, 64, overlap, anchor=(anchor, anchor), area=area)
    edges, columns = row_edges(grid), grid.shape[1]
    assert edges[0] == grid.area.row_off and edges[-1] == grid.area.row_end
    assert all(above < below for above, below in pairwise(edges))
    parts = plan_parts(grid, most)
    assert [top for top, _ in parts] == [edges[0], *(end for _, end in parts[:-1])]
    assert parts[-1][1] == edges[-1] and {row for part in parts for row in part} <= {*edges}
    sizes = [edges.index(end) - edges.index(top) for top, end in parts]
    assert max(sizes) - min(sizes) <= 1
    assert len(parts) == 1 or min(sizes) >= 2
    # Cut into one more, some would have a single row.
    assert max(sizes) * columns <= most or len(parts) >= sum(sizes) // 2


@pytest.mark.parametrize(
    "asked", [{}, {"bounds": BOX}, {"gsd": 1.3}, {"gsd": 0.8, "bounds": BOX, "group_distance": 11.0}]
)
def test_the_tiles_are_known_from_the_headers(pair, asked):
    options = SceneOptions(**asked)
    planned, _ = planned_tiles(pair.before, pair.after, InBatches().card, options)
    with open_pair(pair.before, pair.after, InBatches().card, options) as opened:
        grid = opened.grid
    assert [*planned] == [*grid] and planned.area == grid.area
    assert parts_of(pair, options, len(grid)) is None
    assert parts_of(pair, options, len(grid) - 1) == plan_parts(grid, len(grid) - 1)


@pytest.mark.slow
def test_rows_that_are_no_part_are_refused(pair, tmp_path):
    options = SceneOptions(keep_maps=tmp_path / "maps")
    for rows in ((0, 1), (3, 900), (976, 0)):
        with pytest.raises(OptionInvalid) as caught:
            do(pair, InBatches(), options, [rows])
        assert caught.value.exit_code == 2 and "\n" not in str(caught.value)


@pytest.mark.slow
def test_two_processes_at_the_same_time_killed_half_way_and_repeated(pair, whole, tmp_path):
    options = SceneOptions(keep_maps=tmp_path / "maps")
    first, *others = parts_of(pair, options, 18)
    # One part is done by both at the same time, as when a worker is thought lost but is not.
    works = [[first, *others[:3]], [first, *others[3:]]]

    def finished():
        try:
            return len(json.loads((options.keep_maps / "maps.json").read_text())["rows"])
        except OSError:
            return 0

    with commands(tmp_path) as shell:

        def start(seconds, parts):
            return shell.start(do_parts, seconds, pair.before, pair.after, options.keep_maps, parts)

        workers = [start(0.08, parts) for parts in works]
        for rows, worker in zip((4, 7), workers, strict=True):
            wait_until(lambda: finished() >= rows or not worker.is_alive(), "rows")  # noqa: B023
            kill(worker)
            assert worker.exitcode == -signal.SIGKILL, "it ended before it was killed"
        assert 7 <= finished() < 21
        workers = [start(0, parts) for parts in reversed(works)]
        for worker in workers:
            worker.join(DEADLINE)
        assert [worker.exitcode for worker in workers] == [0, 0]
    assert finished() == 21
    report = joined(pair, Idle(), options)
    same(report, whole)
    for draft in options.keep_maps.glob(f"{DRAFTS}*"):  # as if a minute had passed, see clear_dead
        os.utime(draft, (0, 0))
    report.write(tmp_path / "report.geojson")
    assert not options.keep_maps.exists()


@pytest.mark.slow
def test_a_real_network_gives_the_same_bits(tmp_path):
    houses = [(row, col, 24, 36, 160) for row in range(60, 2700, 130) for col in range(40, 400, 120)]
    pair = make_pair(tmp_path, houses, size=(2800, 460))
    captioner = Captioner.load("rscc-small", device="cpu")
    asked = {"threshold": 0.3, "batch_size": 8}
    whole = captioned(pair, captioner, **asked)
    assert len(whole.changes) > 5
    options = SceneOptions(keep_maps=tmp_path / "maps", **asked)
    parts = parts_of(pair, options, 3, captioner)
    assert len(parts) >= 3
    do(pair, captioner, options, parts[::-1])
    same(joined(pair, captioner, options), whole)

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import rasterio
import torch
from captioned import captioned
from fakes import BrightnessCaptioner
from scene_pairs import make_pair
from shapely.geometry import box

from tiling import ScenePair, Window
from workflows import SceneOptions
from workflows.errors import MemoryExhausted
from workflows.scene.carrier import OpenRun
from workflows.scene.detection import find_regions, touching
from workflows.scene.memory import Batches
from workflows.scene.opening import search_area, tile_grid

# One in the middle, one that lies across the left edge of FOCUS, one far off.
SPOTS = [(90, 230, 30, 40, 240), (60, 170, 20, 60, 220), (20, 20, 30, 30, 250)]
FOCUS = Window(200, 40, 120, 100)


SIZE = (300, 420)


@pytest.fixture
def made(tmp_path):
    return make_pair(tmp_path, SPOTS, size=SIZE)


@pytest.fixture
def pair(made):
    with ScenePair.open(made.before, made.after) as pair:
        yield pair


def searched(made, model):
    """The tiles of a pair, and what a model finds in them."""
    with ScenePair.open(made.before, made.after) as pair:
        run = OpenRun(pair, model, SceneOptions())
        return run.grid, find_regions(run)


def regions_in_focus(run):
    regions = find_regions(run).regions
    touched = touching([region.pixel_polygon for region in regions], run.pair.focus)
    return [region for region, is_touched in zip(regions, touched, strict=True) if is_touched]


class Forgetful(BrightnessCaptioner):
    """Runs out of memory when it is shown more than ``most`` tiles at once."""

    def __init__(self, most, error, **values):
        super().__init__(**values)
        self.most, self.error = most, error

    def predict_change(self, before, after):
        if len(before) > self.most:
            raise self.error
        return super().predict_change(before, after)

    def caption(self, before, after, **options):
        if len(before) > self.most - 2:
            raise self.error
        return super().caption(before, after, **options)


def test_the_area_is_what_was_asked_for_and_a_tile_around_it(pair):
    card, options = BrightnessCaptioner().card, SceneOptions(group_distance=10.0)
    pair.focus = FOCUS
    assert search_area(pair, card, SceneOptions(group_distance=0)) == Window(136, 0, 248, 204)
    assert search_area(pair, card, SceneOptions()) == Window(80, 0, 340, 260)
    assert search_area(pair, card, options) == Window(116, 0, 288, 224)
    pair.focus = Window(0, 0, 420, 300)
    assert search_area(pair, card, options) == pair.focus


def test_changes_that_touch_the_box_are_whole_and_others_are_left_out(pair):
    model, options = BrightnessCaptioner(), SceneOptions(simplify=0)
    pair.focus = FOCUS
    run = OpenRun(pair, model, options)
    first, second = (region.pixel_polygon for region in regions_in_focus(run))
    assert first.equals(box(170, 60, 230, 80)) and second.equals(box(230, 90, 270, 120))
    assert model.seen == len(run.grid) < len(tile_grid(pair, model.card, options))


def test_a_box_gives_what_the_whole_scene_gives_there(pair):
    options = SceneOptions()
    everything = find_regions(OpenRun(pair, BrightnessCaptioner(), options)).regions
    for focus in (FOCUS, Window(0, 0, 60, 60), Window(229, 0, 1, 61), Window(419, 299, 1, 1)):
        pair.focus = focus
        edges = box(focus.col_off, focus.row_off, focus.col_end, focus.row_end)
        expected = [region for region in everything if region.pixel_polygon.intersects(edges)]
        assert regions_in_focus(OpenRun(pair, BrightnessCaptioner(), options)) == expected


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory."),
        RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory"),
        MemoryError(),
    ],
)
def test_a_batch_too_large_is_halved_for_good(made, error):
    calm, model = captioned(made), Forgetful(4, error)
    report = captioned(made, model)
    assert report.changes == calm.changes
    assert max(shape[0] for shape in model.shapes) == 4
    # Three crops are too many at once, half of them is one.
    assert max(shape[0] for shape in model.crops) == 1
    [line] = [line for line in report.run["warnings"] if "memory ran out" in line]
    assert "with 16 tiles at once; went on with 1" in line
    assert not any("memory" in line for line in calm.run["warnings"])


def test_one_tile_too_much_ends_the_run_in_one_line(made):
    with pytest.raises(MemoryExhausted, match="one tile at a time") as caught:
        captioned(made, Forgetful(0, MemoryError("none left")))
    assert "\n" not in str(caught.value) and caught.value.exit_code == 1


def test_other_errors_are_not_taken_for_a_lack_of_memory():
    sizes = Batches(4)

    def fail(part):
        raise RuntimeError("shapes differ")

    with pytest.raises(RuntimeError, match="shapes differ"):
        list(sizes.run([1, 2, 3], fail))
    assert sizes.size == 4


def test_parts_come_in_order_and_none_is_lost():
    sizes = Batches(8)

    def call(part):
        if len(part) > 3:
            raise MemoryError
        return [value * 10 for value in part]

    parts = list(sizes.run(list(range(11)), call))
    assert [value for part, _ in parts for value in part] == list(range(11))
    assert [value for _, result in parts for value in result] == [10 * value for value in range(11)]
    assert sizes.size == 2


def test_tiles_in_which_the_dates_are_the_same_are_not_shown_and_unchanged(tmp_path):
    made = make_pair(tmp_path, [(200, 300, 40, 40, 240)], size=SIZE)
    with rasterio.open(made.before) as old, rasterio.open(made.after, "r+") as new:
        same = Window(0, 0, 420, 150)
        new.write(old.read(window=((0, 150), (0, 420))), window=((0, 150), (0, 420)))
    model = BrightnessCaptioner()
    grid, (regions, counts) = searched(made, model)
    inside = [tile for tile in grid if tile.window.intersection(same) == tile.window]
    assert counts["identical"] == len(inside) > 0
    assert model.seen == len(grid) - len(inside)
    assert len(regions) == 1


@pytest.mark.parametrize(("probability", "changed"), [(0.5, True), (0.49999997, False)])
def test_a_tile_at_the_threshold_counts_as_changed(tmp_path, probability, changed):
    class Sure(BrightnessCaptioner):
        def predict_change(self, before, after):
            found = super().predict_change(before, after)
            return replace(found, change_probability=np.full_like(found.change_probability, probability))

    model = Sure()
    grid, (_, counts) = searched(make_pair(tmp_path, SPOTS), model)
    assert model.card.threshold == 0.5 and counts["changed"] == (len(grid) if changed else 0)

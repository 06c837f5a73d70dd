from __future__ import annotations

from contextlib import contextmanager
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


@contextmanager
def opened(folder, focus=None, size=(300, 420)):
    made = make_pair(folder, SPOTS, size=size)
    with ScenePair.open(made.before, made.after) as pair:
        if focus:
            pair.focus = focus
        yield pair


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


def test_the_area_is_what_was_asked_for_and_a_tile_around_it(tmp_path):
    model, options = BrightnessCaptioner(), SceneOptions(group_distance=10.0)
    with opened(tmp_path, FOCUS) as pair:
        assert search_area(pair, model.card, SceneOptions(group_distance=0)) == Window(136, 0, 248, 204)
        assert search_area(pair, model.card, SceneOptions()) == Window(80, 0, 340, 260)
        assert search_area(pair, model.card, options) == Window(116, 0, 288, 224)
        pair.focus = Window(0, 0, 420, 300)
        assert search_area(pair, model.card, options) == pair.focus


def test_changes_that_touch_the_box_are_whole_and_others_are_left_out(tmp_path):
    model, options = BrightnessCaptioner(), SceneOptions(simplify=0)
    with opened(tmp_path, FOCUS) as pair:
        run = OpenRun(pair, model, options)
        regions = regions_in_focus(run)
        looked_at, everything = len(run.grid), len(tile_grid(pair, model.card, options))
    outlines = [region.pixel_polygon for region in regions]
    assert [outline.equals(box(170, 60, 230, 80)) for outline in outlines] == [True, False]
    assert outlines[1].equals(box(230, 90, 270, 120))
    shown = model.seen
    assert shown == looked_at < everything


def test_a_box_gives_what_the_whole_scene_gives_there(tmp_path):
    options = SceneOptions()
    with opened(tmp_path) as pair:
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
def test_a_batch_too_large_is_halved_for_good(tmp_path, error):
    made = make_pair(tmp_path, SPOTS, size=(300, 420))
    calm, model = captioned(made), Forgetful(4, error)
    report = captioned(made, model)
    assert report.changes == calm.changes
    assert max(shape[0] for shape in model.shapes) == 4
    # Three crops are too many at once, half of them is one.
    assert max(shape[0] for shape in model.crops) == 1
    [line] = [line for line in report.run["warnings"] if "memory ran out" in line]
    assert "with 16 tiles at once; went on with 1" in line
    assert not any("memory" in line for line in calm.run["warnings"])


def test_one_tile_too_much_ends_the_run_in_one_line(tmp_path):
    made = make_pair(tmp_path, SPOTS, size=(300, 420))
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


def test_blank_tiles_are_not_shown(tmp_path):
    made = make_pair(tmp_path, SPOTS, size=(300, 420), nodata_rows=150)
    model, options = BrightnessCaptioner(), SceneOptions()
    with ScenePair.open(made.before, made.after) as pair:
        run = OpenRun(pair, model, options)
        grid, counts = run.grid, find_regions(run).counts
    shown = model.seen
    assert 0 < counts["blank"] == len(grid) - shown
    assert counts["changed"] == 0 or counts["changed"] <= shown
    assert np.sum([shape[0] > 0 for shape in model.shapes]) == len(model.shapes)


def test_tiles_in_which_the_dates_are_the_same_are_not_shown_and_unchanged(tmp_path):
    made = make_pair(tmp_path, [(200, 300, 40, 40, 240)], size=(300, 420))
    with rasterio.open(made.before) as old, rasterio.open(made.after, "r+") as new:
        same = Window(0, 0, 420, 150)
        new.write(old.read(window=((0, 150), (0, 420))), window=((0, 150), (0, 420)))
    model = BrightnessCaptioner()
    with ScenePair.open(made.before, made.after) as pair:
        run = OpenRun(pair, model, SceneOptions())
        detection = find_regions(run)
        inside = [tile for tile in run.grid if tile.window.intersection(same) == tile.window]
    assert detection.counts["identical"] == len(inside) > 0
    assert model.seen == len(run.grid) - len(inside)
    assert len(detection.regions) == 1


@pytest.mark.parametrize(("probability", "changed"), [(0.5, True), (0.49999997, False)])
def test_a_tile_at_the_threshold_counts_as_changed(tmp_path, probability, changed):
    class Sure(BrightnessCaptioner):
        def predict_change(self, before, after):
            found = super().predict_change(before, after)
            return replace(found, change_probability=np.full_like(found.change_probability, probability))

    made, model, options = make_pair(tmp_path, SPOTS), Sure(), SceneOptions()
    with ScenePair.open(made.before, made.after) as pair:
        run = OpenRun(pair, model, options)
        grid, counts = run.grid, find_regions(run).counts
    assert model.card.threshold == 0.5 and counts["changed"] == (len(grid) if changed else 0)

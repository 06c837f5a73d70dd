from __future__ import annotations

from contextlib import contextmanager

import pytest
import rasterio
import torch
from captioners import BrightnessCaptioner, captioned
from scene_pairs import make_pair

from tiling import Window
from workflows import SceneOptions
from workflows.errors import MemoryExhausted
from workflows.scene.opening import open_pair
from workflows.scene.run import detected

# One in the middle, one that lies across the left edge of FOCUS, one far off.
SPOTS = [(90, 230, 30, 40, 240), (60, 170, 20, 60, 220), (20, 20, 30, 30, 250)]
FOCUS = Window(200, 40, 120, 100)


SIZE = (300, 420)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make_pair(tmp_path_factory.mktemp("made"), SPOTS, size=SIZE)


@pytest.fixture(scope="module")
def calm(made):
    return captioned(made)


@contextmanager
def found(made, model=None, **options):
    """The regions of a pair, with its maps and the tiles."""
    options, model = SceneOptions(**options), model or BrightnessCaptioner()
    with (
        open_pair(made.before, made.after, model.card, options) as opened,
        detected(opened, model) as (maps, regions, _),
    ):
        yield regions, maps, opened.grid


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


@pytest.mark.slow
def test_a_box_gives_what_the_whole_scene_gives_there(made):
    whole = captioned(made, group_distance=0)
    for change in whole.changes:
        model = BrightnessCaptioner()
        west, south, east, north = change.geometry.bounds
        inner = (west, (south + north) / 2, (west + east) / 2, north)
        within = captioned(made, model, group_distance=0, bounds=inner)
        assert [one.geometry for one in within.changes] == [change.geometry]
        assert within.changes[0].caption == change.caption
        assert model.seen < whole.run["tiling"]["tiles"]


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory."),
        RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory"),
        MemoryError(),
    ],
)
def test_a_batch_too_large_is_halved_for_good(made, calm, error):
    model = Forgetful(4, error)
    report = captioned(made, model)
    assert report.changes == calm.changes
    assert max(shape[0] for shape in model.shapes) == 4
    # Three crops are too many at once, half of them is one.
    assert max(shape[0] for shape in model.crops) == 1
    [line] = [line for line in report.run["warnings"] if "memory ran out" in line]
    assert "with 16 tiles at once; went on with 1" in line
    assert not any("memory" in line for line in calm.run["warnings"])


def test_one_tile_too_much_ends_the_run_in_one_line(made):
    with pytest.raises(MemoryExhausted) as caught:
        captioned(made, Forgetful(0, MemoryError("none left")))
    assert "\n" not in str(caught.value) and caught.value.exit_code == 1


def test_tiles_in_which_the_dates_are_the_same_are_not_shown_and_unchanged(tmp_path):
    made = make_pair(tmp_path, [(200, 300, 40, 40, 240)], size=SIZE)
    with rasterio.open(made.before) as old, rasterio.open(made.after, "r+") as new:
        same = Window(0, 0, 420, 150)
        new.write(old.read(window=((0, 150), (0, 420))), window=((0, 150), (0, 420)))
    model = BrightnessCaptioner()
    with found(made, model) as (regions, maps, grid):
        counts = maps.counts()
    inside = [tile for tile in grid if tile.window.intersection(same) == tile.window]
    assert counts["identical"] == len(inside) > 0
    assert model.seen == len(grid) - len(inside)
    assert len(regions) == 1

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiling import TileGrid, Window
from tiling.grid import lattice


@st.composite
def grids(draw):
    tile = draw(st.integers(1, 40))
    return TileGrid(
        draw(st.integers(1, 150)),
        draw(st.integers(1, 150)),
        tile=tile,
        overlap=draw(st.integers(0, tile - 1)),
    )


@given(grids())
def test_every_pixel_is_in_exactly_one_core_and_every_core_in_its_window(grid):
    count = np.zeros((grid.height, grid.width), int)
    scene = Window(0, 0, grid.width, grid.height)
    for tile in grid:
        assert tile.core and tile.core.intersection(scene) == tile.core
        assert tile.core.intersection(tile.window) == tile.core
        count[tile.core.slices(scene)] += 1
    assert (count == 1).all()


@given(grids())
def test_windows_are_whole_tiles_that_stick_out_only_of_a_small_scene(grid):
    for tile in grid:
        assert (tile.window.width, tile.window.height) == (grid.tile, grid.tile)
        assert tile.window.col_off >= 0 and tile.window.row_off >= 0
        assert tile.window.col_end <= max(grid.width, grid.tile)
        assert tile.window.row_end <= max(grid.height, grid.tile)


@given(grids())
def test_neighbours_share_at_least_the_overlap(grid):
    for axis in (grid.rows, grid.columns):
        gaps = np.diff(axis.starts)
        assert (gaps >= 1).all() and (grid.tile - gaps >= grid.overlap).all()


@given(grids())
def test_order_is_row_major_and_indices_lead_back(grid):
    tiles = list(grid)
    assert len(tiles) == len(grid) == grid.shape[0] * grid.shape[1]
    assert [tile.index for tile in tiles] == list(range(len(grid)))
    assert [(tile.row, tile.col) for tile in tiles] == sorted((tile.row, tile.col) for tile in tiles)
    assert tiles == [grid[index] for index in range(len(grid))]


@given(grids(), st.data())
def test_tile_of_finds_the_core(grid, data):
    row, col = data.draw(st.integers(0, grid.height - 1)), data.draw(st.integers(0, grid.width - 1))
    assert grid.tile_of(row, col).core.intersection(Window(col, row, 1, 1))


def test_rows_and_columns_are_not_swapped():
    grid = TileGrid(width=300, height=100, tile=64, overlap=16)
    assert grid.shape == (2, 6)
    assert grid[5].window == Window(236, 0, 64, 64)
    assert grid[6].window == Window(0, 36, 64, 64)


def test_a_scene_smaller_than_a_tile_is_one_tile():
    [tile] = TileGrid(5, 3, tile=64, overlap=16)
    assert tile.window == Window(0, 0, 64, 64)
    assert tile.core == Window(0, 0, 5, 3)


def test_a_scene_as_large_as_a_tile_is_one_tile():
    assert len(TileGrid(64, 64, tile=64, overlap=16)) == 1
    assert len(TileGrid(65, 64, tile=64, overlap=16)) == 2


@pytest.mark.parametrize("index", [-1, 2])
def test_there_is_no_tile_beyond_the_last(index):
    with pytest.raises(IndexError, match=str(index)):
        TileGrid(65, 64, tile=64, overlap=16)[index]


@pytest.mark.parametrize("pixel", [(-1, 0), (0, -1), (64, 0), (0, 65)])
def test_a_pixel_outside_has_no_tile(pixel):
    with pytest.raises(IndexError):
        TileGrid(65, 64, tile=64, overlap=16).tile_of(*pixel)


@pytest.mark.parametrize(
    ("width", "height", "tile", "overlap"),
    [(0, 5, 4, 1), (5, -1, 4, 1), (5, 5, 0, 0), (5, 5, 4, 4), (5, 5, 4, -1)],
)
def test_impossible_grids_are_refused(width, height, tile, overlap):
    with pytest.raises(ValueError):
        TileGrid(width, height, tile=tile, overlap=overlap)


@given(st.integers(1, 3000), st.integers(1, 3000))
def test_a_lattice_is_spread_from_corner_to_corner(width, height):
    windows = list(lattice(width, height))
    scene = Window(0, 0, width, height)
    assert 1 <= len(windows) <= 256 and all(
        window and window.intersection(scene) == window for window in windows
    )
    assert (windows[0].col_off, windows[0].row_off) == (0, 0)
    assert (windows[-1].col_end, windows[-1].row_end) == (width, height)
    if max(width, height) <= 64 * 16:
        seen = np.zeros((height, width), bool)
        for window in windows:
            seen[window.slices(scene)] = True
        assert seen.all()


def test_windows_apart_have_nothing_in_common():
    assert not Window(0, 0, 4, 4).intersection(Window(4, 0, 4, 4))
    assert Window(0, 0, 4, 4).intersection(Window(-2, 3, 4, 4)) == Window(0, 3, 2, 1)
    assert Window(1, 2, 3, 4).shifted(-5, 7) == Window(-4, 9, 3, 4)

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from rasters import grids

from tiling import TileGrid, Window
from tiling.grid import lattice


@given(grids())
def test_every_pixel_of_the_area_is_in_exactly_one_core_and_every_core_in_its_window(grid):
    count = np.zeros((grid.height, grid.width), int)
    scene = Window(0, 0, grid.width, grid.height)
    for tile in grid:
        assert tile.core.intersection(scene) == tile.core
        assert tile.core.intersection(tile.window) == tile.core
        count[tile.core.slices(scene)] += 1
    expected = np.zeros_like(count)
    expected[grid.area.slices(scene)] = 1
    assert (count == expected).all()


@given(grids())
def test_an_area_has_the_tiles_of_the_whole_that_see_it(grid):
    whole = TileGrid(grid.width, grid.height, grid.tile, grid.overlap, anchor=grid.anchor, least=grid.least)
    seeing = [tile for tile in whole if tile.window.intersection(grid.area)]
    assert [tile.window for tile in grid] == [tile.window for tile in seeing]
    for tile, same in zip(grid, seeing, strict=True):
        core = same.core.intersection(grid.area)
        assert tile.core == core if core else not tile.core


@given(grids())
def test_tiles_come_in_row_major_order_and_share_at_least_the_overlap(grid):
    for tile in grid:  # they stick out only of a small scene
        window = tile.window
        assert all(grid.least <= side <= grid.tile for side in (window.width, window.height))
        assert window.col_off >= 0 and window.row_off >= 0
        assert window.col_end <= grid.width or (window.col_off == 0 and grid.width < grid.tile)
        assert window.row_end <= grid.height or (window.row_off == 0 and grid.height < grid.tile)

    for axis in (grid.rows, grid.columns):
        starts, stops = np.array(axis.starts), np.array(axis.stops)
        assert (np.diff(starts) >= 1).all() and (np.diff(stops) >= 0).all()
        assert (stops[:-1] - starts[1:] >= grid.overlap).all()
        # Only the first and the last are smaller than a tile.
        assert (stops[1:-1] - starts[1:-1] == grid.tile).all()

    tiles = list(grid)
    assert len(tiles) == len(grid) == grid.shape[0] * grid.shape[1]
    assert [tile.index for tile in tiles] == list(range(len(grid)))
    assert [(tile.row, tile.col) for tile in tiles] == sorted((tile.row, tile.col) for tile in tiles)
    assert tiles == [grid[index] for index in range(len(grid))]


def test_tiles_at_the_edges_are_cut_to_what_no_other_sees_but_not_below_the_least():
    grid = TileGrid(1000, 400, tile=512, overlap=64, anchor=(100, 0), least=256)
    # The second begins at 348, where a column of the lattice is a multiple of 448; 412 is no multiple of 16.
    assert (grid.columns.starts, grid.columns.stops) == ((0, 348, 744), (416, 860, 1000))
    assert (grid.rows.starts, grid.rows.stops) == ((0,), (400,))
    by_more = TileGrid(1000, 400, tile=512, overlap=64, anchor=(100, 0), least=256, multiple=32)
    assert by_more.rows.stops == (416,) and by_more.columns == grid.columns
    narrow = TileGrid(1000, 100, tile=512, overlap=64, anchor=(440, 0), least=256)
    assert narrow.columns.starts[0] == 0 and narrow.columns.stops[0] == 256 and narrow.rows.stops == (256,)
    assert TileGrid(500, 500, 64, 16).columns == TileGrid(500, 500, 64, 16, least=64).columns


def test_rows_and_columns_are_not_swapped():
    grid = TileGrid(width=300, height=100, tile=64, overlap=16)
    assert grid.shape == (2, 6)
    assert grid[5].window == Window(236, 0, 64, 64)
    assert grid[6].window == Window(0, 36, 64, 64)


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


def test_a_window_grows_on_every_side():
    assert Window(3, 5, 10, 20).expanded(2) == Window(1, 3, 14, 24)

"""A small site in a large canvas is found by the blocks or the overviews of the file, not by its pixels."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import rasterio
from captioners import card
from rasterio.enums import Resampling
from rasterio.windows import Window as RasterWindow
from rasters import UTM, north_up, textured

from tiling import Window, describe, transformer
from tiling.data_blocks import common_data, data_windows
from workflows import SceneOptions
from workflows.scene.opening import planned_tiles, tiles_with_data

SIZE = 8448
SITE = Window(5000, 3000, 300, 200)


def canvas(path, *, sparse="TRUE", compress="deflate", value=0, overviews=False):
    options = {"width": SIZE, "height": SIZE, "count": 1, "dtype": "uint8", "crs": UTM, "nodata": 0}
    options |= {"tiled": True, "blockxsize": 256, "blockysize": 256, "SPARSE_OK": sparse, "zlevel": 1}
    with rasterio.open(path, "w", driver="GTiff", transform=north_up(), compress=compress, **options) as file:
        if value:
            for row in range(0, SIZE, 256):
                file.write(np.full((1, 256, SIZE), value, np.uint8), window=RasterWindow(0, row, SIZE, 256))
        box = RasterWindow(SITE.col_off, SITE.row_off, SITE.width, SITE.height)
        file.write(textured(SITE.height, SITE.width)[:1], window=box)
    if overviews:
        with rasterio.open(path, "r+") as file:
            file.build_overviews([8], Resampling.nearest)
    return describe(path)


def grid_of(info):
    return SimpleNamespace(crs=info.crs, transform=info.transform, width=SIZE, height=SIZE)


@pytest.mark.parametrize(
    ("options", "around"),
    [
        ({"sparse": "TRUE"}, 256),
        ({"sparse": "FALSE"}, 256),
        ({"sparse": "FALSE", "overviews": True, "compress": None}, 16),
    ],
    ids=["absent blocks", "blocks of nodata", "overviews"],
)
def test_the_data_of_a_canvas_is_found(tmp_path, options, around):
    info = canvas(tmp_path / "a.tif", **options)
    (found,) = data_windows(info, grid_of(info))
    assert found.intersection(SITE) == SITE
    assert found.width <= SITE.width + 2 * around + 4 and found.height <= SITE.height + 2 * around + 4


def test_blocks_of_one_value_that_is_data_are_no_canvas(tmp_path):
    info = canvas(tmp_path / "a.tif", sparse="FALSE", value=9)
    assert data_windows(info, grid_of(info)) == []
    assert common_data((info, info), grid_of(info)) == (Window(0, 0, SIZE, SIZE),)


def test_a_canvas_in_another_system_is_found_too(tmp_path):
    info = canvas(tmp_path / "a.tif")
    move = transformer(info.crs, "EPSG:32632").transform
    left, top = move(info.transform.c, info.transform.f)
    grid = SimpleNamespace(
        crs=rasterio.CRS.from_epsg(32632), transform=north_up(left, top + 300), width=SIZE, height=SIZE
    )
    (found,) = data_windows(info, grid)
    middle = SITE.col_off + SITE.width / 2, SITE.row_off + SITE.height / 2
    col, row = ~grid.transform * move(*(info.transform * middle))
    assert found.col_off < col < found.col_end and found.row_off < row < found.row_end
    assert found.width * found.height < 1000**2


def test_a_block_of_one_value_that_is_data_is_kept_beside_blocks_of_nodata(tmp_path):
    path = tmp_path / "a.tif"
    canvas(path, sparse="FALSE")
    with rasterio.open(path, "r+") as file:
        # As many bytes as those of a block of nodata.
        file.write(np.full((1, 256, 256), 120, np.uint8), window=RasterWindow(256, 7680, 256, 256))
        sizes = {file.get_tag_item(f"BLOCK_SIZE_{block}", "TIFF", bidx=1) for block in ("0_0", "1_30")}
    assert len(sizes) == 1
    info = describe(path)
    assert any(one.intersection(Window(256, 7680, 256, 256)) for one in common_data([info], grid_of(info)))


def test_sites_far_apart_are_found_one_by_one_and_nothing_between_is_looked_at(tmp_path):
    path = tmp_path / "a_2019.tif"
    canvas(path)
    with rasterio.open(path, "r+") as file:
        file.write(textured(200, 300)[:1], window=RasterWindow(300, 8000, 300, 200))
    grid = grid_of(describe(path))
    windows = common_data([describe(path)] * 2, grid)
    assert len(windows) == 2 and max(one.width for one in windows) < 1000
    planned, _ = planned_tiles(path, path, card(), SceneOptions())
    seen = tiles_with_data(planned, windows)
    assert 2 <= len(seen) < len(planned) / 10


def test_ground_in_blocks_as_small_as_those_of_nodata_is_told_by_the_mask(tmp_path):
    path = tmp_path / "a.tif"
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True), rasterio.open(
        path, "w", driver="GTiff", transform=north_up(), crs=UTM, width=SIZE, height=SIZE, count=1,
        dtype="uint8", compress="deflate", zlevel=1, tiled=True,
        blockxsize=256, blockysize=256,
    ) as file:  # fmt: skip
        for row in range(0, SIZE, 256):
            window = RasterWindow(0, row, SIZE, 256)
            file.write(np.full((1, 256, SIZE), 9, np.uint8), window=window)
            file.write_mask(np.full((256, SIZE), row < 256), window=window)
        site = RasterWindow(SITE.col_off, SITE.row_off, SITE.width, SITE.height)
        file.write(textured(SITE.height, SITE.width)[:1], window=site)
        file.write_mask(np.ones((SITE.height, SITE.width), bool), window=site)
    info = describe(path)
    assert any(one.intersection(Window(0, 0, 9, 9)) for one in common_data([info], grid_of(info))), (
        "the plain ground above"
    )

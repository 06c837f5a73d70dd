import numpy as np
import pytest
import rasterio
from rasterio.enums import ColorInterp
from rasterio.shutil import copy
from rasters import textured, write_scene

from tiling import describe

IMAGE = textured(40, 60)


def test_what_a_plain_file_says_of_its_bands(tmp_path):
    info = describe(write_scene(tmp_path / "a.tif", IMAGE))
    assert info.descriptions == (None, None, None) and info.palette is None
    assert info.scales == (1.0, 1.0, 1.0) and info.offsets == (0.0, 0.0, 0.0)


def test_names_scales_and_offsets_of_the_bands(tmp_path):
    said = {"names": ("B04", "B03", None), "scales": (1e-4, 1e-4, 2e-4), "offsets": (0.0, 0.0, -0.1)}
    info = describe(write_scene(tmp_path / "a.tif", IMAGE.astype("uint16"), **said))
    assert (info.descriptions, info.scales, info.offsets) == tuple(said.values())


@pytest.mark.parametrize("driver", ["GTiff", "PNG"])
def test_the_colour_table_of_a_paletted_image(tmp_path, driver):
    path = tmp_path / ("a.tif" if driver == "GTiff" else "a.png")
    palette = {value: (value, 255 - value, 7, 255) for value in range(256)}
    write_scene(tmp_path / "a.tif", IMAGE[:1], palette=palette)
    if driver == "PNG":
        copy(tmp_path / "a.tif", path, driver="PNG", WORLDFILE="YES")
    info = describe(path)
    assert info.colors == ("palette",) and len(info.palette) == 256
    assert info.palette[0] == (0, 255, 7, 255) and info.palette[200] == (200, 55, 7, 255)
    assert str(info.palette[200]) not in repr(info), "a table would drown the rest"


def test_a_paletted_image_may_have_an_alpha_band(tmp_path):
    palette = {3: (1, 2, 3, 255)}
    path = write_scene(tmp_path / "a.tif", IMAGE[:1], alpha=np.full((40, 60), 255), palette=palette)
    with rasterio.open(path) as file:
        assert file.colorinterp == (ColorInterp.palette, ColorInterp.alpha)
    assert describe(path).palette[3] == (1, 2, 3, 255)


@pytest.mark.parametrize("count", [1, 2, 4, 13])
@pytest.mark.parametrize(
    "dtype", ["uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "float64"]
)
def test_any_number_of_bands_of_any_type(tmp_path, count, dtype):
    image = textured(16, 16, bands=count, dtype=dtype)
    info = describe(write_scene(tmp_path / "a.tif", image, colors=["undefined"] * count))
    assert (info.count, info.dtype, info.dtypes) == (count, dtype, (dtype,) * count)
    assert len(info.colors) == len(info.descriptions) == len(info.scales) == len(info.offsets) == count

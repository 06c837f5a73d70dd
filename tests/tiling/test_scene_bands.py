import numpy as np
import pytest
from rasterio.shutil import copy
from rasters import textured, write_scene

from tiling import ScenePair, describe

IMAGE = textured(40, 60)


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


def test_near_infrared_that_is_called_alpha_and_has_no_name_is_said(tmp_path):
    picture, opaque = textured(64, 80, seed=5)[0], np.full((64, 80), 255, np.uint8)
    for alpha, names, said in (
        (picture, None, 1),
        (opaque, None, 0),
        (picture, ["red", "green", "blue", "nir"], 0),
    ):
        path = write_scene(tmp_path / "scene.tif", textured(64, 80), alpha=alpha, names=names)
        with ScenePair.open(path, path) as pair:
            assert sum("--band-names red,green,blue,nir" in note for note in pair.notes) == said

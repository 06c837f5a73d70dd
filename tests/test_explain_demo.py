"""The pictures of the docs: one per model, small, of a place in the generated scene that changed."""

from __future__ import annotations

import json
import sys

import explain_demo
import numpy as np
import pytest
import rasterio
from make_demo_scene import make_scene
from PIL import Image
from rasterio.warp import transform

MOST_BYTES = 250_000


def test_the_place_lies_where_houses_and_a_road_are_new(tmp_path):
    scene = make_scene(tmp_path, seed=explain_demo.SEED)
    lon, lat = map(float, explain_demo.PLACE.split(","))
    with rasterio.open(scene.truth_raster) as file:
        (x,), (y,) = transform("OGC:CRS84", file.crs, [lon], [lat])
        row, col = file.index(x, y)
        around = file.read(1)[row - 128 : row + 128, col - 128 : col + 128]
    assert around.shape == (256, 256)
    assert {1, 2} <= set(np.unique(around))


@pytest.mark.slow
def test_every_model_gets_a_picture_called_after_its_paper(tmp_path, repository, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(repository))
    monkeypatch.setattr(sys, "argv", ["explain_demo.py", "rscc-base", "-o", "pictures", "--scene", "scene"])
    assert explain_demo.main() == 0
    (picture,) = (tmp_path / "pictures").iterdir()
    card = json.loads((repository / "rscc/folders/rscc-base/model.json").read_text(encoding="utf-8"))["card"]
    assert picture.name == f"explain_{card['paper']}.png"
    assert picture.stat().st_size < MOST_BYTES


def test_a_model_that_is_not_there_ends_the_work(tmp_path, monkeypatch):
    from rscc.errors import ModelNotFound

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["explain_demo.py", "nobody"])
    with pytest.raises(ModelNotFound):
        explain_demo.main()


def test_the_pictures_of_the_docs_are_small(repository):
    pictures = sorted((repository / "docs" / "images").glob("explain_*"))
    assert pictures
    for path in pictures:
        assert path.stat().st_size < MOST_BYTES, path.name
        with Image.open(path) as picture:
            assert picture.width < 1200
        assert f"images/{path.name}" in (repository / "docs" / "explain.md").read_text(encoding="utf-8")

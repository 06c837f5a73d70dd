"""The examples on the generated scene, as a user runs them: the demo, and the pictures of the docs."""

import json
import subprocess
import sys

import draw_page
import explain_demo
import numpy as np
import pytest
import rasterio
from demo import overlap_with_truth
from PIL import Image
from rasterio.features import rasterize
from rasterio.warp import transform, transform_geom

from rscc.errors import ModelNotFound

MOST_BYTES = 250_000


@pytest.fixture(scope="module")
def demo(repository, tmp_path_factory):
    """The folder that the demo wrote into, and what it printed."""
    folder = tmp_path_factory.mktemp("demo")
    done = subprocess.run(
        [sys.executable, "examples/demo.py", str(folder), "--seed", str(explain_demo.SEED)],
        cwd=repository,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


@pytest.mark.slow
def test_the_demo_finds_and_captions_the_new_estate(demo):
    folder, printed = demo
    path = folder / "report.geojson"
    assert str(path) in printed
    report = json.loads(path.read_text(encoding="utf-8"))
    with rasterio.open(folder / "truth.tif") as source:
        changed = source.read(1) > 0
        captioned = [
            transform_geom("OGC:CRS84", source.crs, feature["geometry"])
            for feature in report["features"]
            if feature["properties"]["caption"].strip()
        ]
        regions = [rasterize([one], changed.shape, transform=source.transform) for one in captioned]
    assert any((region.astype(bool) & changed).any() for region in regions)
    assert overlap_with_truth(report, folder / "truth.tif") >= 0.5


@pytest.mark.slow
def test_the_place_that_is_explained_lies_where_houses_and_a_road_are_new(demo):
    lon, lat = map(float, explain_demo.PLACE.split(","))
    with rasterio.open(demo[0] / "truth.tif") as file:
        (x,), (y,) = transform("OGC:CRS84", file.crs, [lon], [lat])
        row, col = file.index(x, y)
        around = file.read(1)[row - 128 : row + 128, col - 128 : col + 128]
    assert around.shape == (256, 256)
    assert {1, 2} <= set(np.unique(around))


@pytest.mark.slow
def test_every_model_gets_a_picture_called_after_its_paper(demo, tmp_path, repository, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(repository))
    monkeypatch.setattr(explain_demo, "make_scene", lambda folder, seed: None)  # the demo has rendered it
    words = ["explain_demo.py", "rscc-base", "-o", str(tmp_path), "--scene", str(demo[0])]
    monkeypatch.setattr(sys, "argv", words)
    assert explain_demo.main() == 0
    monkeypatch.setattr(sys, "argv", [words[0], "nobody", *words[2:]])
    with pytest.raises(ModelNotFound):
        explain_demo.main()
    (picture,) = tmp_path.iterdir()
    card = json.loads((repository / "rscc/folders/rscc-base/model.json").read_text(encoding="utf-8"))["card"]
    assert picture.name == f"explain_{card['paper']}.png"
    assert picture.stat().st_size < MOST_BYTES


def test_the_pictures_of_the_docs_are_small(repository):
    pictures = sorted((repository / "docs" / "images").glob("explain_*"))
    assert pictures
    for path in pictures:
        assert path.stat().st_size < MOST_BYTES, path.name
        with Image.open(path) as picture:
            assert picture.width < 1200
        assert f"images/{path.name}" in (repository / "docs" / "explain.md").read_text(encoding="utf-8")


def test_the_pictures_of_the_page_are_small_and_made_by_the_script(repository):
    pictures = sorted((repository / "docs" / "images").glob("page*"))
    assert [path.name for path in pictures] == sorted(shot.name for shot in draw_page.SHOTS)
    for path in pictures:
        assert path.stat().st_size < 300_000, path.name
        assert f"images/{path.name}" in (repository / "docs" / "page.md").read_text(encoding="utf-8")

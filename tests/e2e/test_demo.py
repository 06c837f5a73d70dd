"""The demo on the generated scene, as a user runs it, and the pictures of the docs."""

import json
import subprocess
import sys

import pytest
import rasterio
from demo import overlap_with_truth
from rasterio.features import rasterize
from rasterio.warp import transform_geom


@pytest.fixture(scope="module")
def demo(repository, tmp_path_factory):
    """The folder that the demo wrote, and what it printed."""
    folder = tmp_path_factory.mktemp("demo")
    words = [sys.executable, "examples/demo.py", str(folder)]
    done = subprocess.run(words, cwd=repository, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


@pytest.mark.slow
def test_the_demo_finds_and_describes_the_new_estate(demo):
    folder, printed = demo
    path = folder / "report.geojson"
    assert str(path) in printed
    report = json.loads(path.read_text(encoding="utf-8"))
    with rasterio.open(folder / "truth.tif") as source:
        changed = source.read(1) > 0
        outlines = [
            transform_geom("OGC:CRS84", source.crs, feature["geometry"])
            for feature in report["features"]
            if feature["properties"]["caption_confident"]
        ]
        regions = [rasterize([one], changed.shape, transform=source.transform) for one in outlines]
    assert any((region.astype(bool) & changed).any() for region in regions)
    assert overlap_with_truth(report, folder / "truth.tif") >= 0.5

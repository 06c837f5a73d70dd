import json
import subprocess
import sys

import pytest
import rasterio
from demo import overlap_with_truth
from rasterio.features import rasterize
from rasterio.warp import transform_geom


@pytest.mark.slow
def test_the_demo_finds_and_captions_the_new_estate(repository, tmp_path):
    done = subprocess.run(
        [sys.executable, str(repository / "examples" / "demo.py"), str(tmp_path / "demo")],
        cwd=repository,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    path = tmp_path / "demo" / "report.geojson"
    assert str(path) in done.stdout
    report = json.loads(path.read_text(encoding="utf-8"))
    truth_raster = tmp_path / "demo" / "truth.tif"

    captioned = [feature for feature in report["features"] if feature["properties"]["caption"].strip()]
    assert any(_touches_truth(feature, truth_raster) for feature in captioned)
    assert overlap_with_truth(report, truth_raster) >= 0.5


def _touches_truth(feature, truth_raster):
    with rasterio.open(truth_raster) as source:
        truth = source.read(1) > 0
        geometry = transform_geom("OGC:CRS84", source.crs, feature["geometry"])
        found = rasterize([geometry], out_shape=truth.shape, transform=source.transform).astype(bool)
    return (found & truth).any()

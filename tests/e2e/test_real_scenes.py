"""The shipped model on real scenes, through the command, as a user would run it."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
import rasterio.warp
from rasterio.features import rasterize
from report_checks import load_valid
from shapely.geometry import box, shape

pytestmark = [pytest.mark.real, pytest.mark.slow]

MEMORY_BOUND = 2.5e9
PLACES = ("levir_test_1", "levir_test_2", "joplin_tornado")
# The command's own process is measured, without the test's: its peak in bytes goes to the file named first.
MEASURED = """
import resource, sys
from workflows.cli.app import main
try:
    main(sys.argv[2:])
finally:
    with open(sys.argv[1], "w") as file:
        file.write(str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024))
"""


@dataclass(frozen=True)
class Run:
    """What one run of the command left."""

    folder: Path
    summary: dict[str, Any]
    report: dict[str, Any]
    path: Path
    peak: int


@pytest.fixture(scope="module", params=PLACES)
def run(request, shared_data, tmp_path_factory, repository):
    """Run ``rscc caption`` on one place."""
    folder = shared_data / "data" / "scenes" / request.param
    output = tmp_path_factory.mktemp(request.param)
    path = output / "r.geojson"
    words = ["caption", folder / "before.tif", folder / "after.tif", "-o", path, "--json", "-q"]
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, output / "peak", *words],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(repository)},
        timeout=800,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    # Real dates do not always lie on each other; that is said, and nothing else.
    assert all("is offset by" in line for line in done.stderr.splitlines()), done.stderr
    return Run(folder, json.loads(done.stdout), load_valid(path), path, int((output / "peak").read_text()))


def test_the_report_is_valid_and_speaks(run):
    features = run.report["features"]
    assert features, "something changed in every one of these places"
    assert run.summary["changes"] == len(features)
    for feature in features:
        properties = feature["properties"]
        doubtful = properties["caption"] == "Something changed"
        assert len(properties["caption"].split()) >= 3 or doubtful
        assert properties["caption_confident"] is not doubtful
        assert properties["area_m2"] >= 20
        assert properties["model"] == run.report["rscc"]["model"]["name"]
        assert "no difference" not in properties["caption"]


def test_memory_is_bounded(run):
    assert run.peak < MEMORY_BOUND


def test_polygons_lie_in_both_scenes(run):
    grounds = []
    for name in ("before.tif", "after.tif"):
        with rasterio.open(run.folder / name) as file:
            bounds = rasterio.warp.transform_bounds(file.crs, "EPSG:4326", *file.bounds)
            grounds.append(box(*bounds).buffer(1e-5))
    both = grounds[0].intersection(grounds[1])
    assert all(both.covers(shape(feature["geometry"])) for feature in run.report["features"])


def test_polygons_lie_where_buildings_changed(run):
    label = run.folder / "label.tif"
    if not label.is_file():
        pytest.skip("this place has no mask of its changes")
    with rasterio.open(label) as file:
        truth = file.read(1) > 0
        shapes = [feature["geometry"] for feature in run.report["features"]]
        found = rasterize(shapes, truth.shape, transform=file.transform).astype(bool)
    hit = (found & truth).sum()
    # The mask knows buildings only; the model may see roads and bare ground too.
    assert hit / truth.sum() > 0.5
    assert hit / found.sum() > 0.3
    of_buildings = [
        feature["geometry"]
        for feature in run.report["features"]
        if any("building" in (feature["properties"][way] or ()) for way in ("came", "gone"))
    ]
    shared = [
        rasterize([one], truth.shape, transform=file.transform).astype(bool) & truth for one in of_buildings
    ]
    assert np.mean([part.any() for part in shared]) > 0.5

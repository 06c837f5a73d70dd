import json

import numpy as np
import pytest
import rasterio
from demo import overlap_with_truth
from make_demo_scene import CLASSES, make_scene

SMALL = (600, 520)

# Rendering the scene takes its time.
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    return make_scene(tmp_path_factory.mktemp("scene"), seed=3, size=SMALL)


@pytest.fixture(scope="module")
def truth(scene):
    with rasterio.open(scene.truth_raster) as source:
        return source.read(1)


@pytest.fixture(scope="module")
def collection(scene):
    return json.loads(scene.truth_polygons.read_text(encoding="utf-8"))


def test_both_dates_are_tiled_rgb_on_one_metric_grid_with_dates(scene):
    moments = []
    for path in (scene.before, scene.after):
        with rasterio.open(path) as source:
            assert (source.width, source.height, source.count) == (*SMALL, 3)
            assert set(source.dtypes) == {"uint8"}
            assert source.crs.to_epsg() == 32614
            assert source.res == (0.5, 0.5)
            assert source.profile["tiled"] and source.profile["compress"] == "deflate"
            moments.append(source.tags()["TIFFTAG_DATETIME"])
    assert moments == sorted(moments) and moments[0] != moments[1]


def test_the_truth_polygons_are_the_truth_raster(scene, truth, collection):
    assert {feature["properties"]["class"] for feature in collection["features"]} == set(CLASSES.values())
    wrapped = {"features": [{"geometry": feature["geometry"]} for feature in collection["features"]]}
    assert overlap_with_truth(wrapped, scene.truth_raster) > 0.99
    total = sum(feature["properties"]["area_m2"] for feature in collection["features"])
    assert total == pytest.approx(0.25 * np.count_nonzero(truth), rel=0.01)

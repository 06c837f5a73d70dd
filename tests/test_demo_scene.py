import json

import numpy as np
import pytest
import rasterio
import shapely
from demo import describe, overlap_with_truth
from demo_scene.layout import make_layout
from make_demo_scene import CLASSES, make_scene
from rasterio.warp import transform_geom
from shapely.geometry import shape

SMALL = (600, 520)


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


def test_the_same_seed_gives_the_same_pixels_and_another_does_not(scene, tmp_path):
    again = make_scene(tmp_path / "again", seed=3, size=SMALL)
    other = make_scene(tmp_path / "other", seed=4, size=SMALL)
    for name in ("before", "after", "truth_raster"):
        pixels = [_pixels(getattr(each, name)) for each in (scene, again, other)]
        assert np.array_equal(pixels[0], pixels[1])
        assert not np.array_equal(pixels[0], pixels[2])


def test_the_truth_has_every_class_and_villas_dominate_it(truth):
    numbers = {name: np.count_nonzero(truth == value) for value, name in CLASSES.items()}
    assert set(np.unique(truth)) == {0, *CLASSES}
    assert numbers["villa"] > 0.6 * sum(numbers.values())
    assert min(numbers.values()) > 100
    assert 0.01 < np.count_nonzero(truth) / truth.size < 0.25


def test_changed_ground_changes_more_than_the_rest(scene, truth):
    before, after = (_pixels(path).astype(float) for path in (scene.before, scene.after))
    # The tint of each date is taken out, as the eye does it.
    before, after = (
        (image - image.mean((1, 2), keepdims=True)) / image.std((1, 2), keepdims=True)
        for image in (before, after)
    )
    difference = np.abs(after - before).mean(0)
    assert difference[truth == 1].mean() > 2.0 * difference[truth == 0].mean()
    assert difference[truth == 3].mean() > 2.0 * difference[truth == 0].mean()
    # Season, light and cars make pseudo changes: unchanged ground is alike, not equal.
    assert difference[truth == 0].mean() > 0.05


def test_the_truth_polygons_are_the_truth_raster(scene, truth, collection):
    assert {feature["properties"]["class"] for feature in collection["features"]} == set(CLASSES.values())
    wrapped = {"features": [{"geometry": feature["geometry"]} for feature in collection["features"]]}
    assert overlap_with_truth(wrapped, scene.truth_raster) > 0.99
    total = sum(feature["properties"]["area_m2"] for feature in collection["features"])
    assert total == pytest.approx(0.25 * np.count_nonzero(truth), rel=0.01)


def test_the_truth_polygons_are_valid_counter_clockwise_and_in_texas(collection):
    for feature in collection["features"]:
        polygon = shape(feature["geometry"])
        assert polygon.is_valid and polygon.exterior.is_ccw
        assert shapely.box(-98, 30, -97, 31).contains(polygon)


def test_a_scene_too_small_for_an_estate_is_refused(tmp_path):
    with pytest.raises(ValueError, match="300 x 260 m"):
        make_scene(tmp_path, size=(256, 256))


@pytest.mark.parametrize("seed", range(7, 12))
def test_an_estate_has_a_dozen_villas_of_a_house_s_size(seed):
    layout = make_layout(np.random.default_rng(seed), 512.0, 384.0)
    areas = np.array([villa.footprint().area for villa in layout.villas])
    assert len(areas) >= 12
    assert areas.min() > 150 and areas.max() < 360
    footprints = [house.footprint() for house in layout.villas + layout.old_houses]
    assert shapely.unary_union(footprints).area == pytest.approx(sum(f.area for f in footprints))
    assert set(layout.trees_after) < set(layout.trees_before)


def test_the_overlap_counts_what_is_missed_and_what_is_wrong(scene, truth):
    with rasterio.open(scene.truth_raster) as source:
        bounds, crs = source.bounds, source.crs
    everything = transform_geom(crs, "OGC:CRS84", shapely.box(*bounds).__geo_interface__)
    assert overlap_with_truth({"features": []}, scene.truth_raster) == 0.0
    assert overlap_with_truth({"features": [{"geometry": everything}]}, scene.truth_raster) == pytest.approx(
        np.count_nonzero(truth) / truth.size, rel=0.02
    )


def test_captions_are_listed_by_area():
    changes = [
        ("a road", 5.0),
        ("a villa", 30.0),
        ("a villa", 10.0),
        *((f"thing {i}", 1.0) for i in range(9)),
    ]
    report = {"features": [{"properties": {"caption": text, "area_m2": area}} for text, area in changes]}
    lines = describe(report)
    assert [line.split("m2")[1].strip() for line in lines[:2]] == ["a villa", "a road"]
    assert "2 x" in lines[0] and "40 m2" in lines[0]
    assert lines[-1].strip() == "... and 3 other captions"


def _pixels(path):
    with rasterio.open(path) as source:
        return source.read()

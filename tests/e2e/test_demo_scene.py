import json

import numpy as np
import pytest
import rasterio
import shapely
from demo import describe, overlap_with_truth
from demo_scene.layout import make_layout
from draw_report import COLOR, draw
from make_demo_scene import CLASSES, make_scene
from matplotlib import colors, image
from rasterio.warp import transform_geom
from shapely.geometry import box, mapping, shape

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


def test_the_same_seed_gives_the_same_pixels_and_another_does_not(scene, tmp_path):
    second = make_scene(tmp_path, seed=3, size=SMALL)
    for name in ("before", "after", "truth_raster"):
        assert np.array_equal(_pixels(getattr(scene, name)), _pixels(getattr(second, name)))
    layouts = [make_layout(np.random.default_rng(seed), 512.0, 384.0) for seed in (3, 4)]
    assert layouts[0].villas != layouts[1].villas


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


@pytest.mark.parametrize("seed", [7, 8])
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


def report_of(*places):
    features = [{"properties": {"caption": caption}, "geometry": mapping(place)} for caption, place in places]
    dates = {"before": {"date": "2016-03-14"}, "after": {"date": None}}
    return {"rscc": {"inputs": dates}, "features": features}


def test_polygons_are_drawn_on_the_scene_after_where_they_are(scene, tmp_path):
    # A box in the upper left quarter of the scene, in degrees.
    place = box(-97.82735, 30.47295, -97.82655, 30.47345)
    empty, full = tmp_path / "pictures" / "empty.png", tmp_path / "full.png"
    draw(scene.before, scene.after, report_of(), empty)
    draw(scene.before, scene.after, report_of(("a villa is built", place)), full)
    without, drawn = image.imread(empty)[..., :3], image.imread(full)[..., :3]
    assert drawn.shape == without.shape
    assert without.std() > 0.05

    different = np.abs(drawn - without).max(-1) > 0.05
    half = drawn.shape[1] // 2
    assert not different[:, :half].any()
    assert different[:, half:].any()
    outline = np.abs(drawn - np.array(colors.to_rgb(COLOR))).max(-1) < 0.05
    rows, columns = np.nonzero(outline & different)
    assert rows.size > 50
    assert rows.mean() < 0.55 * drawn.shape[0]
    assert 1.2 * half < columns.mean() < 1.55 * half
    white = drawn.min(-1) > 0.95
    assert (white & different).any(), "no caption was written"


def test_a_caption_is_written_once(scene, tmp_path):
    places = [
        ("a villa is built", box(-97.8272, 30.4730, -97.8270, 30.4732)),
        ("a villa is built", box(-97.8262, 30.4722, -97.8260, 30.4724)),
    ]
    drawn = []
    for number in (1, 2):
        target = tmp_path / f"{number}.png"
        draw(scene.before, scene.after, report_of(*places[:number]), target)
        drawn.append(image.imread(target)[..., :3].min(-1) > 0.95)
    assert 0 < np.count_nonzero(drawn[1]) < 1.2 * np.count_nonzero(drawn[0])


def _pixels(path):
    with rasterio.open(path) as source:
        return source.read()

from __future__ import annotations

import math
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import shapely
from captioners import BrightnessCaptioner, captioned
from rasters import UTM, write_scene
from report_checks import load_valid
from scene_pairs import make_pair

from tiling import NothingValid, transformer
from workflows import SceneOptions
from workflows.errors import OptionInvalid
from workflows.identity import SceneIdentities
from workflows.report.record import hash_of

# Row, column, height, width, brightness after; far enough apart to stay three changes, over several tiles.
THREE = [(30, 150, 12, 20, 220), (60, 20, 30, 30, 240), (100, 120, 40, 25, 10)]


@pytest.fixture
def three(tmp_path):
    return make_pair(tmp_path, THREE)


def on_the_map(geometry):
    move = transformer("EPSG:4326", UTM)
    return shapely.transform(geometry, lambda xy: np.column_stack(move.transform(*xy.T)))


def iou(first, second):
    return first.intersection(second).area / first.union(second).area


@pytest.mark.parametrize(
    "options",
    [
        {"gsd": 0.001},
        {"overlap": 32},
    ],
)
def test_options_that_do_not_fit_the_pair_or_the_model_are_refused(three, options):
    with pytest.raises(OptionInvalid):
        captioned(three, **options)


def test_three_changes_are_found_where_they_are_with_their_words(three):
    report = captioned(three)
    assert [change.id for change in report.changes] == [1, 2, 3]
    for change, truth in zip(report.changes, three.truth, strict=True):
        assert iou(on_the_map(change.geometry), truth) > 0.97
        assert change.area_m2 == pytest.approx(truth.area, rel=0.03)
        assert 0.5 < change.change_probability <= 1
        assert (change.model, change.model_version) == ("brightness", "1.2.3")
        assert (change.before, change.after) == ("before.tif", "after.tif")
        assert change.alternatives == ("alternative 1", "alternative 2")
    captions = [f"brightness {brightness} appears" for brightness in (220, 240, 10)]
    assert [change.caption for change in report.changes] == captions


def test_one_scene_given_twice_is_said(three):
    report = captioned(replace(three, after=three.before))
    assert not report.changes
    assert report.run["warnings"] == [f"{three.before}: it was given twice, so nothing can have changed"]
    linked = three.before.with_name("linked.tif")
    linked.symlink_to(three.before)
    report = captioned(replace(three, after=linked))
    assert report.run["warnings"] == [f"{linked}: it was given twice, so nothing can have changed"]


def test_ids_run_from_north_to_south_and_from_west_to_east(tmp_path):
    places = [(100, 10), (20, 160), (20, 60), (60, 5), (20, 10)]
    pair = make_pair(tmp_path, [(row, col, 14, 14, 230) for row, col in places])
    report = captioned(pair, group_distance=0)
    centres = [on_the_map(change.geometry).centroid for change in report.changes]
    places = [(round(5_600_000 - centre.y), centre.x) for centre in centres]
    assert len(places) == 5 and places == sorted(places)
    assert captioned(pair, batch_size=1, group_distance=0).changes == report.changes


def test_a_change_on_nodata_is_none(tmp_path):
    pair = make_pair(tmp_path, [(80, 20, 30, 30, 240)], nodata_rows=70)
    model = BrightnessCaptioner()
    report = captioned(pair, model)
    [change] = report.changes
    assert iou(on_the_map(change.geometry), pair.truth[0]) > 0.97
    tiling = report.run["tiling"]
    assert tiling["blank"] > 0 and all(shape[0] > 0 for shape in model.shapes)
    assert model.seen == tiling["tiles"] - tiling["blank"]


@pytest.mark.parametrize("size", [(40, 50), (64, 64), (30, 150), (200, 41)])
def test_scenes_smaller_than_a_tile_are_not_skipped(tmp_path, size):
    pair = make_pair(tmp_path, [(8, 10, 20, 24, 250)], size=size)
    [change] = captioned(pair).changes
    assert iou(on_the_map(change.geometry), pair.truth[0]) > 0.96


def test_tiled_equals_whole(tmp_path):
    pair = make_pair(tmp_path, [*THREE, (40, 90, 5, 115, 200)])
    whole = captioned(pair, BrightnessCaptioner(tile_size=256))
    for tile, overlap in ((64, 0), (96, 40), (64, 31)):
        tiled = captioned(pair, BrightnessCaptioner(tile_size=tile), overlap=overlap)
        assert [c.geometry for c in tiled.changes] == [c.geometry for c in whole.changes]
        expected = [c.change_probability for c in whole.changes]
        assert [c.change_probability for c in tiled.changes] == pytest.approx(expected, abs=1e-5)


@pytest.mark.slow
def test_small_changes_are_left_out_by_their_area_on_the_ground(tmp_path):
    # At 0.5 m: 4 m2, 16 m2, 36 m2, 100 m2.
    pair = make_pair(tmp_path, [(10 + 30 * n, 20, side, side, 240) for n, side in enumerate((4, 8, 12, 20))])
    for smallest, count in ((0.0, 4), (10.0, 3), (20.0, 2), (90.0, 1), (110.0, 0)):
        changes = captioned(pair, min_area=smallest, simplify=0, group_distance=0).changes
        assert len(changes) == count
        assert all(change.area_m2 >= smallest for change in changes)


def test_the_threshold_is_the_models_unless_given(tmp_path):
    pair = make_pair(tmp_path, [(20, 20, 30, 30, 170)])
    for threshold, used, count in ((None, 0.5, 1), (0.9, 0.9, 0)):
        report = captioned(pair, threshold=threshold)
        assert (report.run["settings"]["threshold"], len(report.changes)) == (used, count)


def test_scenes_are_brought_to_the_models_resolution(tmp_path):
    pair = make_pair(tmp_path, [(40, 40, 60, 80, 240)], gsd=0.25, size=(300, 420))
    report = captioned(pair)
    grid = report.run["tiling"]
    assert grid["gsd"] == 0.5
    # 0.25 m of the map are not quite 0.25 m of ground, hence perhaps a pixel more.
    assert grid["width"] in (210, 211) and grid["height"] in (150, 151)
    assert iou(on_the_map(report.changes[0].geometry), pair.truth[0]) > 0.9
    report = captioned(pair, gsd=1.0)
    assert report.run["tiling"]["gsd"] == 1.0


def test_dates_come_from_options_tags_and_names(tmp_path):
    pair = make_pair(
        tmp_path,
        THREE[:1],
        names=("place_20090818.tif", "after.tif"),
        tags=({}, {"ACQUISITIONDATETIME": "2019-08-31T10:00:00"}),
    )
    [change] = captioned(pair).changes
    assert (change.date_before, change.date_after) == ("2009-08-18", "2019-08-31")
    report = captioned(pair, date_before="2008", date_after="2020-01")
    assert (report.changes[0].date_before, report.changes[0].date_after) == ("2008", "2020-01")
    assert report.run["inputs"]["before"]["date_source"] == "option"


@pytest.mark.parametrize(
    ("before", "after", "warned"),
    [
        ("2019-09", "2019-08-31", True),
        ("2019", "2019-08", False),
        ("2019-08", "2019", False),
    ],
)
def test_swapped_scenes_are_warned_of(tmp_path, before, after, warned):
    pair = make_pair(tmp_path, [], size=(64, 64))
    warnings = captioned(pair, date_before=before, date_after=after).run["warnings"]
    assert any("swapped" in line for line in warnings) == warned


def test_the_run_record_says_how_to_make_it_again(three, tmp_path):
    report = captioned(three, min_area=5)
    collection = load_valid(report.write(tmp_path / "r.geojson"))
    run = collection["rscc"]
    assert run["inputs"]["before"] == {
        "path": str(three.before),
        "driver": "GTiff",
        "width": 210,
        "height": 150,
        "bands": 3,
        "dtype": "uint8",
        "crs": "EPSG:32633",
        "gsd": pytest.approx(0.5, rel=1e-3),
        "date": None,
        "date_source": None,
        "identity": SceneIdentities({}, full=True).of(str(three.before)),
    }
    assert run["settings_sha256"] == hash_of(run["settings"])
    assert (run["determination:method"], run["determination:datetime"]) == ("auto-imagery", None)
    assert run["model"]["name"] == "brightness" and run["model"]["weights_sha256"] == "0" * 64
    assert run["settings"]["min_area"] == 5
    assert run["tiling"]["tiles"] > 1 and run["maps"] is None
    assert set(run["versions"]) == {"rscc", "torch", "rasterio", "gdal"}
    assert run["seconds"] >= 0 and run["started"].endswith("+00:00")
    assert run["stretch"]


def test_a_change_across_the_antimeridian(tmp_path):
    # 500 km west of the central meridian of zone 1 lies near 180 degrees at this latitude.
    x, y = transformer("EPSG:4326", "EPSG:32601").transform(180.0, 60.0)
    pair = make_pair(tmp_path, [(60, 80, 40, 50, 240)], crs="EPSG:32601", origin=(x - 52.5, y + 37.5))
    report = captioned(pair)
    collection = load_valid(report.write(tmp_path / "r.geojson"))
    assert collection["features"][0]["geometry"]["type"] == "MultiPolygon"
    west, _, east, _ = collection["bbox"]
    assert west > 179 and east < -179
    assert report.changes[0].area_m2 == pytest.approx(40 * 50 * 0.25, rel=0.03)


OUT_OF_RANGE = {
    "threshold": (0.0, 1.0, math.nan),
    "gsd": (0.0, math.inf),
    "min_area": (-1.0, math.nan),
    "batch_size": (0,),
    "overlap": (-1,),
    "simplify": (-0.1,),
    "bands": ((1, 2), (0, 2, 3), ("red", " ", 3)),
    "scale": ((3.0, 3.0), (0.0, math.nan), "radiance"),
    "group_distance": (-1.0, math.inf),
    "memory": (0,),
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, one) for name in OUT_OF_RANGE for one in OUT_OF_RANGE[name]]
)
def test_options_out_of_range_are_refused(name, value):
    with pytest.raises(OptionInvalid, match=name.replace("_", "-")):
        SceneOptions(**{name: value})


@pytest.mark.slow
def test_memory_does_not_grow_with_the_height_of_the_scene(tmp_path):
    def peak(height):
        folder = tmp_path / str(height)
        folder.mkdir(exist_ok=True)
        pair = make_pair(
            folder, [(row, 100, 30, 30, 240) for row in range(50, height - 50, 400)], size=(height, 640)
        )
        tracemalloc.start()
        captioned(pair, BrightnessCaptioner(tile_size=128), batch_size=4)
        measured = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return measured

    peak(700)  # what is loaded on first use
    low, high = peak(2800), peak(8400)
    # Three times the scene: 3.6 MB more a band and date, 14 MB more of probabilities, were they kept.
    assert high < low + 6e6


def test_outlines_are_valid_and_do_not_overlap(tmp_path):
    corners = np.random.default_rng(3).integers(0, (140, 200), (60, 2)).tolist()
    pair = make_pair(tmp_path, [(row, col, 9, 9, 230) for row, col in corners])
    report = captioned(pair, min_area=1, simplify=0, group_distance=0)
    collection = load_valid(report.write(tmp_path / "r.geojson"))
    assert len(collection["features"]) > 3
    shapes = [on_the_map(change.geometry) for change in report.changes]
    truth = shapely.union_all(pair.truth)
    assert iou(shapely.union_all(shapes), truth) > 0.98
    assert sum(s.area for s in shapes) == pytest.approx(shapely.union_all(shapes).area, rel=1e-3)


def test_dates_that_are_valid_nowhere_together_are_refused(tmp_path):
    made = make_pair(tmp_path, [])
    for path, rows in ((made.before, slice(0, 80)), (made.after, slice(80, None))):
        image = np.full((3, 150, 210), 100, np.uint8)
        image[:, rows] = 0
        write_scene(path, image, nodata=0)
    with pytest.raises(NothingValid, match=r"before\.tif and .*after\.tif"):
        captioned(made)

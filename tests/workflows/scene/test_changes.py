from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import shapely
from affine import Affine
from captioners import BrightnessCaptioner, captioned
from rasterio.features import rasterize
from rasters import write_scene
from report_checks import load_valid
from scene_pairs import GROUND, make_pair
from shapely.affinity import rotate, translate
from shapely.geometry import MultiPolygon, Polygon, box

from tiling import ChangeRegion, geodesic_area_m2
from workflows import SceneOptions, caption_scene
from workflows.scene.found import FoundChange, Outline
from workflows.scene.outline import cut_out, outlines_of

# The reference system of a grid.
ON_MAP = SimpleNamespace(crs="EPSG:32633")


@pytest.mark.parametrize(
    ("spot", "nodata_rows", "is_cut"),
    [
        ((40, 40, 20, 20, 240), 0, False),
        ((0, 40, 20, 20, 240), 0, True),
        ((40, 190, 20, 20, 240), 0, True),
        ((60, 40, 20, 20, 240), 60, True),
        ((63, 40, 20, 20, 240), 60, False),
    ],
)
def test_a_change_at_the_edge_of_the_data_says_so(tmp_path, spot, nodata_rows, is_cut):
    pair = make_pair(tmp_path, [spot], size=(120, 210), nodata_rows=nodata_rows)
    report = captioned(pair, simplify=0)
    assert [change.cut_by_edge for change in report.changes] == [is_cut]
    (feature,) = load_valid(report.write(tmp_path / "r.geojson"))["features"]
    assert feature["properties"]["cut_by_edge"] is is_cut


@pytest.mark.slow
def test_a_change_that_leaves_the_box_and_its_margin_is_cut_and_says_so(tmp_path):
    spots = [(40, 20, 10, 700, 240), (90, 20, 10, 60, 240)]
    pair = make_pair(tmp_path, spots, size=(150, 900))
    whole, same = captioned(pair, group_distance=0).changes
    left, bottom, _, top = whole.geometry.bounds
    west = (left - 1e-5, bottom - 5e-4, left + 1e-4, top + 1e-5)
    long, short = captioned(pair, group_distance=0, bounds=west).changes
    assert (long.cut_by_edge, short.cut_by_edge) == (True, False)
    assert long.area_m2 < 700 * 10 * 0.25 * 0.9
    assert not whole.cut_by_edge and same.geometry == short.geometry


NEAR = [(30, 30, 20, 20, 240), (30, 60, 20, 20, 240), (60, 30, 20, 20, 170), (110, 150, 20, 20, 240)]


@pytest.mark.slow
def test_changes_near_each_other_are_one_event(tmp_path):
    pair = make_pair(tmp_path, NEAR)
    alone = captioned(pair, group_distance=0)
    assert len(alone.changes) == 4
    # 10 pixels of half a metre lie between them.
    for distance, count in ((4.9, 4), (5.1, 2), (60.0, 1)):
        report = captioned(pair, group_distance=distance)
        assert len(report.changes) == count
        assert report.area_m2 == pytest.approx(alone.area_m2, rel=1e-6)
        assert report.run["settings"]["group_distance"] == distance
        load_valid(report.write(tmp_path / "r.geojson", overwrite=True))
    first, second = captioned(pair, group_distance=5.1).changes
    assert isinstance(first.geometry, MultiPolygon) and len(first.geometry.geoms) == 3
    assert second.geometry.equals(alone.changes[3].geometry)
    expected = [change.change_probability for change in alone.changes[:3]]
    assert first.change_probability == pytest.approx(np.mean(expected), rel=1e-3)
    assert min(expected) < 0.75 < max(expected)


@pytest.mark.slow
def test_both_sides_of_a_street_are_one_change_by_default(tmp_path):
    # 52 pixels of half a metre, 26 m, lie between the rows; the lone house is 29 m from all others.
    rows = [(row, 20 + 30 * n, 20, 20, 240) for row in (20, 92) for n in range(5)]
    pair = make_pair(tmp_path, [*rows, (20, 218, 20, 20, 240)], size=(150, 300))
    estate, house = captioned(pair).changes
    assert (estate.count, house.count) == (10, 1)
    assert (estate.arrangement, house.arrangement) == ("in rows", "alone")
    assert estate.largest_m2 == pytest.approx(100, rel=0.02) == estate.median_m2
    assert house.largest_m2 == house.median_m2 == house.area_m2
    assert (estate.place, house.place) == ("west", "north-east")
    assert captioned(pair).run["settings"]["group_distance"] is None
    assert captioned(pair, group_distance=28.0).changes == [estate, house]
    assert len(captioned(pair, group_distance=0).changes) == 11


SQUARE = box(0, 0, 1, 1)


def test_objects_are_sure_by_the_probability_of_their_outline_and_their_share_of_it():
    def outline(probability, *areas):
        made = Outline(ChangeRegion(SQUARE, SQUARE, probability, 1), SQUARE, sum(areas))
        made.__dict__["_objects"] = areas, areas
        return made

    event = FoundChange((outline(0.86, 100, 50, 49), outline(0.8599, 300), outline(1.0, 20)))
    assert (event.count, event.sure) == (5, 3)
    assert FoundChange((outline(0.5, 100),)).sure == 0


def test_houses_that_touch_are_counted_alone_and_share_the_area_of_their_outline(tmp_path):
    touching = [(30, 30, 24, 20, 240), (40, 50, 4, 6, 240), (30, 56, 24, 20, 240)]
    [change] = captioned(make_pair(tmp_path, touching), simplify=0).changes
    assert isinstance(change.geometry, Polygon)
    assert (change.count, change.arrangement) == (2, None)
    assert change.largest_m2 + min(
        change.largest_m2, 2 * change.median_m2 - change.largest_m2
    ) == pytest.approx(change.area_m2)
    # Pixels of 5 m show no building: there an outline is an object.
    model = BrightnessCaptioner(gsd=5.0, gsd_range=(2.0, 10.0))
    [change] = captioned(make_pair(tmp_path, touching, gsd=5.0), model, simplify=0).changes
    assert (change.count, change.arrangement, change.largest_m2) == (1, "alone", change.area_m2)


def test_a_change_of_just_the_least_area_is_written():
    outline = box(500_000, 5_600_000, 500_010, 5_600_010)
    [place] = outlines_of([ChangeRegion(outline, outline, 0.9, 400)], ON_MAP, 0.0)
    assert outlines_of([place.region], ON_MAP, place.area_m2) == [place]
    assert outlines_of([place.region], ON_MAP, np.nextafter(place.area_m2, np.inf)) == []


@pytest.mark.parametrize(("min_area", "parts"), [(20.0, 1), (0.1, 2)])
def test_an_outline_that_rounding_splits_is_one_without_its_scraps(min_area, parts):
    # Two squares and a neck of 2 mm, less than the 1 cm that is written.
    ends = (box(0, 0, 5, 5), box(5, 2, 7, 2.002), box(7, 1.5, 8, 2.5))
    outline = translate(shapely.union_all(ends), 500_000, 5_600_000)
    assert isinstance(outline, Polygon)
    [place] = outlines_of([ChangeRegion(outline, outline, 0.9, 104)], ON_MAP, min_area)
    assert shapely.get_num_geometries(place.geometry) == parts
    assert place.area_m2 == pytest.approx(25 if parts == 1 else 26, rel=0.01)
    assert place.area_m2 == pytest.approx(geodesic_area_m2(place.geometry))


@pytest.mark.parametrize(("min_area", "left"), [(40.0, [50, 100]), (60.0, [100]), (110.0, None)])
def test_a_change_keeps_no_ground_of_others_and_no_scraps_beside_it(min_area, left):
    grid = SimpleNamespace(crs=ON_MAP.crs, transform=Affine.translation(500_000, 5_600_000))
    shape = box(0, 0, 30, 10)
    region = ChangeRegion(shape, translate(shape, 500_000, 5_600_000), 0.9, 300)
    change = FoundChange(tuple(outlines_of([region], grid, 0.0)))
    rest = cut_out(change, box(5, -1, 20, 11), grid, min_area)
    assert left == (rest and sorted(region.area_px for region in rest.regions))
    assert rest is None or rest.area_m2 == pytest.approx(sum(left), rel=0.01)


def test_what_is_too_small_joins_no_event(tmp_path):
    spots = [(30, 30, 20, 20, 240), (38, 58, 4, 4, 240), (30, 70, 20, 20, 240)]
    pair = make_pair(tmp_path, spots)
    for smallest, count in ((0.5, 1), (10.0, 2)):
        assert len(captioned(pair, group_distance=4.5, min_area=smallest, simplify=0).changes) == count


@pytest.mark.slow
def test_the_least_area_is_that_of_a_change_whose_small_outlines_stay(tmp_path):
    pair = make_pair(tmp_path, NEAR)
    [whole] = captioned(pair, group_distance=60.0).changes
    [same] = captioned(pair, group_distance=60.0, min_area=whole.area_m2 - 1).changes
    assert (same.count, same.area_m2) == (whole.count, whole.area_m2)
    assert captioned(pair, group_distance=60.0, min_area=whole.area_m2 + 1).changes == []


def turned_house(folder):
    shape, truth = (150, 210), rotate(box(60, 40, 120, 80), 25)
    image = np.full((3, *shape), GROUND, np.uint8)
    before = write_scene(folder / "before.tif", image)
    image[:, rasterize([truth], out_shape=shape).astype(bool)] = 240
    return before, write_scene(folder / "after.tif", image), truth


@pytest.mark.slow
def test_right_angles_are_given_where_they_are_asked_for(tmp_path):
    before, after, truth = turned_house(tmp_path)
    corners = {}
    for regularize in (False, True):
        options = SceneOptions(regularize=regularize)
        report = caption_scene(before, after, BrightnessCaptioner(), options)
        [change] = report.changes
        corners[regularize] = len(change.geometry.exterior.coords) - 1
        assert change.area_m2 == pytest.approx(truth.area * 0.25, rel=0.05)
        assert report.run["settings"]["regularize"] is regularize
    assert corners[True] == 4 < corners[False]

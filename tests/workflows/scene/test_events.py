from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import shapely
from captioned import captioned
from fakes import BrightnessCaptioner
from rasterio.features import rasterize
from rasters import write_scene
from rfc7946 import load_valid
from scene_pairs import GROUND, make_pair
from shapely.affinity import rotate, translate
from shapely.geometry import MultiPolygon, Polygon, box

from tiling import ChangeRegion, ScenePair, Window, geodesic_area_m2
from workflows import SceneOptions, caption_scene
from workflows.scene.carrier import OpenRun
from workflows.scene.detection import find_regions
from workflows.scene.events import Event, Place, Search, places_of, right_angled

# Of a pair, the reference system of its grid.
ON_MAP = SimpleNamespace(grid=SimpleNamespace(crs="EPSG:32633"))


def events_of(folder, spots, focus=None, size=(150, 210), **options):
    made = make_pair(folder, spots, size=size)
    with ScenePair.open(made.before, made.after) as pair:
        pair.focus = focus or pair.focus
        return searched(pair, simplify=0, **options)


def searched(pair, **options):
    run = OpenRun(pair, BrightnessCaptioner(), SceneOptions(batch_size=8, **options))
    return Search(run).events(find_regions(run))


def test_a_change_is_whole_however_far_it_leaves_the_box(tmp_path):
    # 700 pixels long with a foot at its far end; only its first pixels are asked for.
    spots = [(40, 20, 10, 700, 240), (40, 720, 60, 10, 240), (10, 60, 12, 12, 240)]
    result = events_of(tmp_path, spots, Window(0, 30, 40, 30), size=(150, 900), group_distance=0)
    truth = shapely.union_all([box(20, 40, 720, 50), box(720, 40, 730, 100)])
    [event] = result.events
    assert event.outline.equals(truth)
    assert result.warnings == []
    [other] = result.others
    assert other.outline.equals(box(60, 10, 72, 22))


def test_two_ends_of_one_change_in_the_box_are_one_change(tmp_path):
    # A bracket, open to the left: both its arms lie in the box, what joins them does not.
    spots = [(20, 10, 10, 390, 240), (100, 10, 10, 390, 240), (20, 400, 90, 10, 240)]
    result = events_of(tmp_path, spots, Window(0, 0, 40, 150), size=(150, 600))
    [event] = result.events
    assert event.area_m2 == pytest.approx((2 * 10 * 390 + 90 * 10) * 0.25, rel=0.01)
    assert result.warnings == []


def test_a_change_without_end_is_cut_off_with_a_warning(tmp_path):
    spots, focus = [(40, 20, 10, 1900, 240)], Window(0, 30, 40, 30)
    result = events_of(tmp_path, spots, focus, size=(150, 2000), group_distance=0)
    [event] = result.events
    assert 900 < event.outline.bounds[2] < 1900
    [line] = result.warnings
    assert "beyond the box asked for and is cut off; give a larger --bbox" in line


def test_a_change_that_is_not_found_again_stays_as_it_was(tmp_path, monkeypatch):
    spots = [(40, 20, 10, 400, 240), (100, 20, 12, 12, 240)]
    again = find_regions

    def found_again(run, area=None):
        """Return all regions of the box, and beyond it all but the one that leaves it."""
        found = again(run, area)
        if area is None:
            return found
        return found._replace(regions=[one for one in found.regions if one.pixel_polygon.bounds[1] > 60])

    monkeypatch.setattr("workflows.scene.events.find_regions", found_again)
    result = events_of(tmp_path, spots, Window(0, 30, 40, 30), size=(150, 600), group_distance=0)
    [event] = result.events
    assert event.outline.bounds[:2] == (20, 40) and "is cut off" in result.warnings[0]


NEAR = [(30, 30, 20, 20, 240), (30, 60, 20, 20, 240), (60, 30, 20, 20, 170), (110, 150, 20, 20, 240)]


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


def test_a_coarse_grid_is_given_a_distance_in_pixels():
    asked, default = SceneOptions(group_distance=5.0), SceneOptions()
    distances = {gsd: default.group_distance_for(gsd) for gsd in (0.5, 10.0, 14.0, 15.0, 30.0)}
    assert distances == {0.5: 28.0, 10.0: 28.0, 14.0: 28.0, 15.0: 30.0, 30.0: 60.0}
    assert asked.group_distance_for(30.0) == 5.0
    assert SceneOptions(group_distance=0).group_distance_for(30.0) == 0


def test_clearings_two_coarse_pixels_apart_are_one_change(tmp_path):
    for gap, count in ((2, 1), (3, 2)):
        spots = [(20, 20, 20, 20, 240), (20, 40 + gap, 20, 20, 240)]
        pair = make_pair(tmp_path, spots, gsd=20.0)
        model = BrightnessCaptioner(gsd=20.0, gsd_range=(10.0, 30.0))
        assert [len(captioned(pair, model, simplify=0).changes)] == [count]


SQUARE = box(0, 0, 1, 1)


def test_an_event_knows_the_sizes_of_its_outlines():
    event = Event(tuple(Place(ChangeRegion(SQUARE, SQUARE, 1, 1), SQUARE, area) for area in (9, 1, 2)))
    assert (event.count, event.largest_m2, event.median_m2) == (3, 9, 2)


def test_objects_are_sure_by_the_probability_of_their_outline_and_their_share_of_it():
    def place(probability, *areas):
        made = Place(ChangeRegion(SQUARE, SQUARE, probability, 1), SQUARE, sum(areas))
        made.__dict__["_objects"] = areas, areas
        return made

    event = Event((place(0.86, 100, 50, 49), place(0.8599, 300), place(1.0, 20)))
    assert (event.count, event.sure) == (5, 3)
    assert Event((place(0.5, 100),)).sure == 0


def test_of_houses_that_a_wide_waist_parts_one_is_sure():
    house, next_one = box(0, 0, 20, 24), box(26, 0, 46, 24)
    for waist, sure in ((box(20, 10, 26, 14), 2), (box(20, 5, 26, 19), 1)):
        outline = shapely.union_all([house, waist, next_one])
        place = Place(ChangeRegion(outline, outline, 0.9, 1000), outline, outline.area / 4)
        assert (Event((place,)).count, Event((place,)).sure) == (2, sure)


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


def test_every_pixel_of_an_event_counts_alike():
    regions = (ChangeRegion(SQUARE, SQUARE, *values) for values in ((0.9, 300), (0.5, 100)))
    event = Event(tuple(Place(region, SQUARE, 1.0) for region in regions))
    assert event.probability == pytest.approx(0.8)


def test_a_change_of_just_the_least_area_is_written():
    outline = box(500_000, 5_600_000, 500_010, 5_600_010)
    [place] = places_of([ChangeRegion(outline, outline, 0.9, 400)], ON_MAP, 0.0)
    assert places_of([place.region], ON_MAP, place.area_m2) == [place]
    assert places_of([place.region], ON_MAP, np.nextafter(place.area_m2, np.inf)) == []


@pytest.mark.parametrize(("min_area", "parts"), [(20.0, 1), (0.1, 2)])
def test_an_outline_that_rounding_splits_is_one_without_its_scraps(min_area, parts):
    # Two squares and a neck of 2 mm, less than the 1 cm that is written.
    ends = (box(0, 0, 5, 5), box(5, 2, 7, 2.002), box(7, 1.5, 8, 2.5))
    outline = translate(shapely.union_all(ends), 500_000, 5_600_000)
    assert isinstance(outline, Polygon)
    [place] = places_of([ChangeRegion(outline, outline, 0.9, 104)], ON_MAP, min_area)
    assert shapely.get_num_geometries(place.geometry) == parts
    assert place.area_m2 == pytest.approx(25 if parts == 1 else 26, rel=0.01)
    assert place.area_m2 == pytest.approx(geodesic_area_m2(place.geometry))


@pytest.mark.slow
def test_an_event_at_the_edge_of_the_box_is_whole(tmp_path):
    row = [(30, 20 + 40 * n, 20, 20, 240) for n in range(12)]
    focus, size = Window(0, 0, 30, 150), (150, 600)
    [event] = events_of(tmp_path, row, focus, size, group_distance=12.0).events
    assert len(event.places) == 12
    result = events_of(tmp_path, row, focus, size, group_distance=0)
    assert [len(event.places) for event in result.events] == [1]
    assert len(result.others) >= 1


def test_what_is_too_small_joins_no_event(tmp_path):
    spots = [(30, 30, 20, 20, 240), (38, 58, 4, 4, 240), (30, 70, 20, 20, 240)]
    pair = make_pair(tmp_path, spots)
    for smallest, count in ((0.5, 1), (10.0, 2)):
        assert len(captioned(pair, group_distance=4.5, min_area=smallest, simplify=0).changes) == count


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


def test_an_outline_that_would_become_too_small_stays(tmp_path):
    before, after, _ = turned_house(tmp_path)
    with ScenePair.open(before, after) as pair:
        events = searched(pair).events
        [drawn] = right_angled(pair, events, 0.0)
        assert drawn.geometry != events[0].geometry
        [kept] = right_angled(pair, events, drawn.area_m2 + 0.01)
    assert kept == events[0]

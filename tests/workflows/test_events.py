from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pytest
import shapely
from fakes import BrightnessCaptioner
from rasterio.features import rasterize
from rfc7946 import load_valid
from scene_pairs import GROUND, make_pair, north_up, write_raster
from shapely.affinity import rotate
from shapely.geometry import MultiPolygon, box

from tiling import ScenePair, Window
from workflows import SceneOptions, caption_scene
from workflows.detecting import search_area, tile_grid
from workflows.events import Search, in_order, right_angled
from workflows.memory import Batches

SMALL = SceneOptions(simplify=0)


@contextmanager
def search(folder, spots, focus=None, options=SMALL, size=(150, 210)):
    made = make_pair(folder, spots, size=size)
    with ScenePair.open(made.before, made.after) as pair:
        pair.focus = focus or pair.focus
        yield Search(pair, BrightnessCaptioner(), options, Batches(8))


def found_by(searching):
    pair, card, options = searching.pair, searching.captioner.card, searching.options
    return searching.run(tile_grid(pair, card, options, search_area(pair, card, options)))


def test_a_change_is_whole_however_far_it_leaves_the_box(tmp_path):
    # 700 pixels long with a foot at its far end; only its first pixels are asked for.
    spots = [(40, 20, 10, 700, 240), (40, 720, 60, 10, 240), (10, 60, 12, 12, 240)]
    with search(tmp_path, spots, Window(0, 30, 40, 30), size=(150, 900)) as searching:
        found = found_by(searching)
    truth = shapely.union_all([box(20, 40, 720, 50), box(720, 40, 730, 100)])
    [event] = found.events
    assert event.outline.equals(truth)
    assert found.warnings == []
    [other] = found.others
    assert other.outline.equals(box(60, 10, 72, 22))


def test_two_ends_of_one_change_in_the_box_are_one_change(tmp_path):
    # A bracket, open to the left: both its arms lie in the box, what joins them does not.
    spots = [(20, 10, 10, 390, 240), (100, 10, 10, 390, 240), (20, 400, 90, 10, 240)]
    with search(tmp_path, spots, Window(0, 0, 40, 150), size=(150, 600)) as searching:
        found = found_by(searching)
    [event] = found.events
    assert event.area_m2 == pytest.approx((2 * 10 * 390 + 90 * 10) * 0.25, rel=0.01)
    assert found.warnings == []


def test_a_change_without_end_is_cut_off_with_a_warning(tmp_path):
    with search(tmp_path, [(40, 20, 10, 1900, 240)], Window(0, 30, 40, 30), size=(150, 2000)) as searching:
        found = found_by(searching)
    [event] = found.events
    assert 900 < event.outline.bounds[2] < 1900
    [line] = found.warnings
    assert "beyond the box asked for and is cut off; give a larger --bbox" in line


NEAR = [(30, 30, 20, 20, 240), (30, 60, 20, 20, 240), (60, 30, 20, 20, 170), (110, 150, 20, 20, 240)]


def test_changes_near_each_other_are_one_event(tmp_path):
    pair = make_pair(tmp_path, NEAR)
    alone = caption_scene(pair.before, pair.after, BrightnessCaptioner(), SceneOptions(group_distance=0))
    assert len(alone.changes) == 4
    # 10 pixels of half a metre lie between them.
    for distance, count in ((4.9, 4), (5.1, 2), (60.0, 1)):
        options = SceneOptions(group_distance=distance)
        report = caption_scene(pair.before, pair.after, BrightnessCaptioner(), options)
        assert len(report.changes) == count
        assert report.area_m2 == pytest.approx(alone.area_m2, rel=1e-6)
        assert report.run["settings"]["group_distance"] == distance
        load_valid(report.write(tmp_path / "r.geojson", overwrite=True))
    options = SceneOptions(group_distance=5.1)
    first, second = caption_scene(pair.before, pair.after, BrightnessCaptioner(), options).changes
    assert isinstance(first.geometry, MultiPolygon) and len(first.geometry.geoms) == 3
    assert second.geometry.equals(alone.changes[3].geometry)
    expected = [change.change_probability for change in alone.changes[:3]]
    assert first.change_probability == pytest.approx(np.mean(expected), rel=1e-3)
    assert min(expected) < 0.75 < max(expected)


def test_an_event_at_the_edge_of_the_box_is_whole(tmp_path):
    row = [(30, 20 + 40 * n, 20, 20, 240) for n in range(12)]
    options = SceneOptions(group_distance=12.0, simplify=0)
    with search(tmp_path, row, Window(0, 0, 30, 150), options, size=(150, 600)) as searching:
        [event] = found_by(searching).events
    assert len(event.places) == 12
    with search(tmp_path, row, Window(0, 0, 30, 150), SMALL, size=(150, 600)) as searching:
        found = found_by(searching)
    assert [len(event.places) for event in found.events] == [1]
    assert len(found.others) >= 1


def test_what_is_too_small_joins_no_event(tmp_path):
    spots = [(30, 30, 20, 20, 240), (38, 58, 4, 4, 240), (30, 70, 20, 20, 240)]
    pair = make_pair(tmp_path, spots)
    for smallest, count in ((0.5, 1), (10.0, 2)):
        options = SceneOptions(group_distance=4.5, min_area=smallest, simplify=0)
        changes = caption_scene(pair.before, pair.after, BrightnessCaptioner(), options).changes
        assert len(changes) == count


def turned_house(folder):
    shape, truth = (150, 210), rotate(box(60, 40, 120, 80), 25)
    image = np.full((3, *shape), GROUND, np.uint8)
    grid = {"transform": north_up(500_000.0, 5_600_000.0, 0.5), "crs": "EPSG:32633"}
    before = write_raster(folder / "before.tif", image, **grid)
    image[:, rasterize([truth], out_shape=shape).astype(bool)] = 240
    return before, write_raster(folder / "after.tif", image, **grid), truth


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
        searching = Search(pair, BrightnessCaptioner(), SceneOptions(), Batches(8))
        events = found_by(searching).events
        [drawn] = right_angled(pair, events, 0.0)
        assert drawn.geometry != events[0].geometry
        [kept] = right_angled(pair, events, drawn.area_m2 + 0.01)
    assert kept == events[0]


def test_events_are_in_reading_order(tmp_path):
    spots = [(100, 20, 10, 10, 240), (20, 150, 10, 10, 240), (20, 20, 10, 10, 240)]
    with search(tmp_path, spots) as searching:
        events = in_order(reversed(found_by(searching).events))
    assert [event.outline.bounds[:2] for event in events] == [(20, 20), (150, 20), (20, 100)]

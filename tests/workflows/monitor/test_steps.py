"""Steps in made series of 30 m: their dates among seasons, haze and clouds, few dates, bands, blocks."""

from dataclasses import replace

import numpy as np
import pytest
from painted_months import ROOF, SOIL, months, paint, write_months
from rasters import north_up, write_scene
from shapely.geometry import box

from tiling import describe, to_wgs84
from workflows.dates import PartialDate
from workflows.monitor import steps
from workflows.monitor.events import SeriesScene, Sighting
from workflows.monitor.history import history_of
from workflows.monitor.options import MonitorOptions
from workflows.monitor.step.clear import Ground, clear_series, usable_dates
from workflows.monitor.step.cube import SeriesCube
from workflows.monitor.step.fit import fit_steps, without_season
from workflows.monitor.step.kinds import Colors, kind_by_indices
from workflows.monitor.steps import find_steps

HALL, PIT = (slice(12, 24), slice(12, 24)), (slice(40, 52), slice(36, 50))
DATES = months(24)
# As the ground of `rasters.ORIGIN`.
WEST, NORTH, CELL = 500_000.0, 5_600_000.0, 30.0


def events_of(series):
    return find_steps(series, MonitorOptions())


def sure_of(events):
    """The events without those at the rim of others."""
    return [event for event in events if event.probability > 0.6]


def dates_of(event, series):
    return history_of(event.sightings, {scene.name: str(scene.date) for scene in series.scenes}, 2)


def overlap(event, place):
    """Share of a box of pixels and of the event that both cover."""
    rows, cols = place
    west, north = WEST + cols.start * CELL, NORTH - rows.start * CELL
    size = (cols.stop - cols.start) * CELL, (rows.stop - rows.start) * CELL
    truth = to_wgs84(box(west, north - size[1], west + size[0], north), "EPSG:32633")
    return truth.intersection(event.geometry).area / truth.union(event.geometry).area


@pytest.fixture(scope="module")
def town(tmp_path_factory):
    """A hall from June 2018 on and a pit from March 2019 on, with clouds over both."""
    clouds = {5: (slice(48, 60), slice(4, 20)), 14: (slice(36, 56), slice(32, 54))}
    images = paint(DATES, [(HALL, 5, 99, ROOF), (PIT, 14, 99, SOIL)], clouds)
    return write_months(tmp_path_factory.mktemp("town"), images, DATES)


@pytest.fixture(scope="module")
def found(town):
    return events_of(town)


def test_steps_have_their_outlines_and_dates(town, found):
    events = {event.kind: event for event in sure_of(found)}
    assert set(events) == {"changed", "bare_ground"}
    hall, pit = dates_of(events["changed"], town), dates_of(events["bare_ground"], town)
    assert overlap(events["changed"], HALL) > 0.6
    assert overlap(events["bare_ground"], PIT) > 0.6
    assert (hall.last_absent, hall.first_seen, hall.state) == ("2018-05", "2018-06", "confirmed")
    # A cloud hides the pit in its first month, which counts for neither side.
    assert (pit.last_absent, pit.first_seen) == ("2019-02", "2019-04")
    assert events["bare_ground"].sightings[14].state == "hidden"
    assert all(len(event.sightings) == len(DATES) for event in events.values())


@pytest.mark.slow
def test_a_scene_without_any_ground_is_hidden_and_changes_nothing(tmp_path, town, found):
    path = write_scene(tmp_path / "blank.tif", np.zeros((3, 64, 64), np.uint8), transform=north_up(cell=CELL))
    blank = SeriesScene(path.name, describe(path), PartialDate("2018-06-20"), "blank")
    events = events_of(replace(town, scenes=(*town.scenes[:6], blank, *town.scenes[6:])))
    assert [event.geometry for event in events] == [event.geometry for event in found]
    for event, expected in zip(events, found, strict=True):
        assert event.sightings[6] == Sighting("blank.tif", "hidden")
        assert (*event.sightings[:6], *event.sightings[7:]) == expected.sightings


@pytest.mark.slow
def test_a_clouded_date_counts_for_no_side_of_a_step(tmp_path):
    images = paint(DATES, [(HALL, 2, 99, ROOF), (PIT, 22, 99, ROOF)])
    for clouded in (1, 23):
        images[clouded] = np.random.default_rng(1).normal(235, 6, images[clouded].shape).clip(1, 255)
    events = events_of(write_months(tmp_path, images, DATES))
    assert not any(overlap(event, place) > 0.2 for event in events for place in (HALL, PIT))


@pytest.mark.slow
def test_season_haze_and_clouds_are_no_events(tmp_path):
    clouds = {3: HALL, 4: (slice(0, 30), slice(30, 56)), 22: PIT, 23: HALL}
    assert events_of(write_months(tmp_path, paint(DATES, clouds=clouds, seed=3), DATES)) == []


@pytest.mark.slow
def test_what_is_there_for_one_date_is_no_event(tmp_path):
    images = paint(DATES, [(HALL, 8, 9, ROOF)])
    assert events_of(write_months(tmp_path, images, DATES)) == []


@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_few_dates_are_searched(tmp_path, count):
    dates = ("1985", "1995", "2005", "2015", "2020")[:count]
    first = count - 1
    images = paint([f"{date}-06" for date in dates], [(HALL, first, 99, ROOF)])
    series = write_months(tmp_path, images, dates)
    for event in events_of(series):
        assert overlap(event, HALL) > 0.5
        assert dates_of(event, series).first_seen == dates[first]
        assert dates_of(event, series).state == "candidate"


def test_what_the_first_of_few_dates_alone_lacks_is_no_event(tmp_path):
    dates = ("1985", "1995", "2005", "2015", "2020")
    images = paint([f"{date}-06" for date in dates], [(HALL, 1, 99, ROOF)])
    assert events_of(write_months(tmp_path / "five", images, dates)) == []
    assert len(events_of(write_months(tmp_path / "three", images[:3], dates[:3]))) > 0


def test_fine_pixels_are_averaged(tmp_path):
    series = write_months(tmp_path, paint(DATES[:2]), DATES[:2], transform=north_up(cell=4.0))
    with SeriesCube.open(series, MonitorOptions()) as cube:
        assert (cube.grid.gsd, cube.grid.width) == (10.0, 26)


@pytest.mark.slow
def test_named_bands_tell_water_by_an_index(tmp_path):
    rgb = paint(DATES, [(PIT, 10, 99, (20.0, 40.0, 30.0))])
    infrared = np.full((len(DATES), 1, *rgb.shape[2:]), 120, np.uint8)
    infrared[10:, :, *PIT] = 8
    images = np.concatenate([rgb, infrared], axis=1)
    names = ("red", "green", "blue", "nir")
    [event] = sure_of(events_of(write_months(tmp_path, images, DATES, names=names)))
    assert (event.kind, event.direction, event.facts["kind_by"]) == ("water", "appeared", "NDWI")


@pytest.mark.slow
def test_16_bit_scenes_have_the_events_of_8_bits(found, tmp_path):
    images = paint(DATES, [(HALL, 5, 99, ROOF), (PIT, 14, 99, SOIL)]).astype(np.uint16) * 40
    wide = write_months(tmp_path, images, DATES)
    assert [event.kind for event in sure_of(events_of(wide))] == [event.kind for event in sure_of(found)]


@pytest.mark.slow
def test_blocks_have_the_events_of_the_whole(town, found, monkeypatch):
    monkeypatch.setattr(steps, "BLOCK_VALUES", 1)
    monkeypatch.setattr(steps, "SMALLEST", 32)
    for one, other in zip(sure_of(found), sure_of(events_of(town)), strict=True):
        assert one.geometry.intersection(other.geometry).area > 0.9 * one.geometry.union(other.geometry).area
        assert [each.state for each in one.sightings] == [each.state for each in other.sightings]


@pytest.mark.parametrize(
    ("share", "first_gone"),
    [
        ((0, 0, 0.9, 0.9, 0.39, 0.2, 0.3), 4),  # some of its pixels look as after the step to the end
        ((0, 0, 0.9, 0.9, 0.41, 0.2, 0.3), 5),
        ((0, 0, 0.9, 0.9, 0.9, 0.9, 0.1), 7),  # a single last date ends nothing
        ((0, 0, 0.1, 0.1, 0.1, 0.1, 0.1), 7),
    ],
)
def test_an_event_is_gone_where_all_last_dates_look_as_before(share, first_gone):
    assert steps._gone_from(np.array(share), np.ones(7, bool), 2) == first_gone


def test_a_single_scene_has_no_events(town):
    assert find_steps(type(town)(town.place, town.folder, town.scenes[:1]), MonitorOptions()) == []


def test_haze_over_one_date_is_taken_off_and_a_change_of_the_ground_stays():
    random = np.random.default_rng(2)
    values = random.normal(100, 1, (6, 3, 60, 60)).astype(np.float32)
    values[4:, :, 20:30, 20:30] += 40
    clear = values.copy()
    ground = Ground(noise=1.0, white=250.0, spread=np.full(3, 3.0))
    values[3] += 4
    found = clear_series(values, np.ones((6, 60, 60), bool), ground)
    assert np.abs((found - clear).mean(axis=(1, 2, 3))).max() < 1
    assert (found[4:, :, 22:28, 22:28] - found[:3, :, 22:28, 22:28].mean(axis=0)).min() > 30


def test_white_that_stays_is_a_roof_and_white_of_a_date_or_two_is_cloud():
    values = np.random.default_rng(3).normal(100, 1, (9, 3, 40, 60)).astype(np.float32)
    ground = Ground(noise=1.0, white=150.0, spread=np.full(3, 3.0))
    values[5:, :, 10:20, 10:20] = values[4:6, :, 10:20, 40:50] = 220
    usable = usable_dates(values, np.ones((9, 40, 60), bool), ground)
    assert usable[:, 12:18, 12:18].all()
    assert usable[:, 12:18, 42:48].all(axis=(1, 2)).tolist() == [True] * 4 + [False] * 2 + [True] * 3


def test_the_statistic_is_hotellings():
    random = np.random.default_rng(1)
    values = random.normal(100, 5, (8, 3, 1, 1)).astype(np.float32)
    found = fit_steps(values, without_season(np.full(8, np.nan)), np.zeros((3, 3)))
    before, after = values[:3, :, 0, 0], values[3:, :, 0, 0]
    step = after.mean(axis=0) - before.mean(axis=0)
    scatter = sum((one - one.mean(axis=0)).T @ (one - one.mean(axis=0)) for one in (before, after))
    # COMMON adds four degrees of freedom, here without noise.
    expected = step @ np.linalg.solve(scatter / (6 + 4), step) / (1 / 3 + 1 / 5)
    assert found.first[1] == 3
    assert found.size[1, :, 0, 0] == pytest.approx(step, rel=1e-4)
    assert found.strength[1, 0, 0] ** 2 == pytest.approx(expected, rel=1e-2)


def test_a_season_is_removed():
    months_ = np.arange(24.0)
    remove = without_season(months_)
    assert np.abs(remove @ np.cos(2 * np.pi * months_ / 12)).max() < 0.15
    assert np.abs(remove @ np.ones(24)).max() < 1e-9


def test_a_date_known_to_the_year_only_leaves_the_season_of_the_others():
    months_ = np.arange(24.0)
    season = np.cos(2 * np.pi * months_ / 12)
    months_[7] = np.nan
    season[7] = 0
    assert np.abs(without_season(months_) @ season).max() < 0.2


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ((100, 110, 60), (140, 120, 75), "bare_ground"),  # a fifth brighter, and less green
        ((140, 120, 75), (160, 165, 90), "changed"),  # a fifth brighter, and greener
        ((100, 100, 100), (118, 118, 118), "changed"),
        ((120, 90, 60), (200, 150, 100), "bare_ground"),  # much brighter
        ((100, 110, 60), (15, 45, 45), "water"),
    ],
)
def test_colours_tell_bare_ground_and_water(before, after, kind):
    colors = Colors(np.zeros(3), 255.0)
    assert colors.kind(np.array(before, float), np.array(after, float)).kind == kind


@pytest.mark.parametrize(
    ("after", "kind"),
    [
        ({"green": 30, "red": 20, "nir": 60}, "water"),
        ({"green": 40, "red": 20, "nir": 40}, None),  # perhaps still water: the green is no vegetation
    ],
)
def test_no_plants_grow_or_vanish_where_one_date_shows_water(after, kind):
    water, other = (
        {name: np.full(3, float(value)) for name, value in date.items()}
        for date in ({"green": 60, "red": 60, "nir": 40}, after)
    )
    for dates in ((water, other), (other, water)):
        found = kind_by_indices(*dates, tuple(after))
        assert (found and found.kind) == kind

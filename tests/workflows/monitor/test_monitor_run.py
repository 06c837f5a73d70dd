"""Updates of a monitor: any order of arrival, repeats, late and bad scenes, ids that last."""

import json
import os
import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import rasterio
from painted_series import DATES, FLICKER, HOUSE, SHOWN, find_squares, write_painted, write_series
from rasters import north_up
from servers import item

from tiling import SceneDamaged
from workflows.errors import ArchiveBusy, FolderOccupied, MarkMissing, MonitorDamaged, NoScenes
from workflows.monitor.discovery import find_scenes
from workflows.monitor.folder import MonitorFolder
from workflows.monitor.monitor import run_monitor
from workflows.monitor.options import MonitorOptions
from workflows.monitor.places import KnownScene, _is_twin, add_scenes


def update(out, *sources, finder=find_squares, **options):
    return run_monitor(list(map(str, sources)), out, MonitorOptions(**options), None, finder=finder)


def rows(out, *, ids=True):
    """The live events of a monitor without what depends on the order of arrival."""
    features = json.loads(Path(out, "events.geojson").read_text())["features"]
    drop = set() if ids else {"event_id", "site", "split_from", "merged_into"}
    return sorted(
        json.dumps([{k: v for k, v in one["properties"].items() if k not in drop}, one["geometry"]])
        for one in features
        if one["properties"]["state"] != "dropped" or ids
    )


def test_a_folder_of_scenes_gives_events_with_their_dates(tmp_path):
    write_series(tmp_path / "town")
    done = update(tmp_path / "out", tmp_path / "town")
    events = {event.found.kind: event for event in done.all_events if event.state == "confirmed"}
    house, pond = events["building"], events["water"]
    assert house.id == "town-1"
    assert (house.history.last_absent, house.history.first_seen) == ("2018-03", "2018-05")
    assert (pond.history.first_seen, pond.history.confirmed_on) == ("2018-07", "2018-09")
    assert [event.state for event in done.all_events].count("candidate") == 1
    assert (done.update.new_scenes, done.update.confirmed) == (5, 2)
    assert (tmp_path / "out" / "places" / "town" / "events.geojson").is_file()


def test_a_second_run_finds_nothing_to_do(tmp_path):
    write_series(tmp_path / "town")
    update(tmp_path / "out", tmp_path / "town")
    before = {path: path.read_bytes() for path in tmp_path.glob("out/**/*") if path.is_file()}

    def unused(*_):
        raise AssertionError("there is nothing to find")

    again = update(tmp_path / "out", tmp_path / "town", finder=unused)
    assert (again.update.new_scenes, again.update.news) == (0, {})
    assert {path: path.read_bytes() for path in tmp_path.glob("out/**/*") if path.is_file()} == before


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_any_order_of_arrival_gives_the_same_events(tmp_path, seed):
    paths = write_series(tmp_path / "scenes" / "town")
    update(tmp_path / "whole", tmp_path / "scenes")
    random.Random(seed).shuffle(paths)
    ids = {}
    for path in paths:
        done = update(tmp_path / "single", path)
        for event in done.all_events:
            # An id stays with its ground and its kind of change.
            ground = event.found.geometry.centroid.wkt[:14], event.found.kind
            assert ids.setdefault(event.id, ground) == ground
    with_place = [row.replace("15.003E50.550N", "town") for row in rows(tmp_path / "single", ids=False)]
    assert with_place == rows(tmp_path / "whole", ids=False)


def test_a_flicker_is_dropped_and_keeps_its_id(tmp_path):
    shown = {"2018-01": (), "2018-02": (FLICKER,), "2018-03": (), "2018-04": (HOUSE,), "2018-05": (HOUSE,)}
    write_series(tmp_path / "town", shown)
    states = {event.id: event.state for event in update(tmp_path / "out", tmp_path / "town").all_events}
    assert sorted(states.values()) == ["confirmed", "dropped"]


@pytest.mark.slow
def test_places_are_told_apart_by_their_ground(tmp_path):
    write_series(tmp_path / "mixed" / "a")
    write_series(tmp_path / "mixed" / "b", transform=north_up(x=600_000, cell=10.0))
    done = update(tmp_path / "out", tmp_path / "mixed")
    assert [view.place.name for view in done.places] == ["a", "b"]
    assert len({event.id for event in done.all_events}) == len(done.all_events) == 6
    flat = [path for place in "ab" for path in (tmp_path / "mixed" / place).iterdir()]
    assert len(update(tmp_path / "flat", *flat).places) == 2


def test_a_scene_that_cannot_be_read_is_left_out_and_tried_again(tmp_path):
    paths = write_series(tmp_path / "town")
    whole = paths[2].read_bytes()
    paths[2].write_bytes(whole[:100])
    done = update(tmp_path / "out", tmp_path / "town")
    assert done.update.scenes == 4 and any(str(paths[2]) in line for line in done.update.warnings)
    paths[2].write_bytes(whole)
    assert update(tmp_path / "out", tmp_path / "town").update.new_scenes == 1


@pytest.mark.slow
def test_new_scenes_with_damaged_pixels_are_left_out_and_known_ones_keep_the_state(tmp_path):
    paths = write_series(tmp_path / "town")
    expected = rows(update(tmp_path / "without", *paths[:3], paths[4]).path)
    before = rows(update(tmp_path / "known", *paths).path)
    damaged = True

    def finder(series, *rest):
        for scene in series.scenes:
            if damaged and scene.info.path == str(paths[3]):
                raise SceneDamaged(f"{paths[3]}: damaged", str(paths[3]))
        return find_squares(series, *rest)

    for _ in range(2):
        done = update(tmp_path / "out", *paths, finder=finder).update
        assert (done.scenes, done.failed) == (4, {}) and str(paths[3]) in done.warnings[0]
        assert rows(tmp_path / "out") == expected
    paths[3].write_bytes(paths[3].read_bytes() + b" ")
    failed = update(tmp_path / "known", *paths, finder=finder).update.failed
    assert str(paths[3]) in next(iter(failed.values()))
    assert rows(tmp_path / "known") == before
    damaged = False
    assert update(tmp_path / "out", *paths, finder=finder).update.new_scenes == 1
    assert rows(tmp_path / "out", ids=False) == rows(tmp_path / "known", ids=False)


def test_a_monitor_of_which_no_scene_can_be_read_is_refused(tmp_path):
    update(write_series(tmp_path / "town")[0].parent.parent / "out", tmp_path / "town")
    with pytest.raises(NoScenes):
        update(tmp_path / "again", tmp_path / "out")


def test_a_moved_scene_is_known_and_a_missing_one_leaves_the_place_as_it_was(tmp_path):
    paths = write_series(tmp_path / "town")
    update(tmp_path / "out", *paths[:4])
    (tmp_path / "town").rename(tmp_path / "moved")
    done = update(tmp_path / "out", tmp_path / "moved")
    assert (done.update.new_scenes, done.update.scenes, done.update.failed) == (1, 5, {})
    before = rows(tmp_path / "out")
    (tmp_path / "moved" / "2018-03.tif").unlink()
    late = write_painted(tmp_path / "2018-11.tif", SHOWN["2018-09"])
    done = update(tmp_path / "out", late)
    assert "2018-03.tif" in next(iter(done.update.failed.values()))
    assert rows(tmp_path / "out") == before


def test_the_header_of_a_scene_is_read_once_in_a_run(tmp_path):
    write_series(tmp_path / "town")
    options, places = MonitorOptions(), []
    found = find_scenes([str(tmp_path / "town")], options)
    assert not list(add_scenes(places, found.scenes, options))
    shutil.rmtree(tmp_path / "town")
    (place,) = places
    assert [one.info.path for one in place.series(tmp_path, options).scenes] == [
        scene.source for scene in place.scenes
    ]


@pytest.mark.slow
def test_scenes_that_were_copied_over_themselves_or_moved_without_their_times_are_known(tmp_path):
    paths = write_series(tmp_path / "town")
    update(tmp_path / "out", tmp_path / "town")
    before = rows(tmp_path / "out")

    def unused(*_):
        raise AssertionError("there is nothing to find")

    for path in paths:
        os.utime(path, ns=(1, 1))
    shutil.copytree(tmp_path / "town", tmp_path / "moved" / "town", copy_function=shutil.copyfile)
    for folder in ("town", "moved"):
        again = update(tmp_path / "out", tmp_path / folder, finder=unused).update
        assert (again.new_scenes, again.news, again.scenes) == (0, {}, len(paths))
        shutil.rmtree(tmp_path / "town", ignore_errors=True)
    assert rows(tmp_path / "out") == before
    write_painted(tmp_path / "moved" / "town" / paths[-1].name, [FLICKER])
    assert update(tmp_path / "out", tmp_path / "moved").update.new_scenes == 1


def test_a_copy_of_a_scene_does_not_confirm_it(tmp_path):
    shown = {date: SHOWN[date] for date in DATES[:3]}
    write_series(tmp_path / "town", shown)
    shutil.copytree(tmp_path / "town", tmp_path / "copy", copy_function=shutil.copyfile)
    done = update(tmp_path / "out", tmp_path / "town", tmp_path / "copy")
    assert done.update.scenes == 3 and len(done.update.warnings) == 3
    assert {event.state for event in done.all_events} == {"candidate"}
    again = update(tmp_path / "out", tmp_path / "town", tmp_path / "copy")
    assert again.update.new_scenes == 0


def recompress(source, target):
    """Write a raster with the same pixels and other bytes."""
    with rasterio.open(source) as file:
        pixels, profile = file.read(), {**file.profile, "compress": "lzw"}
    with rasterio.open(target, "w", **profile) as file:
        file.write(pixels)


@pytest.mark.parametrize("day_first", [True, False])
def test_the_same_pixels_of_a_month_and_of_its_day_are_one_scene(tmp_path, day_first):
    write_series(tmp_path / "town", {date: SHOWN[date] for date in DATES[:3]})
    (tmp_path / "day").mkdir()
    recompress(tmp_path / "town" / "2018-05.tif", tmp_path / "day" / "2018-05-15.tif")
    first, second = ("day", "town") if day_first else ("town", "day")
    update(tmp_path / "out", tmp_path / first)
    done = update(tmp_path / "out", tmp_path / second)
    assert len(done.update.warnings) == 1 and "2018-05.tif: left out for" in done.update.warnings[0]
    assert {event.state for event in done.all_events} == {"candidate"}
    assert [scene.date for scene in done.places[0].place.scenes] == [*DATES[:2], "2018-05-15"]


def test_the_same_pixels_of_one_date_do_not_take_turns(tmp_path):
    write_series(tmp_path / "town", {date: SHOWN[date] for date in DATES[:3]})
    (tmp_path / "again").mkdir()
    for path in (tmp_path / "town").glob("*.tif"):
        recompress(path, tmp_path / "again" / path.name)
    for folder, new in (("town", 3), ("again", 0), ("town", 0), ("again", 0)):
        done = update(tmp_path / "out", tmp_path / folder).update
        assert (done.new_scenes, done.scenes) == (new, 3)


def test_hidden_ground_counts_for_neither_side(tmp_path):
    write_painted(tmp_path / "2018-01.tif")
    write_painted(tmp_path / "2018-02.tif", hidden=[HOUSE])
    write_painted(tmp_path / "2018-03.tif", [HOUSE])
    event = update(tmp_path / "out", *sorted(tmp_path.glob("*.tif"))).all_events[0]
    assert (event.history.last_absent, event.history.usable) == ("2018-01", 2)


def test_since_gives_what_changed_by_the_dates_of_the_scenes(tmp_path):
    write_series(tmp_path / "town")
    done = update(tmp_path / "out", tmp_path / "town")
    assert [event.found.kind for event in done.since("2018-09")] == ["water", "building"]
    assert len(done.since("2018")) == 3 and done.since("2019") == []


def test_a_folder_with_other_files_is_refused_and_left_alone(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    write_series(tmp_path / "town")
    with pytest.raises(FolderOccupied, match="mine"):
        update(tmp_path / "mine", tmp_path / "town")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["letter.txt"]


@pytest.mark.parametrize(
    "place",
    ["places", "places/town", "places/town/maps", "places/town/maps/pairs-1/a-b", "places/town/items/1.json"],
)
def test_a_link_in_a_monitor_is_not_followed(tmp_path, place):
    MonitorFolder(tmp_path / "out").create()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "step-1.json").write_text("mine")
    link = tmp_path / "out" / place
    link.parent.mkdir(parents=True, exist_ok=True)
    if link.is_dir():
        link.rmdir()
    link.symlink_to(tmp_path / "mine")
    with pytest.raises(FolderOccupied, match=link.name):
        MonitorFolder(tmp_path / "out").create()
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["step-1.json"]


def test_scenes_without_dates_are_refused(tmp_path):
    write_painted(tmp_path / "before.tif")
    with pytest.raises(NoScenes, match=r"before\.tif"):
        update(tmp_path / "out", tmp_path)
    with pytest.raises(MarkMissing, match="out"):
        update(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_one_run_at_a_time(tmp_path):
    folder = MonitorFolder(tmp_path / "out")
    folder.create()
    write_series(tmp_path / "town")
    with folder.lock(), pytest.raises(ArchiveBusy, match="out"):
        update(tmp_path / "out", tmp_path / "town")


@pytest.mark.parametrize("content", [b"", b"[1]", b'{"events": 3}', b"\xff"])
def test_a_damaged_state_is_named(tmp_path, content):
    write_series(tmp_path / "town")
    update(tmp_path / "out", tmp_path / "town")
    damaged = tmp_path / "out" / "places" / "town" / "events.json"
    damaged.write_bytes(content)
    with pytest.raises(MonitorDamaged, match=r"events\.json"):
        update(tmp_path / "out", tmp_path / "town")


def test_the_outputs_are_no_scenes(tmp_path):
    write_series(tmp_path)
    update(tmp_path / "out", tmp_path)
    write_painted(tmp_path / "out" / "places" / "2018-11.tif")
    assert update(tmp_path / "out", tmp_path).update.scenes == 5


def test_clouds_of_a_table_come_before_those_of_a_scene(tmp_path):
    for name, square in (("a", ()), ("b", (HOUSE,))):
        write_painted(tmp_path / f"{name}.tif", square, tags={"CLOUD_COVER": "40"})
    table = tmp_path / "pairs.csv"
    table.write_text("before,after,date_before,date_after,cloud_after\na.tif,b.tif,2018-01,2018-02,0\n")
    clouds = {scene.name: scene.cloud for scene in find_scenes([str(table)], MonitorOptions()).scenes}
    assert clouds == {"a.tif": 40, "b.tif": 0}


def test_stac_items_have_their_dates_and_clouds(tmp_path):
    items = [item("b", "2018-02-01", **{"eo:cloud_cover": 30}), item("a", "2018-01-01"), item("c", "2018")]
    items[2]["properties"]["datetime"] = None
    (tmp_path / "items.json").write_text(json.dumps({"type": "FeatureCollection", "features": items}))
    found = find_scenes([str(tmp_path / "items.json")], MonitorOptions())
    known = {(scene.date, scene.cloud) for scene in found.scenes}
    assert known == {("2018-01-01", None), ("2018-02-01", 30)} and len(found.skipped) == 1


def test_a_scene_whose_file_is_gone_is_no_twin(tmp_path):
    new = KnownScene("a.tif", str(tmp_path / "new" / "a.tif"), "2018-01", "key", 0.5)
    old = replace(new, source=str(tmp_path / "a.tif"))
    assert not _is_twin(old, new)
    (tmp_path / "a.tif").touch()
    assert _is_twin(old, new)

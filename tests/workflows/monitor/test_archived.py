"""A finished archive of consecutive pairs feeds a monitor: its maps are used, and no network runs."""

import csv
import json
import shutil
from itertools import pairwise
from pathlib import Path

import pytest
from archive_pairs import InlineEngine
from rasters import north_up, write_scene
from test_stacks import DATES, StackCaptioner, image_of, states

from workflows import SceneOptions
from workflows.archive.archive import ArchiveOptions
from workflows.archive.run import run_archive
from workflows.monitor.monitor import run_monitor
from workflows.monitor.options import MonitorOptions
from workflows.monitor.stack import archived, pairs
from workflows.pairs.table import read_pairs


class Refusing:
    """A detector of clouds that nobody may use."""

    def __getattr__(self, name):
        raise AssertionError("the detector of clouds was asked")


class Silent(StackCaptioner):
    """Has the rules of the model, and no network."""

    veils = Refusing()

    def survey(self, *dates):
        raise AssertionError("the network was asked")


def write_archive(folder: Path, scenes: list[Path], *, model=None, **options) -> Path:
    """Run the consecutive pairs of scenes into an archive, with their maps."""
    table = folder / "pairs.csv"
    with table.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["before", "after", "date_before", "date_after", "site"])
        for before, after in pairwise(scenes):
            writer.writerow([before, after, before.stem, after.stem, "town"])
    rows = read_pairs(table)
    engine, model = InlineEngine(), model or StackCaptioner()
    engine._captioner = model
    how = SceneOptions(), ArchiveOptions(**{"keep_maps": True, **options})
    run_archive(rows, folder / "archive", model.card, lambda: engine, *how)
    return folder / "archive"


def update(out, *sources, captioner=None):
    model = captioner or StackCaptioner()
    return run_monitor(list(map(str, sources)), out, MonitorOptions(), lambda: model)


def told(done):
    return sorted((event.state, event.caption, event.properties()["first_seen"]) for event in done.all_events)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Scenes of a town, an archive of them, and a monitor of that archive; nobody changes them."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "town").mkdir()
    scenes = [write_scene(folder / "town" / f"{d}.tif", image_of(n)) for n, d in enumerate(DATES)]
    archive = write_archive(folder, scenes)
    return scenes, archive, update(folder / "out", archive, captioner=Silent())


@pytest.mark.slow
def test_the_events_are_those_of_consecutive_pairs_and_no_network_runs(tmp_path, made, monkeypatch):
    scenes, _, done = made
    assert not done.update.failed and not done.update.warnings
    assert (done.update.scenes, done.places[0].place.name) == (len(DATES), "town")
    assert "aaassss" in map(states, (event.found for event in done.all_events))
    near = pairs.near_pairs
    monkeypatch.setattr(pairs, "near_pairs", lambda count: near(count, 1))
    assert told(update(tmp_path / "other", scenes[0].parent)) == told(done)


@pytest.mark.slow
def test_a_scene_that_the_archive_lacks_is_compared_with_all_near_it(tmp_path, made):
    shutil.copytree(made[2].path, tmp_path / "out")
    late, model = write_scene(tmp_path / "2018-08-01.tif", image_of(7)), StackCaptioner()
    assert not update(tmp_path / "out", late, captioner=model).update.failed
    assert model.surveyed == pairs.REACH  # of one tile each


@pytest.mark.slow
def test_maps_on_other_pixels_of_the_ground_are_moved(tmp_path, monkeypatch):
    # In large scenes nearly all bytes are pixels.
    monkeypatch.setattr(archived, "_OTHER_BYTES", 2**12)
    (tmp_path / "town").mkdir()
    scenes = []
    for number, date in enumerate(DATES[:5]):
        place = north_up() * north_up(0, 0, 1).translation(-0.3 * (number % 2), 0.3 * (number % 2))
        scenes.append(write_scene(tmp_path / "town" / f"{date}.tif", image_of(number), transform=place))
    done = update(tmp_path / "out", write_archive(tmp_path, scenes), captioner=Silent())
    assert "aaass" in map(states, (event.found for event in done.all_events))


def spoil_link(folder: Path, outside: Path) -> None:
    shutil.copy(folder / "probability.tif", outside)
    (folder / "probability.tif").unlink()
    (folder / "probability.tif").symlink_to(outside)


def spoil_pixels(folder: Path, outside: Path) -> None:
    content = bytearray((folder / "probability.tif").read_bytes())
    content[-200:] = bytes(200)
    (folder / "probability.tif").write_bytes(content)


def spoil_size(folder: Path, outside: Path) -> None:
    with (folder / "evidence.tif").open("r+b") as file:
        file.truncate(2**40)


def spoil_place(folder: Path, outside: Path) -> None:
    about = json.loads((folder / "maps.json").read_text())
    about["grid"]["transform"][2] += 1000
    (folder / "maps.json").write_text(json.dumps(about))


def spoil_model(folder: Path, outside: Path) -> None:
    about = json.loads((folder / "maps.json").read_text())
    about["model"]["version"] = "0"
    (folder / "maps.json").write_text(json.dumps(about))


@pytest.mark.slow
def test_maps_that_cannot_be_used_are_made_by_the_network(tmp_path, made):
    spoilt = [spoil_link, spoil_pixels, spoil_size, spoil_place, spoil_model]
    shutil.copytree(made[1], tmp_path / "archive")
    for spoil, folder in zip(spoilt, sorted((tmp_path / "archive" / "pairs").iterdir()), strict=False):
        spoil(folder, tmp_path / "outside.tif")
    model = StackCaptioner()
    done = update(tmp_path / "out", tmp_path / "archive", captioner=model)
    assert model.surveyed == len(spoilt) and not done.update.failed
    assert told(done) == told(made[2])


@pytest.mark.slow
def test_pairs_without_maps_are_done_again_and_others_lose_none(tmp_path):
    (tmp_path / "town").mkdir()
    scenes = [write_scene(tmp_path / "town" / f"{d}.tif", image_of(n)) for n, d in enumerate(DATES[:3])]
    archive = write_archive(tmp_path, scenes, keep_maps=False)
    assert not list(archive.rglob("maps.json"))
    report = next(archive.glob("pairs/*/changes.geojson"))
    first = report.stat().st_mtime_ns
    write_archive(tmp_path, scenes)
    assert len(list(archive.rglob("maps.json"))) == 2
    second = report.stat().st_mtime_ns
    assert second > first
    for keep_maps in (True, False):
        write_archive(tmp_path, scenes, keep_maps=keep_maps)
    assert report.stat().st_mtime_ns == second and len(list(archive.rglob("maps.json"))) == 2
    other = StackCaptioner(threshold=0.4)
    write_archive(tmp_path, scenes, model=other, keep_maps=False)
    assert not list(archive.rglob("maps.json"))

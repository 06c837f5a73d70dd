"""Events in stacks of fine scenes, found by a captioner that compares brightness."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from captioners import FactCaptioner
from rasters import north_up, textured, write_scene

from rscc.facts.answers import ANSWERS
from rscc.visibility.cells import CELL
from tiling import describe
from workflows.dates import PartialDate
from workflows.errors import OptionInvalid
from workflows.monitor import stacks
from workflows.monitor.events import Series, SeriesScene
from workflows.monitor.options import MonitorOptions
from workflows.monitor.stack.pairs import REACH
from workflows.monitor.stacks import find_objects
from workflows.scene.visibility.layer import HIDDEN_BY

DATES = [f"2018-{month:02}-01" for month in range(1, 8)]
SIDE = 64
HOUSE, TENT = (slice(8, 24), slice(8, 24)), (slice(36, 52), slice(10, 26))
FLICKER = (slice(20, 36), slice(42, 58))


class StackCaptioner(FactCaptioner):
    """A fake with what is needed to keep features, which it does not make."""

    device, int8, bf16 = torch.device("cpu"), False, False
    detector = SimpleNamespace(backbone=None, change_head=None, pool=1)


def image_of(number: int) -> np.ndarray:
    """House from the fourth date on, tent on the third and fourth, something on the sixth alone."""
    image = 80 + textured(SIDE, SIDE) // 8 + np.uint8(2 * number)
    for place, shown in ((HOUSE, number >= 3), (TENT, number in (2, 3)), (FLICKER, number == 5)):
        if shown:
            image[:, *place] += 120
    return image


def write_stack(folder: Path, dates=DATES, **options) -> list[Path]:
    folder.mkdir()
    return [write_scene(folder / f"{date}.tif", image_of(DATES.index(date)), **options) for date in dates]


def series_of(folder: Path, scenes) -> Series:
    ordered = sorted(scenes, key=lambda path: path.stem)
    folder.mkdir(exist_ok=True)
    return Series(
        "town",
        folder,
        tuple(
            SeriesScene(path.name, describe(path), PartialDate(path.stem), f"{number:08x}")
            for number, path in ((int(path.stem[5:7]), path) for path in ordered)
        ),
    )


def events_of(folder: Path, scenes, captioner=None):
    return find_objects(series_of(folder, scenes), MonitorOptions(), captioner or StackCaptioner())


def states(event) -> str:
    return "".join(sighting.state[0] for sighting in event.sightings)


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    """The scenes of a stack, and the events that are found when all come at once."""
    folder = tmp_path_factory.mktemp("stack")
    scenes = write_stack(folder / "scenes")
    return scenes, events_of(folder / "maps", scenes)


@pytest.mark.slow
def test_what_lasts_is_an_event_and_what_one_date_shows_is_none(stack):
    _, events = stack
    assert sorted(map(states, events)) == ["aaassss", "aassaaa"]
    house = next(event for event in events if states(event) == "aaassss")
    assert (house.kind, house.direction, house.count) == ("building", "appeared", 1)
    assert house.area_m2 == pytest.approx(64, rel=0.05)
    assert house.geometry.is_valid and house.facts["sentence"]
    assert [sighting.scene for sighting in house.sightings] == [f"{date}.tif" for date in DATES]
    assert all(0.5 < one.probability <= 1 for one in house.sightings if one.state == "seen")


@pytest.mark.slow
def test_events_do_not_depend_on_the_order_in_which_scenes_came(tmp_path, stack):
    scenes, expected = stack
    for numbers in ((6, 1, 3), (0, 6, 1, 3, 5)):
        events_of(tmp_path / "maps", [scenes[number] for number in numbers])
    assert events_of(tmp_path / "maps", scenes) == expected


@pytest.mark.slow
def test_a_scene_is_compared_with_those_near_it_only_and_nothing_is_repeated(tmp_path, stack):
    scenes, expected = stack
    captioner = StackCaptioner()
    events_of(tmp_path / "maps", scenes[:2], captioner)
    pair = captioner.surveyed
    events_of(tmp_path / "maps", scenes[:6], captioner)
    before = captioner.surveyed
    assert events_of(tmp_path / "maps", scenes, captioner) == expected
    assert captioner.surveyed == before + REACH * pair
    lost, damaged = sorted((tmp_path / "maps").rglob("maps.json"))[:2]
    lost.unlink()
    damaged.write_text(damaged.read_text()[:50])
    for step in (tmp_path / "maps").rglob("step-*.json"):
        step.write_text(step.read_text()[:-20])
    assert events_of(tmp_path / "maps", scenes, captioner) == expected
    assert captioner.surveyed == before + (REACH + 2) * pair


@pytest.mark.slow
def test_ground_that_a_date_does_not_show_is_hidden_and_footprints_may_differ(tmp_path, stack):
    scenes, expected = list(stack[0]), next(event for event in stack[1] if states(event) == "aaassss")
    image = image_of(4)
    image[:, :30, :30] = 0
    scenes[4] = write_scene(tmp_path / scenes[4].name, image, nodata=0)
    for number, (row, col) in ((0, (5, 2)), (6, (0, 4))):
        place = north_up() * north_up(0, 0, 1).translation(col, row)
        path = tmp_path / scenes[number].name
        scenes[number] = write_scene(path, image_of(number)[:, row:, col:], transform=place)
    found = next(event for event in events_of(tmp_path / "maps", scenes) if states(event) == "aaashss")
    assert found.geometry.intersection(expected.geometry).area > 0.95 * expected.geometry.area
    assert found.area_m2 == pytest.approx(expected.area_m2, rel=0.05)


@pytest.mark.slow
def test_an_event_is_followed_for_so_many_scenes(tmp_path, stack, monkeypatch):
    monkeypatch.setattr(stacks, "FOLLOWED", 3)
    assert sorted(map(states, events_of(tmp_path / "maps", stack[0]))) == ["aaasss", "aassa"]
    kept = [json.loads(path.read_text()) for path in (tmp_path / "maps").rglob("step-*.json")]
    assert all(0 < len(change["pooled"]) <= 15 for changes in kept for change in changes)


def test_a_model_without_fact_heads_is_refused_by_name(tmp_path):
    scenes = write_stack(tmp_path / "scenes", DATES[:2])
    captioner = StackCaptioner()
    captioner.facts = None
    with pytest.raises(OptionInvalid, match="brightness"):
        events_of(tmp_path / "maps", scenes, captioner)


def test_maps_of_other_facts_are_not_used_again(tmp_path):
    scenes = write_stack(tmp_path / "scenes", DATES[:2])
    surveyed = []
    for facts in ("1" * 64, "1" * 64, "2" * 64):
        captioner = StackCaptioner(facts_sha256=facts)
        events_of(tmp_path / "maps", scenes, captioner)
        surveyed.append(captioner.surveyed > 0)
    assert surveyed == [True, False, True]


@pytest.fixture
def with_house(tmp_path):
    """Return a function that writes three scenes, those of some numbers with a bright square."""

    def written(*numbers: int) -> list[Path]:
        scenes = write_stack(tmp_path / "scenes", DATES[:3])
        for number, path in enumerate(scenes):
            image = image_of(0)
            if number in numbers:
                image[:, *HOUSE] += 120
            write_scene(path, image)
        return scenes

    return written


class GoneCaptioner(StackCaptioner):
    """Every change is a building that is gone."""

    def survey(self, before, after):
        found, logits = super().survey(before, after)
        for answer, logit in (("came building", -5), ("came road", -5), ("gone building", 5)):
            logits[:, ANSWERS.index(answer)] = logit
        return found, logits


@pytest.mark.slow
def test_an_object_that_the_first_date_alone_shows_is_no_event(tmp_path, with_house):
    scenes, captioner = with_house(0), GoneCaptioner()
    assert events_of(tmp_path / "maps", scenes, captioner) == []
    [gone] = events_of(tmp_path / "maps", scenes[:2], captioner)
    assert gone.direction == "disappeared"


@pytest.mark.slow
@pytest.mark.parametrize(("numbers", "shown", "role"), [((1, 2), "ass", 0), ((2,), "aas", 1)])
def test_what_a_veil_on_an_outer_date_explains_is_no_event(tmp_path, with_house, numbers, shown, role):
    scenes, captioner = with_house(*numbers), StackCaptioner()
    assert [states(one) for one in events_of(tmp_path / "maps", scenes)] == [shown]
    for by, column, count in (("cloud", 16, 0), ("cloud", 8, 1), ("fill", 16, 1)):

        def layers(before, after, by=by, column=column):
            found = np.zeros((10, *before.shape[1:]), np.uint8)
            found[role, :, : column // CELL] = HIDDEN_BY.index(by)
            return found

        captioner.veils = SimpleNamespace(layers=layers)
        assert len(events_of(tmp_path / f"{by}_{column}", scenes, captioner)) == count

"""Every trip over a pair reads the header of each scene once."""

from __future__ import annotations

from collections import Counter

import pytest
from fakes import BrightnessCaptioner, card
from scene_pairs import make_pair

import tiling.scene
from workflows import SceneOptions, caption_scene
from workflows.cli.app import main
from workflows.engines.tasks import Task, run_task
from workflows.inspection.explain import explain_pair
from workflows.inspection.inspect import inspect_pair
from workflows.scene.opening import read_headers
from workflows.scene.parts import find_part, split_of


@pytest.fixture
def pair(tmp_path):
    return make_pair(tmp_path, [(40, 150, 12, 20, 220)], size=(300, 420))


@pytest.fixture
def headers(monkeypatch):
    """How often the header of each file was read."""
    reads = Counter()
    describe = tiling.scene._described

    def counting(location, access, file):
        reads[location.shown] += 1
        return describe(location, access, file)

    monkeypatch.setattr(tiling.scene, "_described", counting)
    return reads


TRIPS = {
    "caption_scene": lambda *scenes: caption_scene(*scenes, BrightnessCaptioner()),
    "inspect_pair": lambda *scenes: inspect_pair(*scenes, card()),
    "inspect_pair, timed": lambda *scenes: inspect_pair(*scenes, card(), load=BrightnessCaptioner),
    "explain_pair": lambda *scenes: explain_pair(*scenes, BrightnessCaptioner()),
    "split_of": lambda *scenes: split_of(*scenes, card(), SceneOptions(), 4),
}


@pytest.mark.parametrize("trip", TRIPS)
def test_a_trip_reads_each_header_once(pair, headers, trip):
    TRIPS[trip](pair.before, pair.after)
    assert headers == {str(pair.before): 1, str(pair.after): 1}


@pytest.mark.parametrize(("split_above", "state"), [(4096, "done"), (4, "split")])
def test_a_task_reads_each_header_once(pair, tmp_path, headers, split_above, state):
    scenes, options = (str(pair.before), str(pair.after)), SceneOptions(tile_cache=tmp_path / "tiles")
    task = Task("1", "a", "pair", 1, *scenes, options, split_above=split_above)
    assert run_task(task, BrightnessCaptioner(), "w").state == state
    assert headers == {str(pair.before): 1, str(pair.after): 1}


def test_a_part_reads_each_header_once(pair, tmp_path, headers):
    options = SceneOptions(tile_cache=tmp_path / "tiles")
    rows = split_of(*read_headers(pair.before, pair.after, SceneOptions()), card(), options, 4)
    assert len(rows) > 1
    headers.clear()
    find_part(pair.before, pair.after, BrightnessCaptioner(), options, rows[0])
    assert headers == {str(pair.before): 1, str(pair.after): 1}


@pytest.mark.parametrize(
    ("command", "options"), [("caption", ["-o", "r.geojson"]), ("inspect", []), ("explain", ["-o", "p.png"])]
)
def test_a_command_reads_each_header_once(pair, tmp_path, headers, monkeypatch, command, options):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(
            [command, str(pair.before), str(pair.after), *options],
            captioner_factory=lambda model, device: BrightnessCaptioner(),
            card_factory=lambda model: BrightnessCaptioner().card,
        )
    assert not ended.value.code
    assert headers == {str(pair.before): 1, str(pair.after): 1}

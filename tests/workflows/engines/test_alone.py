"""A pair in a process of its own: the report of this process, and its faults stay its own."""

from __future__ import annotations

import json

import pytest
from archive_fakes import load_fake
from command_here import exit_code
from inline_engine import InlineEngine
from lasting_records import without_times
from scene_pairs import make_pair

from workflows import caption_scene
from workflows.engines import alone
from workflows.engines.limits import Limits
from workflows.engines.tasks import ModelSource, Outcome
from workflows.errors import RunFailed, WorkflowError
from workflows.options import SceneOptions

SOURCE = ModelSource("any", "cpu", load_fake)


def scenes(folder, before="before.tif"):
    pair = make_pair(folder, [(20, 30, 25, 30, 220)], names=(before, "after.tif"))
    return str(pair.before), str(pair.after)


def plain(content):
    """A report without what tells of its run."""
    return {**content, "rscc": without_times(content["rscc"], "memory")}


@pytest.mark.slow
def test_an_isolated_scene_is_read_in_another_process_and_its_report_is_the_same(tmp_path, monkeypatch):
    before, after = scenes(tmp_path)
    expected = caption_scene(before, after, load_fake("any", "cpu"), SceneOptions()).to_geojson()
    report, tiles = tmp_path / "report.geojson", tmp_path / "tiles"
    with monkeypatch.context() as patch:
        patch.setattr("rasterio.open", lambda *_, **__: pytest.fail("read here"))
        words = ("caption", before, after, "-o", report, "--isolate", "--tile-cache", tiles)
        assert exit_code(*words, captioner_factory=load_fake) == 0
    assert plain(json.loads(report.read_bytes())) == json.loads(json.dumps(plain(expected)))
    assert report.with_suffix(".qml").exists() and tiles.is_dir() and not list(tiles.rglob("row_*.zip"))


@pytest.mark.parametrize(
    ("outcome", "kind", "named"),
    [
        (None, WorkflowError, False),
        ({"state": "crashed", "error": "WorkerDied", "line": "SIGSEGV"}, RunFailed, True),
        ({"state": "failed", "error": "MemoryError", "line": "memory ran out"}, RunFailed, True),
        ({"state": "failed", "error": "NonFiniteOutput", "line": "NaN"}, RunFailed, False),
    ],
)
def test_a_fault_of_an_isolated_scene_keeps_its_kind(tmp_path, monkeypatch, outcome, kind, named):
    _, after = scenes(tmp_path)
    before = str(tmp_path / "missing.tif")
    answer = (lambda task: None) if outcome is None else lambda task: Outcome(task, **outcome)

    def engine(source, workers, limits):
        assert (source, workers, limits) == (SOURCE, 1, Limits())
        return InlineEngine(answer=answer)

    monkeypatch.setattr(alone, "LocalEngine", engine)
    with pytest.raises(kind) as raised:
        alone.caption_alone(before, after, SOURCE, SceneOptions())
    line = outcome["line"] if outcome else f"{before}: there is no such file; check the path"
    assert type(raised.value) is kind and raised.value.exit_code == kind.exit_code
    assert str(raised.value) == (f"{before} and {after}: {line}" if named else line)

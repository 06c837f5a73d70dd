from __future__ import annotations

import pickle
import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
from archive_fakes import Unpicklable, load_fake
from engines import lasting
from fakes import BrightnessCaptioner
from scene_pairs import make_pair

from rscc.errors import ModelNotFound
from workflows import SceneOptions, WorkflowError, caption_scene
from workflows.engines import tasks
from workflows.engines.tasks import ModelSource, Task, error_line, run_task
from workflows.scene import run


@pytest.fixture(autouse=True)
def as_it_was(monkeypatch):
    """The fake puts itself before the run of a pair: only for the length of a test."""
    monkeypatch.setattr(run, "caption_scene", run.caption_scene)
    monkeypatch.setattr(tasks, "_LOADED", {})


def task(pair, **values):
    fields = {"id": "1", "pair": "a", "kind": "pair", "attempt": 1, "options": SceneOptions()}
    return Task(**{**fields, "before": str(pair.before), "after": str(pair.after), **values})


@pytest.fixture
def pair(tmp_path):
    return make_pair(tmp_path, [(20, 30, 20, 30, 220), (90, 100, 25, 25, 30)])


def test_a_pair_comes_back_as_the_bytes_of_its_files(pair, tmp_path, monkeypatch):
    monkeypatch.setattr(tasks, "time", SimpleNamespace(perf_counter=iter((10.0, 12.5)).__next__))
    outcome = run_task(task(pair), BrightnessCaptioner(), "local-1")
    target = tmp_path / "alone.geojson"
    report = caption_scene(pair.before, pair.after, BrightnessCaptioner())
    report.write(target)
    assert target.read_bytes() == report.encoded()
    result = outcome.result
    assert lasting(result.report) == lasting(target.read_bytes())
    assert (result.changes, result.area_m2) == (2, pytest.approx(report.area_m2))
    assert result.tiles == report.run["tiling"]["tiles"] > 1
    assert result.warnings == tuple(report.run["warnings"])
    assert (outcome.state, outcome.worker, outcome.error, outcome.line) == ("done", "local-1", None, None)
    assert outcome.seconds == 2.5


def test_tasks_and_outcomes_travel_between_processes(pair):
    outcome = run_task(task(pair), BrightnessCaptioner(), "local-1")
    assert pickle.loads(pickle.dumps(outcome)) == outcome
    source = ModelSource("any", "cpu", load_fake)
    assert pickle.loads(pickle.dumps(source)) == source


def test_a_wrong_input_refuses_the_pair(pair):
    outcome = run_task(task(pair, after="missing.tif"), BrightnessCaptioner(), "w")
    assert (outcome.state, outcome.error, outcome.result) == ("refused", "SceneNotFound", None)
    assert "missing.tif" in outcome.line


class Unreachable(WorkflowError):
    exit_code = 1


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (Unreachable("s: cannot be reached"), "s: cannot be reached"),
        (RuntimeError("two\n  lines"), "unexpected RuntimeError: two lines"),
        (MemoryError(), "memory ran out; set --memory, or run less at a time"),
        (SystemExit(4), "unexpected SystemExit: 4"),
        (Unpicklable("this", "that"), "unexpected Unpicklable: this and that"),
    ],
)
def test_every_other_error_fails_the_attempt(pair, monkeypatch, error, line):
    def failing(*arguments):
        raise error

    monkeypatch.setattr(run, "caption_scene", failing)
    outcome = run_task(task(pair), BrightnessCaptioner(), "w")
    assert (outcome.state, outcome.error, outcome.line) == ("failed", type(error).__name__, line)
    assert pickle.loads(pickle.dumps(outcome)) == outcome


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://me:pass@host/a.tif?sig=abc: is not there", "https://host/a.tif: is not there"),
        ("/vsicurl/https://host/a.tif?sig=a/b:c (403)", "/vsicurl/https://host/a.tif (403)"),
        ("s3://bucket/a.tif, then s3://k@b/c.tif#x.", "s3://bucket/a.tif, then s3://b/c.tif."),
        ("scenes/a?.tif: x", "scenes/a?.tif: x"),
    ],
)
def test_no_secret_of_an_address_is_told(text, shown):
    assert error_line(WorkflowError(text)) == shown


def test_the_model_is_loaded_once_per_process_and_device():
    loaded = []

    def load(model, device):
        loaded.append(device)
        time.sleep(0.02)
        return BrightnessCaptioner()

    source = ModelSource("any", "cpu", load)
    threads = [threading.Thread(target=source.captioner) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert source.captioner() is source.captioner() and loaded == ["cpu"]
    assert replace(source, device="cuda:1").captioner() is not source.captioner() and loaded == [
        "cpu",
        "cuda:1",
    ]


def test_a_model_that_cannot_be_loaded_is_tried_again():
    source = ModelSource("missing", "cpu", load_fake)
    for _ in range(2):
        with pytest.raises(ModelNotFound, match="missing"):
            source.captioner()


def test_by_default_the_model_is_loaded_as_every_command_does(monkeypatch):
    import rscc.captioner

    monkeypatch.setattr(rscc.captioner, "load_captioner", lambda model, device: (model, device))
    source = ModelSource("a model of mine", "cuda:7")
    assert source.captioner() == ("a model of mine", "cuda:7")
    source.forget()

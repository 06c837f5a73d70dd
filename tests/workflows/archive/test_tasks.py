import pickle
import signal
import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
from archive_fakes import Unpicklable
from archive_pairs import lasting
from captioners import BrightnessCaptioner
from scene_pairs import make_pair

from workflows import SceneOptions, WorkflowError, caption_scene, progress
from workflows.archive.workers import jobs, local, tasks
from workflows.archive.workers.tasks import (
    ModelSource,
    Task,
    error_line,
    local_devices,
    run_part,
    run_task,
)
from workflows.progress import threads_each
from workflows.scene import run


@pytest.fixture(autouse=True)
def as_it_was(monkeypatch):
    """The fake puts itself before the run of a pair: only for the length of a test."""
    monkeypatch.setattr(run, "caption_scene", run.caption_scene)
    monkeypatch.setattr(tasks, "_LOADED", {})


def task(pair, **values):
    fields = {"pair": "a", "options": SceneOptions()}
    return Task(**{**fields, "before": str(pair.before), "after": str(pair.after), **values})


@pytest.fixture
def pair(tmp_path):
    return make_pair(tmp_path, [(20, 30, 20, 30, 220), (90, 100, 25, 25, 30)])


@pytest.mark.slow
def test_a_pair_comes_back_as_the_bytes_of_its_files(pair, tmp_path, monkeypatch):
    monkeypatch.setattr(tasks, "time", SimpleNamespace(perf_counter=iter((10.0, 12.5)).__next__))
    outcome = run_task(task(pair), BrightnessCaptioner(), "local-1")
    target = tmp_path / "alone.geojson"
    report = caption_scene(pair.before, pair.after, BrightnessCaptioner())
    report.write(target)
    assert target.read_bytes() == report.encoded()
    assert lasting(outcome.report) == lasting(target.read_bytes())
    assert (outcome.state, outcome.worker, outcome.error, outcome.line) == ("done", "local-1", None, None)
    assert outcome.seconds == 2.5


def test_a_wrong_input_refuses_the_pair(pair):
    outcome = run_task(task(pair, after="missing.tif"), BrightnessCaptioner(), "w")
    assert (outcome.state, outcome.error, outcome.report) == ("refused", "SceneNotFound", None)
    assert "missing.tif" in outcome.line


class Unreachable(WorkflowError):
    exit_code = 1


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (Unreachable("s: cannot be reached"), "s: cannot be reached"),
        (RuntimeError("two\n  lines"), "unexpected RuntimeError: two lines"),
        (MemoryError(), "memory ran out; set --memory, or use fewer workers"),
        (SystemExit(4), "unexpected SystemExit: 4"),
        (Unpicklable("this", "that"), "unexpected Unpicklable: this and that"),
    ],
)
def test_every_other_error_fails_the_attempt(pair, monkeypatch, error, line):
    def failing(*arguments, **options):
        raise error

    monkeypatch.setattr(run, "caption_scene", failing)
    outcome = run_task(task(pair), BrightnessCaptioner(), "w")
    assert (outcome.state, outcome.error, outcome.line) == ("failed", type(error).__name__, line)
    assert pickle.loads(pickle.dumps(outcome)) == outcome


def test_no_secret_of_an_address_is_told():
    told = error_line(WorkflowError("https://me:pass@host/a.tif?sig=abc: is not there"))
    assert told == "https://host/a.tif: is not there"


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


def large_task(pair, folder):
    """A task of a pair in an archive, that is to be split."""
    (folder / "rscc-archive.json").touch()
    return task(pair, maps=folder / "work" / "maps" / "a", split_above=4)


@pytest.mark.slow
def test_parts_of_a_killed_run_of_other_settings_are_in_nobodys_way(pair, tmp_path):
    def in_parts(task, rows):
        return all(run_part(task, BrightnessCaptioner(), one) for one in rows)

    def killed(task, rows):
        in_parts(task, rows[:1])
        raise OSError

    large = large_task(pair, tmp_path)
    other = replace(large, options=SceneOptions(date_before="2011"))
    assert run_task(other, BrightnessCaptioner(), "w", killed).state == "failed"
    assert (large.maps / "maps.json").exists()
    assert run_task(large, BrightnessCaptioner(), "w", in_parts).state == "done"


@pytest.mark.parametrize("unseen", ["archive", "part"])
def test_a_large_pair_is_done_whole_where_workers_do_not_see_the_archive(pair, tmp_path, unseen):
    large = large_task(pair, tmp_path)
    if unseen == "archive":
        (tmp_path / "rscc-archive.json").unlink()
    asked = []
    outcome = run_task(large, BrightnessCaptioner(), "w", lambda task, rows: bool(asked.append(rows)))
    assert outcome.state == "done" and len(asked) == (unseen == "part")
    assert not run_part(replace(large, maps=tmp_path / "absent"), BrightnessCaptioner(), (0, 10))


def test_workers_share_the_gpus_or_the_cores(monkeypatch):
    monkeypatch.setattr(tasks, "_visible_gpus", lambda: 2)
    assert local_devices("auto", None) == ["cuda:0", "cuda:1"]
    assert local_devices("cuda", 3) == ["cuda:0", "cuda:1", "cuda:0"]
    assert local_devices("cpu", 2) == ["cpu", "cpu"]
    monkeypatch.setattr(tasks, "_visible_gpus", lambda: 0)
    for module in (tasks, progress):
        monkeypatch.setattr(module, "cores", lambda: 6)
    assert local_devices("auto", None) == ["auto"] * 6
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert (threads_each(2), threads_each(9)) == (3, 1)
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert threads_each(2) == 5


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="signals are not masked on Windows")
def test_the_command_hears_ctrl_c_again_when_its_workers_have_started():
    with local._blocked_interrupts():
        assert signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_only_a_process_with_a_pair_is_ended_by_the_clock(monkeypatch):
    calls = []
    clock = SimpleNamespace(
        dump_traceback_later=lambda *_, **__: calls.append("runs"),
        cancel_dump_traceback_later=lambda: calls.append("stands"),
    )
    monkeypatch.setattr(jobs, "faulthandler", clock)
    with jobs._limited():
        with jobs._limited():
            pass
        assert calls[-1] == "runs"
    assert calls[-1] == "stands"

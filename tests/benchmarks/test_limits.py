"""What benchmarks/limits.py counts and shares out, on small inputs; the figures are for who runs it."""

import importlib
import inspect
import re
import threading
from itertools import count

import limits
import machine_limits
import pytest
import stages
import torch
from fakes import BrightnessCaptioner
from markdown_tables import cells_of
from scene_pairs import SPOTS, make_pair
from tiny_models import tiny_model
from turns import Pair


def test_the_limits_of_the_machine_are_measured(tmp_path) -> None:
    peaks = machine_limits.product_peaks(64)
    assert peaks["bf16"] > 0 and peaks["fp32"] > 0
    assert set(peaks) == {"bf16", "fp32", "int8"}
    assert machine_limits.memory_bandwidth(2**20) > 0
    file = tmp_path / "scene.tif"
    file.write_bytes(bytes(10**6))
    assert min(machine_limits.reading_rates(file)) > 0


def test_operations_read_and_write_their_tensors_once_and_views_are_free() -> None:
    first, second = torch.ones(10, 10), torch.ones(10)
    with limits.Traffic() as traffic:
        first.T.reshape(-1)[:4].view(2, 2)
        free = traffic.bytes
        first + second
    assert free == 2 * 4 * 100, "the transposed matrix is copied, nothing else"
    assert traffic.bytes - free == 4 * (100 + 10 + 100)


def test_four_times_the_pixels_cost_four_times_the_operations(monkeypatch) -> None:
    monkeypatch.setattr(limits, "fastest", lambda run, _repeats: run() is None)
    small, large = (limits.part_costs(tiny_model("rdd"), side, bf16=False) for side in (64, 128))
    assert set(small) == {"trunk", "head", "encoder"}
    for part in ("trunk", "head"):
        assert large[part].operations == pytest.approx(4 * small[part].operations)
        assert large[part].bytes > 3 * small[part].bytes
    assert small["encoder"].operations > 0


def test_a_batch_has_as_many_pixels_whatever_its_tiles() -> None:
    assert [limits.batch_of(side) for side in (256, 512, 1024, 4096)] == [16, 4, 1, 1]


class Clock:
    """Goes one second further whenever it is read."""

    def __init__(self):
        self.perf_counter = count().__next__
        self.thread_time = count(step=10).__next__


class Work:
    """Calls itself in several ways."""

    def outer(self):
        self.inner()
        return list(self.each())

    def inner(self):
        return None

    def each(self):
        yield from (1, 2)

    @classmethod
    def words(cls):
        return cls().outer()


@pytest.fixture
def clocks(monkeypatch):
    monkeypatch.setattr(stages, "time", Clock())
    for name in ("outer", "inner", "each", "words"):
        monkeypatch.setattr(Work, name, inspect.getattr_static(Work, name))
    made = stages.Clocks()
    own = [(name, f"{__name__}:Work.{name}") for name in ("outer", "inner", "each", "words", "gone")]
    made.wrap([*own, ("gone", "no_such_module:Work.gone")])
    return made


def test_a_stage_has_its_own_time_alone(clocks) -> None:
    assert Work().outer() == [1, 2]
    # Every reading is a second: inner takes one, each item and the end of the generator one each.
    assert clocks.here == {"outer": 6, "inner": 1, "each": 4}
    assert [path.split(":")[1] for path in clocks.missing] == ["Work.gone"] * 2


def test_words_keep_what_they_call(clocks) -> None:
    assert Work.words() == [1, 2]
    assert clocks.here == {"words": 1}


def test_other_threads_are_told_apart(clocks) -> None:
    thread = threading.Thread(target=Work().inner)
    thread.start()
    thread.join()
    assert (clocks.here, clocks.elsewhere) == ({}, {"inner": 10})


def test_every_stage_of_the_command_has_its_name(tmp_path, monkeypatch) -> None:
    for _, path in stages.STAGES:
        module, owner, name = re.fullmatch(r"(.+):(.+)\.(.+)", path).groups()
        owner = getattr(importlib.import_module(module), owner)
        # Set to what it is, so that it is set back afterwards.
        monkeypatch.setattr(owner, name, inspect.getattr_static(owner, name))
    made = make_pair(tmp_path, SPOTS, size=(256, 256))
    pair = Pair.of(made.before, made.after)
    found = stages.timed_run(pair, tmp_path / "report.geojson", lambda *_: BrightnessCaptioner())
    assert found["missing"] == []
    assert found["run"]["changes"] > 0
    assert found["loaded"] < found["ended"]
    assert {"open", "read", "mosaic", "outlines", "words", "record", "write"} <= set(found["here"])
    assert min(found["here"].values()) >= 0


def test_the_higher_of_two_measurements_counts() -> None:
    machine = {"operations_per_second": {"bf16": 2.0, "int8": None}, "memory_bytes_per_second": 3.0}
    again = {"operations_per_second": {"bf16": 1.0, "int8": None}, "memory_bytes_per_second": 4.0}
    assert limits.higher(machine, again) == {**machine, "memory_bytes_per_second": 4.0}


def test_floor_and_share_follow_from_what_was_measured() -> None:
    machine = {"operations_per_second": {"bf16": 2e12, "fp32": 1e12}, "memory_bytes_per_second": 1e10}
    part = {"operations": 1e10, "bytes": 1e8, "seconds": 0.02}
    model = {"tile": 256, "bf16": False, "parts": {"trunk": part, "head": part}, "seconds_alone": 0.05}
    trunk, _, search = cells_of(limits.models_table({"m": model}, machine))[2:]
    assert trunk == ["m", "trunk", "10.00", "100", "10.0", "10.0", "20.0", "50 %", "50.0", "49.15"]
    assert search == ["m", "search alone", "20.00", "200", "20.0", "20.0", "50.0", "40 %", "20.0", "19.66"]


def test_the_pair_is_told_beside_the_model_alone() -> None:
    found = {
        **{"pixels": 4e6, "km2": 1.0, "tile": 256, "tiles": 100, "times_seen": 1.64},
        **{"seconds": 20.0, "seconds_model_alone": 15.0},
    }
    text = limits.pair_table(found)
    assert cells_of(text)[2][1:] == ["20.00", "5.0", "0.20", "3.00"]
    assert (
        text.splitlines()[-1] == "100.0 tiles of 256 pixels see a pixel 1.64 times; 0.75 of the model alone"
    )


def test_stages_are_told_by_their_share_and_what_was_not_found() -> None:
    found = {"seconds": 4.0, "here": {"head": 1.0, "trunk": 3.0}, "elsewhere": {"read": 0.5}}
    text = limits.stages_table({**found, "missing": ["a:B.c"]})
    cells = cells_of(text)
    assert cells[2] == ["trunk", "3.00", "75.0 %", "0.00"]
    assert cells[4] == ["read", "0.00", "0.0 %", "0.50"]
    assert text.endswith("a:B.c")

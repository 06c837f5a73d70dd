"""Batches go through the model beside each other."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
import torch
from captioners import BrightnessCaptioner, captioned
from scene_pairs import make_pair

from workflows.errors import MemoryExhausted
from workflows.scene.network.threads import side_by_side, streams_of


@pytest.fixture
def four_cores():
    """Let torch compute in four threads, whatever the machine has."""
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


def test_who_gives_up_begins_no_more_batches():
    begun, go_on = [], [threading.Event() for _ in range(9)]

    def call(number):
        begun.append(number)
        go_on[number].wait(20)

    with pytest.raises(KeyboardInterrupt), side_by_side(call, range(9), 1) as results:
        go_on[0].set()
        next(results)
        threading.Timer(0.2, go_on[1].set).start()
        raise KeyboardInterrupt
    assert len(begun) <= 2


class Counting(BrightnessCaptioner):
    """Counts the calls that are in it at a time; those of ``together`` wait for each other."""

    def __init__(self, together: int, device: str, **values):
        super().__init__(**values)
        self.device, self.inside, self.most = device, 0, 0
        self._lock, self._meet = threading.Lock(), threading.Barrier(together)

    def search(self, before: np.ndarray, after: np.ndarray) -> np.ndarray:
        with self._lock:
            self.inside += 1
            self.most = max(self.most, self.inside)
        self._meet.wait(20)
        found = super().search(before, after)
        with self._lock:
            self.inside -= 1
        return found


@pytest.mark.usefixtures("four_cores")
@pytest.mark.parametrize(
    ("device", "localiser", "together"),
    [("cpu", "change_head", 2), ("cpu", "difference", 1), ("cuda:0", "change_head", 1)],
)
@pytest.mark.slow
def test_two_batches_at_a_time_on_a_processor_and_one_on_a_gpu(tmp_path, device, localiser, together):
    assert streams_of(device, 4, localiser) == together
    assert streams_of(device, 1, localiser) == 0
    # Two by two tiles, a change in each.
    places = [(10, 10, 20, 20, 240), (10, 70, 20, 20, 240), (70, 10, 20, 20, 240), (70, 70, 20, 20, 240)]
    pair = make_pair(tmp_path, places)
    model = Counting(together, device, localiser=localiser)
    report = captioned(pair, model, batch_size=2)
    assert model.most == together and model.inside == 0
    plain = captioned(pair, BrightnessCaptioner(), batch_size=1)
    assert report.changes == plain.changes and len(plain.changes) > 0


@pytest.mark.usefixtures("four_cores")
def test_what_one_batch_fails_on_ends_the_run(tmp_path):
    class Failing(BrightnessCaptioner):
        def search(self, before, after):
            if (after == 240).any():
                raise ValueError("no answer")
            return super().search(before, after)

    pair = make_pair(tmp_path, [(10, 10, 20, 20, 240), (200, 10, 20, 20, 250)], size=(300, 300))
    running = threading.active_count()
    with pytest.raises(ValueError):
        captioned(pair, Failing(), batch_size=2)
    assert threading.active_count() == running


class Small(BrightnessCaptioner):
    """Has room for so many tiles at a time, whoever brings them."""

    def __init__(self, room: int):
        super().__init__()
        self.device, self._room, self._inside, self._lock = "cpu", room, 0, threading.Lock()

    def search(self, before: np.ndarray, after: np.ndarray) -> np.ndarray:
        with self._lock:
            self._inside += len(before)
            full = self._inside > self._room
        try:
            time.sleep(0.01)
            if full:
                raise MemoryError("full")
            return super().search(before, after)
        finally:
            with self._lock:
                self._inside -= len(before)


@pytest.mark.slow
@pytest.mark.usefixtures("four_cores")
@pytest.mark.parametrize("room", [1, 2, 3])
def test_what_has_room_for_a_few_tiles_goes_on_with_these(tmp_path, room):
    pair = make_pair(tmp_path, [(10, 10, 20, 20, 240), (200, 200, 20, 20, 240)], size=(300, 300))
    report = captioned(pair, Small(room), batch_size=8)
    assert report.changes == captioned(pair, BrightnessCaptioner()).changes and len(report.changes) == 2
    (warning,) = (line for line in report.run["warnings"] if "memory ran out" in line)
    assert int(warning.rpartition(" ")[2]) <= max(room, 1)
    with pytest.raises(MemoryExhausted):
        captioned(pair, Small(0), batch_size=8)

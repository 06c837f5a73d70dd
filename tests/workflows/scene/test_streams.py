"""Batches go through the model beside each other."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from captioned import captioned
from fakes import BrightnessCaptioner
from scene_pairs import make_pair

from workflows.scene.streams import side_by_side, streams_of


@pytest.fixture
def four_cores():
    """Let torch compute in four threads, whatever the machine has."""
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("four_cores")
def test_threads_of_a_model_share_the_cores():
    for streams, share in ((2, 2), (3, 2), (1, 4), (0, 4)):
        with side_by_side(lambda _: torch.get_num_threads(), range(6), streams) as cores:
            assert [*cores] == [share] * 6
        assert torch.get_num_threads() == 4
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(torch.get_num_threads).result() == 4


def test_results_come_in_order_and_few_batches_are_taken_ahead():
    taken = []

    def batches():
        for number in range(9):
            taken.append(number)
            yield number

    for streams in (0, 1, 2):
        taken.clear()
        with side_by_side(lambda number: 10 * number, batches(), streams) as results:
            assert next(results) == 0 and len(taken) == streams + 1
            assert [*results] == [10 * number for number in range(1, 9)]


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


@pytest.mark.parametrize(
    ("device", "localiser", "together"),
    [("cpu", "change_head", 2), ("cpu", "difference", 1), ("cuda:0", "change_head", 1)],
)
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


def test_what_one_batch_fails_on_ends_the_run(tmp_path):
    class Failing(BrightnessCaptioner):
        def search(self, before, after):
            raise ValueError("no answer")

    running = threading.active_count()
    with pytest.raises(ValueError, match="no answer"):
        captioned(make_pair(tmp_path, [(10, 10, 20, 20, 240)]), Failing())
    assert threading.active_count() == running

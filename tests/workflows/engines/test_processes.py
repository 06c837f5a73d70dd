"""On which devices and with how many threads workers compute."""

from workflows.engines import processes
from workflows.engines.processes import local_devices, threads_each


def test_devices_take_turns(monkeypatch):
    monkeypatch.setattr(processes, "visible_gpus", lambda: 2)
    monkeypatch.setattr(processes, "cores", lambda: 5)
    assert local_devices("auto", None) == ["cuda:0", "cuda:1"]
    assert local_devices("cuda", 3) == ["cuda:0", "cuda:1", "cuda:0"]
    assert local_devices("cuda:1", 2) == ["cuda:1", "cuda:1"]
    assert local_devices("cpu", None) == ["cpu"] * 5
    monkeypatch.setattr(processes, "visible_gpus", lambda: 0)
    assert local_devices("auto", 2) == ["auto", "auto"]


def test_cores_are_shared_out_unless_the_user_says_otherwise(monkeypatch):
    monkeypatch.setattr(processes, "cores", lambda: 8)
    for asked, workers, threads in (("", 2, 4), ("", 16, 1), ("3", 2, 3), ("no", 4, 2)):
        monkeypatch.setenv("OMP_NUM_THREADS", asked)
        assert threads_each(workers) == threads

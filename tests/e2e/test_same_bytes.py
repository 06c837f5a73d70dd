"""The same scenes, model and settings make the same bytes, but for when a run began and how long it took."""

import json
import subprocess
import sys

import pytest
from scene_pairs import make_pair

# All that a report says of the clock.
TIMES = ("started", "seconds")


def without_times(report: bytes) -> bytes:
    """Return a report without its times; all other bytes stay as they are."""
    head, end, features = report.partition(b', "features": [')
    collection = json.loads(head + b"}")
    for name in TIMES:
        value = json.dumps(collection["rscc"][name])
        head, count = head.replace(f', "{name}": {value}'.encode(), b"", 1), head.count(f'"{name}"'.encode())
        assert count == 1, f"{name} stands in a report once"
    return head + end + features


@pytest.mark.slow
def test_two_processes_write_the_same_report(tmp_path, child_environment):
    make_pair(tmp_path, [(40, 50, 30, 50, 180), (100, 120, 20, 25, 10)])
    reports = []
    for number, seed in enumerate(("1", "2")):
        words = ["caption", "before.tif", "after.tif", "--model", "rscc-small", "--device", "cpu", "--quiet"]
        subprocess.run(
            [sys.executable, "-m", "rscc", *words, "--output", f"{number}.geojson"],
            cwd=tmp_path,
            env={**child_environment, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": seed},
            check=True,
        )
        reports.append((tmp_path / f"{number}.geojson").read_bytes())
        assert (tmp_path / f"{number}.qml").read_bytes() == (tmp_path / "0.qml").read_bytes()
    assert reports[0].count(b'"caption"') >= 1
    assert without_times(reports[0]) == without_times(reports[1])

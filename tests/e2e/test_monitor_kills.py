"""A monitor that is killed again and again ends with the tables of an undisturbed one."""

import os
import random
import shutil
import signal
import time
import traceback
from pathlib import Path

import pyogrio
import pytest
from painted_series import find_squares, write_series

from rscc.files import DRAFTS
from workflows.monitor.monitor import run_monitor
from workflows.monitor.options import MonitorOptions

pytestmark = [pytest.mark.slow, pytest.mark.kills]

TABLES = ("events.geojson", "events.parquet", "observations.parquet", "events.qgz", "notices.jsonl")


def update(folder: Path, scene: Path) -> None:
    told = {"feed": folder / "feed.xml", "notify": str(folder / "notices.jsonl")}
    run_monitor([str(scene)], folder / "out", MonitorOptions(), None, finder=find_squares, **told)


def in_child(folder: Path, scene: Path, seconds: float | None) -> bool:
    """Update in a process of its own, killed after some seconds; return whether it was."""
    child = os.fork()
    if child == 0:
        try:
            update(folder, scene)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


def content(folder: Path) -> dict[str, object]:
    # The id of the monitor is random; so is nothing else.
    own = (folder / "out" / "rscc-monitor.json").read_text().split('"')[3]
    tables = {
        path.name: path.read_bytes().replace(own.encode(), b"ID")
        for path in folder.rglob("*")
        if path.name in TABLES
    }
    for layer in ("events", "observations"):
        frame = pyogrio.read_dataframe(folder / "out" / "events.gpkg", layer=layer)
        tables[layer] = frame.drop(columns="geometry").to_csv() + str(frame.geometry.to_wkt().tolist())
    return tables


@pytest.mark.timeout(3600)
def test_kills_at_random_moments_change_no_table(tmp_path, kill_cycles):
    paths = write_series(tmp_path / "town")
    calm, killed = tmp_path / "calm", tmp_path / "killed"
    calm.mkdir()
    killed.mkdir()
    usual = float("inf")
    for path in paths:
        begin = time.monotonic()
        assert not in_child(calm, path, None)
        usual = min(usual, time.monotonic() - begin)
    random.seed(7)
    hits = 0
    for number, path in enumerate(paths):
        for _ in range(len(range(number, kill_cycles, len(paths)))):
            hits += in_child(killed, path, random.uniform(0, usual))
        for draft in killed.rglob(f"{DRAFTS}*"):  # as if a minute had passed: a new one may be another's
            os.utime(draft, (0, 0))
        assert not in_child(killed, path, None)
    assert content(killed) == content(calm)
    assert hits >= kill_cycles / 2
    left = [path.name for path in (killed / "out").rglob(".*") if path.is_file()]
    assert left == []
    print(f"{kill_cycles} kills of rscc monitor, {hits} of them at work")
    shutil.rmtree(killed)

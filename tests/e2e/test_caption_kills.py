"""Whenever `rscc caption` is killed: the old report or the new one, and the same command again ends it."""

from __future__ import annotations

import json
import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest
from archive_commands import commands, kill, wait_until
from scene_pairs import make_pair

CHANGES = [(30, 40, 25, 30, 220), (200, 100, 30, 40, 10), (330, 300, 30, 30, 200)]
HEIGHT = 400
OLD = b"an older report\n"
# Of the record: what tells of the clock, the machine and what was kept.
OF_THE_RUN = ("started", "seconds", "memory", "resumed_tiles")

pytestmark = [pytest.mark.slow, pytest.mark.kills]


def told(report: Path) -> dict:
    """What a report says of the scenes."""
    content = json.loads(report.read_bytes())
    for name in OF_THE_RUN:
        del content["rscc"][name]
    return content


def kept(folder: Path) -> int:
    """How many rows of tiles are finished in a tile cache."""
    return len(list(folder.glob("*/row_*.zip")))


def test_caption_killed_at_any_moment(tmp_path, monkeypatch, kill_cycles):
    monkeypatch.chdir(tmp_path)
    scenes = make_pair(tmp_path, CHANGES, size=(HEIGHT, 500))
    inputs = {path: path.read_bytes() for path in (scenes.before, scenes.after)}
    seed, moments, landed = random.Random(4), Counter(), 0
    words = ["caption", "before.tif", "after.tif", "--batch-size", "1", "-q", "-o"]
    with commands(tmp_path) as shell:
        assert shell.run(*words, "whole.geojson") == 0, shell.said()
        undisturbed, style = told(Path("whole.geojson")), Path("whole.qml").read_bytes()
        assert len(undisturbed["features"]) == len(CHANGES)
        tiling = undisturbed["rscc"]["tiling"]
        rows = (HEIGHT - tiling["overlap"]) // (tiling["tile"] - tiling["overlap"])
        for number in range(kill_cycles):
            folder = Path(f"run{number}")
            folder.mkdir()
            report, cache = folder / "report.geojson", folder / "tiles"
            replaces = bool(number % 2)
            if replaces:
                report.write_bytes(OLD)
            command = [*words, report, "--tile-cache", cache, "--overwrite"]
            process = shell.begin(*command)
            # Before and between any two rows, while words are found and the report is written.
            wanted = int((rows + 4) * (number + seed.random()) / kill_cycles) - 2
            wait_until(lambda: kept(cache) >= min(wanted, rows) or not process.is_alive(), "rows")  # noqa: B023
            time.sleep(seed.uniform(0, 0.6 if wanted <= 0 else 0.02 if wanted < rows else 0.2))
            kill(process)
            landed += process.exitcode == -signal.SIGKILL
            if report.exists() and report.read_bytes() != OLD:
                moments["written"] += 1
                assert told(report) == undisturbed and report.with_suffix(".qml").read_bytes() == style
            else:
                moments[kept(cache)] += 1
                assert report.exists() == replaces, "what was there stays until the new one is whole"

            finished = kept(cache)
            assert shell.run(*command) == 0, shell.said()
            assert told(report) == undisturbed and report.with_suffix(".qml").read_bytes() == style
            # The lowest of the rows that were finished takes tiles that the next one needs, too.
            assert finished < 2 or json.loads(report.read_bytes())["rscc"]["resumed_tiles"] > 0
            # What a killed run had not finished has no name that anything looks for.
            names = {path.name for path in folder.rglob("*") if path.is_file()}
            assert {name for name in names if not name.endswith(".tmp")} == {"report.geojson", "report.qml"}
    assert {path: path.read_bytes() for path in inputs} == inputs
    assert len(moments) >= min(6, kill_cycles - 2), f"moments are to differ: {moments}"
    assert landed >= kill_cycles // 2, "commands are to be killed at work"

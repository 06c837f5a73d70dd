"""Whenever `rscc caption` or `rscc review` is killed: the old report or the new one, and no mark is lost."""

import json
import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest
from archive_commands import commands, kill, wait_until
from archive_rows import change, report
from scene_pairs import make_pair

from workflows.report.reading import open_report
from workflows.report.record import run_id

CHANGES = [(30, 40, 25, 30, 220), (200, 100, 30, 40, 10), (330, 300, 30, 30, 200)]
HEIGHT = 400
OLD = b"an older report\n"
# Of the record: clock, machine and maps.
OF_THE_RUN = ("started", "seconds", "memory", "resumed_tiles", "maps")

pytestmark = [pytest.mark.slow, pytest.mark.kills]


def result(report: Path) -> dict:
    """A report without what differs from run to run."""
    content = json.loads(report.read_bytes())
    for name in OF_THE_RUN:
        del content["rscc"][name]
    return content


def finished_rows(folder: Path) -> int:
    """The number of finished rows of tiles in a folder of maps."""
    about = folder / "maps.json"
    return len(json.loads(about.read_bytes())["rows"]) if about.exists() else 0


def test_caption_killed_at_any_moment(tmp_path, monkeypatch, kill_cycles):
    monkeypatch.chdir(tmp_path)
    scenes = make_pair(tmp_path, CHANGES, size=(HEIGHT, 500))
    inputs = {path: path.read_bytes() for path in (scenes.before, scenes.after)}
    seed, moments, landed = random.Random(4), Counter(), 0
    words = ["caption", "before.tif", "after.tif", "--batch-size", "1", "-q", "-o"]
    with commands(tmp_path) as shell:
        assert shell.run(*words, "whole.geojson") == 0, shell.said()
        undisturbed, style = result(Path("whole.geojson")), Path("whole.qml").read_bytes()
        assert len(undisturbed["features"]) == len(CHANGES)
        tiling = undisturbed["rscc"]["tiling"]
        rows = (HEIGHT - tiling["overlap"]) // (tiling["tile"] - tiling["overlap"])
        for number in range(kill_cycles):
            folder = Path(f"run{number}")
            folder.mkdir()
            report, maps = folder / "report.geojson", folder / "maps"
            replaces = bool(number % 2)
            if replaces:
                report.write_bytes(OLD)
            command = [*words, report, "--keep-maps", maps, "--overwrite"]
            process = shell.begin(*command)
            # Before and between any two rows, while words are found and the report is written.
            wanted = int((rows + 4) * (number + seed.random()) / kill_cycles) - 2
            wait_until(lambda: finished_rows(maps) >= min(wanted, rows) or not process.is_alive(), "rows")  # noqa: B023
            time.sleep(seed.uniform(0, 0.6 if wanted <= 0 else 0.02 if wanted < rows else 0.2))
            kill(process)
            landed += process.exitcode == -signal.SIGKILL
            if report.exists() and report.read_bytes() != OLD:
                moments["written"] += 1
                assert result(report) == undisturbed and report.with_suffix(".qml").read_bytes() == style
            else:
                moments[finished_rows(maps)] += 1
                assert report.exists() == replaces, "what was there stays until the new one is whole"

            finished = finished_rows(maps)
            assert shell.run(*command) == 0, shell.said()
            assert result(report) == undisturbed and report.with_suffix(".qml").read_bytes() == style
            assert not finished or json.loads(report.read_bytes())["rscc"]["resumed_tiles"] > 0
            names = {path.name for path in folder.iterdir() if not path.name.endswith(".tmp")}
            assert names == {"report.geojson", "report.qml", "maps"}
    assert {path: path.read_bytes() for path in inputs} == inputs
    assert len(moments) >= min(6, kill_cycles - 2), f"moments are to differ: {moments}"
    assert landed >= kill_cycles // 2, "commands are to be killed at work"
    print(f"{kill_cycles} kills of rscc caption, {landed} of them at work; rows finished then: {moments}")


def test_reviews_killed_at_any_moment_lose_no_mark(tmp_path, kill_cycles):
    """Two reviews of one report at a time, one of which is killed."""
    inputs = {role: {"path": f"{role}.tif"} for role in ("before", "after")}
    many = report(*(change(number) for number in range(1, 2 * kill_cycles + 3)), inputs=inputs)
    path = many.write(tmp_path / "changes.geojson")
    seed, given, landed = random.Random(5), set(), 0

    def marks(number: int) -> Path:
        file = tmp_path / f"marks_{number}.json"
        mark = {
            "id": number,
            "verdict": "confirmed",
            "time": "2026-01-02T03:04:05.678Z",
            "note": "x" * 20_000,
        }
        file.write_text(json.dumps({"report": run_id(many.run), "marks": [mark]}))
        given.add(number)
        return file

    def marked() -> set[int]:
        return {one.id for one in open_report(path).changes if one.review_status == "confirmed"}

    with commands(tmp_path) as shell:
        for number in (1, 2):  # what commands come from is started with the first
            begin = time.monotonic()
            assert shell.run("review", path, marks(number)) == 0, shell.said()
            usual = time.monotonic() - begin
        for number in range(3, 2 * kill_cycles + 3, 2):
            before = set(given)
            other, killed = (shell.begin("review", path, marks(one)) for one in (number, number + 1))
            time.sleep(seed.uniform(0, usual))
            kill(killed)
            landed += killed.exitcode == -signal.SIGKILL
            assert marked() >= before, "at any moment"
            assert shell.ended(other) == 0, shell.said()
            assert marked() >= before | {number}
            begin = time.monotonic()
            assert shell.run("review", path, marks(number + 1)) == 0, shell.said()
            usual = time.monotonic() - begin
            assert marked() == given
    assert landed >= kill_cycles // 2, "commands are to be killed at work"
    print(f"{kill_cycles} kills of rscc review, {landed} of them at work")
    left = {one.name for one in tmp_path.iterdir()} - {f"marks_{number}.json" for number in given}
    assert left == {"changes.geojson", "changes.qml", "log.txt"}

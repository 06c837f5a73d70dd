"""The progress of an archive while runs work on it, after they were killed, and when all is done."""

import os

import pytest
from archive_rows import change, fill, new_claim, report

from workflows.archive.claim import claim_shard
from workflows.archive.index import Counts
from workflows.archive.status import RECENT, RunProgress, archive_status
from workflows.pairs.rows import PairRow

NOW = 1_800_000_000.0


class Clock:
    """Time that passes when the test says so."""

    def __init__(self):
        self.now = NOW

    def time(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("workflows.archive.status.time", clock)
    return clock


@pytest.fixture
def archive(tmp_path):
    """Two pairs are done, one failed, and seven are to do."""
    rows = [PairRow(f"p{number}", "/s/b.tif", "/s/a.tif") for number in range(10)]
    ends = [report(change(), warnings=["dark"]), report(), "no raster", *[None] * 7]
    return fill(tmp_path / "archive", dict(zip(rows, ends, strict=True)))


def work(claim, clock, seconds, count, shard=(1, 1), running=()):
    """A run that ends ``count`` pairs, one after ``seconds`` of work each; ``running`` are begun last."""
    progress = RunProgress(claim, shard)
    for number in range(count):
        clock.now += seconds
        progress.ended(f"p{number}", f"w{number % 2}")
        progress.write({}, force=number == count - 1)
    progress.write({pair: clock.now - 30 for pair in running}, force=True)


def test_counts_are_those_of_the_folders(archive):
    found = archive_status(archive.path)
    assert found.counts == Counts(pending=7, done=2, failed=1)
    assert (found.changes, found.area_m2, found.warned, found.at_work) == (1, 100.25, 1, 0)
    assert (found.per_hour, found.per_hour_now, found.seconds_left) == (None, None, None)
    archive.report("p0").unlink()
    archive.failure("p2").unlink()
    assert archive_status(archive.path).counts == Counts(pending=9, done=1)


def test_speed_workers_and_time_left_of_a_run_at_work(archive, clock):
    with claim_shard(archive) as claim:
        work(claim, clock, 60, 30, running=["p3", "p4"])
        found = archive_status(archive.path)
    assert found.at_work == 1 and found.runs[0].pid == os.getpid()
    assert (found.per_hour, found.worked) == (60.0, 1800.0)
    assert found.per_hour_now == pytest.approx(60.0, rel=0.15)
    assert found.seconds_left == pytest.approx(7 * 60, rel=0.15)
    assert [one.pair for one in found.running] == ["p3", "p4"] and found.running_count == 2
    assert {worker.name for worker in found.workers} == {"w0", "w1"}
    assert sum(worker.pairs for worker in found.workers) <= RECENT / 60 + 1


def test_shards_at_work_are_added_up_and_time_counts_once(archive, clock):
    with claim_shard(archive, (1, 2)) as one, claim_shard(archive, (2, 2)) as two:
        work(one, clock, 10, 20, (1, 2), ["p3"])
        clock.now = NOW
        work(two, clock, 20, 10, (2, 2), ["p4"])
        found = archive_status(archive.path)
    assert [run.shard for run in found.runs] == [(1, 2), (2, 2)]
    assert (found.worked, found.per_hour) == (200.0, 540.0)
    assert found.per_hour_now == pytest.approx(540.0, rel=0.1) and len(found.running) == 2


def test_after_a_kill_the_last_sign_of_life_ends_the_run_and_time_off_work_does_not_count(archive, clock):
    work(new_claim(archive.path), clock, 30, 10, running=["p3"])
    clock.now += 86_400
    found = archive_status(archive.path)
    assert (found.at_work, found.running, found.worked, found.per_hour) == (0, (), 300.0, 120.0)
    work(new_claim(archive.path), clock, 10, 30)
    assert archive_status(archive.path).per_hour_now == 360.0, "of the last run"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"shard": [1]}', '{"shard": [1, 1], "started": 1e999}'])
def test_a_damaged_file_of_a_run_is_left_out(archive, clock, text):
    work(new_claim(archive.path), clock, 10, 5)
    (archive.runs / "9-1-of-1.json").write_text(text)
    assert archive_status(archive.path).per_hour == 360.0


def test_whoever_looks_writes_nothing(archive):
    before = {path: path.stat().st_mtime_ns for path in archive.path.rglob("*")}
    archive_status(archive.path)
    assert {path: path.stat().st_mtime_ns for path in archive.path.rglob("*")} == before

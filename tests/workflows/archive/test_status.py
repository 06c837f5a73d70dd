import pytest
from filelock import FileLock

from workflows.archive.status import RECENT, archive_status, failure_reasons
from workflows.errors import ArchiveMissing
from workflows.pairs.rows import PairRow
from workflows.store.ledger import Ledger
from workflows.store.ledger_rows import Counts
from workflows.store.lock import is_at_work

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
    for module in ("store.ledger", "store.ledger_plan", "archive.status"):
        monkeypatch.setattr(f"workflows.{module}.time", clock)
    return clock


def planned(folder, count, first=0):
    """Open the ledger of ``count`` pairs."""
    ledger = Ledger.open(folder)
    rows = [PairRow(f"p{n}", f"/x/{n}b.tif", f"/x/{n}a.tif") for n in range(first, first + count)]
    ledger.plan([(row, "k") for row in rows], retry_failed=False)
    return ledger


def work(ledger, clock, seconds, count, worker="w1"):
    """End ``count`` pairs, one after ``seconds`` of work each."""
    for row in ledger.next(count):
        ledger.start(row.pair, row.attempts + 1)
        clock.now += seconds
        ledger.done(row.pair, worker, seconds, 3, 100.0, 4)


def test_a_new_archive_has_all_to_do(tmp_path, clock):
    planned(tmp_path, 5).close()
    found = archive_status(tmp_path)
    assert (found.counts, found.changes, found.at_work) == (Counts(pending=5), 0, 0)
    assert (found.per_hour, found.per_hour_now, found.seconds_left) == (None, None, None)


def test_speed_and_time_left_of_a_run_at_work(tmp_path, clock):
    with FileLock(tmp_path / "archive.lock"), planned(tmp_path, 100) as ledger:
        work(ledger, clock, 60, 30)
        work(ledger, clock, 20, 15, "w2")
        ledger.start("p45", 1)
        clock.now += 20
        found = archive_status(tmp_path)
    assert found.counts == Counts(pending=54, running=1, done=45)
    assert (found.changes, found.area_m2, found.tiles) == (135, 4500.0, 180)
    assert found.at_work == 1
    assert found.coordinators[0].started == NOW
    assert found.worked == 30 * 60 + 15 * 20 + 20
    assert found.per_hour == pytest.approx(45 / found.worked * 3600, abs=0.1)
    # In the last ten minutes: 15 of 20 seconds, and those of a minute that ended in the rest of them.
    assert found.per_hour_now == pytest.approx((15 + 5) * 3600 / RECENT, abs=0.1)
    assert found.seconds_left == pytest.approx(55 * 3600 / found.per_hour_now, abs=1)
    assert [(worker.name, worker.pairs, worker.last) for worker in found.workers] == [
        ("w2", 15, "p44"),
        ("w1", 5, "p29"),
    ]
    (running,) = found.running
    assert (running.pair, running.attempt, running.since) == ("p45", 1, clock.now - 20)


def test_a_run_that_does_not_come_forward_gets_slower(tmp_path, clock):
    with FileLock(tmp_path / "archive.lock"), planned(tmp_path, 100) as ledger:
        work(ledger, clock, 10, 50)
        before = archive_status(tmp_path)
        clock.now += RECENT - 60
        later = archive_status(tmp_path)
        clock.now += RECENT
        last = archive_status(tmp_path)
    assert before.per_hour_now > later.per_hour_now
    assert last.per_hour_now is None
    assert last.workers == ()
    assert last.seconds_left == pytest.approx(50 * 3600 / last.per_hour, abs=1)


def test_after_a_crash_the_last_work_is_told_and_time_off_work_does_not_count(tmp_path, clock):
    crashed = planned(tmp_path, 100)
    work(crashed, clock, 30, 40)
    crashed.start("p40", 1)
    crashed._connection.close()
    (tmp_path / "archive.lock").touch()
    clock.now += 86_400
    found = archive_status(tmp_path)
    assert (found.at_work, found.coordinators) == (0, ())
    assert found.counts.running == 1
    assert found.worked == 1200
    assert (found.per_hour, found.per_hour_now) == (120.0, pytest.approx(120, rel=0.06))
    with planned(tmp_path, 100) as ledger:
        work(ledger, clock, 30, 20)
        clock.now += 5
    found = archive_status(tmp_path)
    assert found.worked == 1200 + 600 + 5
    assert found.per_hour == pytest.approx(60 * 3600 / 1805, abs=0.1)


def test_the_present_speed_is_that_of_the_present_run(tmp_path, clock):
    for seconds in (20, 1):
        with planned(tmp_path, 100) as ledger:
            work(ledger, clock, seconds, 20)
        clock.now += 5
    assert archive_status(tmp_path).per_hour_now == 3600


def test_pairs_that_shards_did_tell_nothing_of_the_speed_of_a_merged_archive(tmp_path, clock):
    merged = tmp_path / "merged"
    for path in (tmp_path / "shard", merged):
        path.mkdir()
    with planned(tmp_path / "shard", 10) as shard, Ledger.open(merged) as ledger:
        work(shard, clock, 30, 10)
        ledger.replace(shard.rows())
    clock.now += 5
    with planned(merged, 10):
        clock.now += 0.1
    found = archive_status(merged)
    assert (found.counts.done, found.per_hour, found.seconds_left) == (10, None, 0)
    with planned(merged, 12) as ledger:
        work(ledger, clock, 60, 2)
    assert archive_status(merged).per_hour == pytest.approx(60, rel=0.01)


def test_a_finished_archive_has_nothing_left(tmp_path, clock):
    with planned(tmp_path, 3) as ledger:
        work(ledger, clock, 30, 3)
    assert archive_status(tmp_path).seconds_left == 0


@pytest.fixture
def shards(tmp_path, clock):
    """Shard 1 of 3 is through, 2 is at work, 3 has not begun."""
    folders = [tmp_path / "shards" / f"{number}-of-3" for number in (1, 2)]
    ledgers = []
    for folder, count in zip(folders, (4, 10), strict=True):
        folder.mkdir(parents=True)
        begin = clock.now
        first, bad = (100, "p104") if ledgers else (0, "p0")
        ledger = planned(folder, count, first)
        work(ledger, clock, 10, 4, f"w{len(ledgers)}")
        ledger.start(bad, 1)
        ledger.failed(bad, "w", 1.0, "refused", "NotARaster", f"/x/{first}b.tif: no")
        ledgers.append(ledger)
        clock.now = begin
    clock.now += 50
    ledgers[0].close()
    with FileLock(folders[1] / "archive.lock"):
        yield tmp_path
    ledgers[1].close()


def test_shards_are_summed(shards):
    found = archive_status(shards)
    assert found.counts == Counts(pending=5, done=7, failed=2)
    assert found.at_work == 1
    assert [name for name, _ in found.shards] == ["1-of-3", "2-of-3"]
    assert found.shards_missing == ("3-of-3",)
    one, two = (status for _, status in found.shards)
    assert (one.seconds_left, one.per_hour is not None) == (0, True)
    assert found.seconds_left == two.seconds_left > 0
    assert found.per_hour_now == two.per_hour_now
    assert [worker.name for worker in found.workers] == [worker.name for worker in two.workers]
    (reason,) = failure_reasons(shards)
    assert (reason.count, reason.pairs) == (2, ("p0", "p104"))


def test_shards_of_another_number_and_those_without_a_ledger_yet_are_left_out(shards):
    (shards / "shards" / "3-of-3").mkdir()
    (shards / "shards" / "1-of-2").mkdir()
    found = archive_status(shards)
    assert [name for name, _ in found.shards] == ["1-of-3", "2-of-3"]
    assert found.shards_missing == ("3-of-3",)


def test_after_a_merge_the_shards_still_tell_until_they_are_removed(shards):
    with Ledger.open(shards) as whole, Ledger.reader(shards / "shards" / "1-of-3") as one:
        whole.replace(one.rows())
    assert archive_status(shards).counts.total == 14
    (shards / "shards").rename(shards / "removed")
    status = archive_status(shards)
    assert (status.counts.total, status.shards) == (4, ())
    (shards / "removed").rename(shards / "shards")


def test_who_asks_does_not_take_the_lock_and_makes_no_file(tmp_path):
    lock = tmp_path / "archive.lock"
    assert not is_at_work(lock)
    assert not lock.exists()
    with FileLock(lock):
        assert is_at_work(lock)
        assert is_at_work(lock)
    assert not is_at_work(lock)
    with FileLock(lock, timeout=0):
        pass


def test_a_folder_that_is_no_archive_says_so(tmp_path):
    for ask in (archive_status, failure_reasons):
        with pytest.raises(ArchiveMissing, match="no archive of rscc batch"):
            ask(tmp_path)
        with pytest.raises(ArchiveMissing):
            ask(tmp_path / "absent")

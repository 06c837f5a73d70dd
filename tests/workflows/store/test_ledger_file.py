"""The file of a ledger: damaged, locked, foreign, full, read while it is written, its writer killed."""

import multiprocessing
import os
import signal
import sqlite3
import tempfile
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from filelock import FileLock
from ledger_pairs import finish, pairs, states

from workflows.archive.status import archive_status, failure_reasons
from workflows.errors import ArchiveMissing, LedgerForeign, LedgerUnusable
from workflows.pairs.rows import PairRow
from workflows.store import ledger_file
from workflows.store.ledger import Ledger
from workflows.store.ledger_rows import Counts

OPENINGS = (Ledger.open, Ledger.reader)
DEADLINE = 60
MANY = [(PairRow(f"p{number:05}", "/b.tif", "/a.tif"), "k") for number in range(12_000)]
# Later Pythons warn of it where libraries have threads; these processes touch none of them.
FORKS = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


def tamper(folder, statement, *values):
    """Do something to a ledger that no run does."""
    with closing(sqlite3.connect(folder / "ledger.sqlite")) as other, other:
        other.execute("PRAGMA ignore_check_constraints = ON")
        other.execute(statement, values)


def test_a_closed_ledger_is_one_file_that_a_rehearsal_leaves_alone(tmp_path):
    folder = tmp_path / "new"
    folder.mkdir()
    with Ledger.rehearsal(folder) as ledger:
        assert ledger.plan(pairs("a"), retry_failed=False).new == 1
    assert list(folder.iterdir()) == []
    with Ledger.open(folder) as ledger:
        ledger.plan(pairs("a"), retry_failed=False)
        finish(ledger, "a")
        assert len(list(folder.iterdir())) > 1
    (path,) = folder.iterdir()
    before = path.read_bytes()
    # The versions for reading and writing in its head: 1 needs no log beside it.
    assert (path.name, before[18:20]) == ("ledger.sqlite", b"\1\1")
    with Ledger.rehearsal(folder) as ledger:
        planned = ledger.plan(pairs("a", "b"), retry_failed=False)
        assert (planned.done, planned.new) == (1, 1)
    assert path.read_bytes() == before


def test_a_reader_sees_each_step_of_a_writer_and_stops_nobody_even_from_closing(tmp_path, ledger):
    ledger.plan(pairs("a", "b"), retry_failed=False)
    with Ledger.reader(tmp_path) as reader:
        assert reader.counts().pending == 2
        reading = reader.rows()
        next(reading)
        finish(ledger, "a")
        assert reader.counts() == Counts(pending=1, done=1)
        with pytest.raises(LedgerUnusable, match="may not be written"):
            reader.start("b", 1)
        ledger.close()
        assert reader.counts() == Counts(pending=1, done=1)
    for opening in OPENINGS:
        with opening(tmp_path) as reopened:
            assert reopened.counts() == Counts(pending=1, done=1)


def test_a_folder_without_a_ledger_is_no_archive_and_a_missing_one_takes_none(tmp_path):
    with pytest.raises(ArchiveMissing, match="no archive of rscc batch"):
        Ledger.reader(tmp_path)
    (tmp_path / "ledger.sqlite").touch()
    with pytest.raises(ArchiveMissing):
        Ledger.reader(tmp_path)
    with Ledger.open(tmp_path) as ledger:
        assert ledger.counts().total == 0
    with pytest.raises(LedgerUnusable, match="check its folder"):
        Ledger.open(tmp_path / "absent")


def test_a_foreign_file_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "ledger.sqlite"
    tamper(tmp_path, "CREATE TABLE birds (name)")
    for content in (path.read_bytes(), b"pair,before,after\n"):
        path.write_bytes(content)
        for opening in OPENINGS:
            with pytest.raises(LedgerForeign, match="no ledger of rscc batch"):
                opening(tmp_path)
        assert path.read_bytes() == content
        assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(("version", "made"), [(0, "an older rscc"), (99, "a newer rscc")])
def test_a_ledger_of_another_version_is_refused(tmp_path, version, made):
    Ledger.open(tmp_path).close()
    tamper(tmp_path, f"PRAGMA user_version = {version}")
    for opening in OPENINGS:
        with pytest.raises(LedgerForeign, match=f"{made} .version {version}"):
            opening(tmp_path)


def test_a_damaged_ledger_is_refused_with_one_line(tmp_path):
    with Ledger.open(tmp_path) as ledger:
        ledger.plan(pairs(*(f"p{number}" for number in range(2000))), retry_failed=False)
    path = tmp_path / "ledger.sqlite"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    for opening in OPENINGS:
        with pytest.raises(LedgerForeign, match="damaged"), opening(tmp_path) as ledger:
            list(ledger.rows())
    middle = len(whole) // 2
    path.write_bytes(whole[: middle - 40_000] + b"\xff" * 80_000 + whole[middle + 40_000 :])
    with pytest.raises(LedgerForeign, match="damaged"), Ledger.reader(tmp_path) as ledger:
        list(ledger.rows())


def test_a_full_disk_ends_with_a_clear_line_and_what_was_there_before(ledger):
    ledger.plan(pairs("a"), retry_failed=False)
    pages = ledger.select("PRAGMA page_count")[0][0]
    ledger.select(f"PRAGMA max_page_count = {pages}")
    names = [f"p{number}" for number in range(3000)]
    remedy = r"full.*free some space and start the same command again"
    with pytest.raises(LedgerUnusable, match=remedy) as caught:
        ledger.plan(pairs("a", *names), retry_failed=False)
    assert caught.value.exit_code == 1
    ledger.select(f"PRAGMA max_page_count = {2**30}")
    assert states(ledger) == {"a": "pending"}
    assert ledger.plan(pairs("a", *names), retry_failed=False).new == 3000


def test_a_locked_ledger_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(ledger_file, "BUSY_SECONDS", 0.1)
    with Ledger.open(tmp_path) as ledger:
        ledger.plan(pairs("a"), retry_failed=False)
        other = sqlite3.connect(ledger.path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerUnusable, match="another program holds it"):
            ledger.start("a", 1)
        other.execute("ROLLBACK")
        other.close()
        ledger.start("a", 1)


@contextmanager
def forked(work, *arguments):
    """Run a function in a process of its own that imports nothing anew; gives its pipe and itself."""
    fork = multiprocessing.get_context("fork")
    ours, theirs = fork.Pipe(duplex=False)
    process = fork.Process(target=work, args=(theirs, *arguments), daemon=True)
    process.start()
    theirs.close()
    try:
        yield ours, process
    finally:
        process.kill()
        process.join(DEADLINE)


def told_by(pipe):
    """Return everything that is still to come from a process, until it ends."""
    found = []
    while pipe.poll(DEADLINE):
        try:
            found.append(pipe.recv())
        except EOFError:
            return found
    raise AssertionError("the process did not end")


def write_many(pipe, folder):
    with Ledger.open(folder) as ledger:
        ledger.plan(MANY, retry_failed=False)
        for row in ledger.next(len(MANY)):
            ledger.start(row.pair, row.attempts + 1)
            ledger.done(row.pair, "w", 0.1, 1, 1.0, 1)
            pipe.send(row.pair)


@pytest.mark.slow
@FORKS
def test_a_writer_killed_at_any_moment_keeps_what_it_said(tmp_path):
    """What was said to be done is done after SIGKILL, and at most one pair more; nothing else was lost."""
    told = set()
    for moment in (1, 300, 900, 2000):
        with forked(write_many, tmp_path) as (pipe, writer):
            told |= {pipe.recv() for _ in range(moment)}
            os.kill(writer.pid, signal.SIGKILL)
            told |= set(told_by(pipe))
        with Ledger.reader(tmp_path) as reader:
            done = {row.pair for row in reader.rows("done")}
            assert reader.counts().total == len(MANY)
            assert told <= done
            assert len(done - told) <= 1
            told = done
            assert reader.sessions()[-1].ended is None
    with Ledger.open(tmp_path) as ledger:
        planned = ledger.plan(MANY, retry_failed=False)
        assert (planned.done, planned.running, planned.new) == (len(told), 0, 0)
        assert all(row.attempts == 0 for row in ledger.next(len(MANY)))
    assert [path.name for path in tmp_path.iterdir()] == ["ledger.sqlite"]


@FORKS
def test_counts_add_up_at_every_moment_while_a_writer_works(tmp_path):
    seen = []
    with forked(write_many, tmp_path) as (pipe, writer):
        pipe.recv()
        while writer.is_alive() and len(seen) < 50:
            with Ledger.reader(tmp_path) as reader:
                counts = reader.counts()
                assert counts.total == len(MANY)
                assert counts.running <= 1
                seen.append(counts.done)
    assert seen == sorted(seen)


@FORKS
def test_an_archive_that_may_not_be_written_can_be_looked_at_when_its_run_has_ended():
    # Other users may not look into the folders of pytest.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with Ledger.open(folder) as ledger:
            ledger.plan(pairs("a"), retry_failed=False)
        folder.chmod(0o555)
        with forked(look_as_nobody, folder) as (pipe, _):
            counts, refused = told_by(pipe)
        folder.chmod(0o755)
    assert counts.pending == 1
    assert isinstance(refused, LedgerUnusable)


def look_as_nobody(pipe, folder):
    if os.geteuid() == 0:  # who may write anywhere
        os.setuid(65534)
    with Ledger.reader(folder) as reader:
        pipe.send(reader.counts())
    try:
        Ledger.open(folder).plan([], retry_failed=False)
    except LedgerUnusable as error:
        pipe.send(error)


def test_a_ledger_that_another_machine_writes_is_refused_with_its_name(tmp_path):
    with Ledger.open(tmp_path) as ledger:
        ledger.plan(pairs("a"), retry_failed=False)
        (tmp_path / "ledger.sqlite-host").write_text("far-away")
        with (
            FileLock(tmp_path / "archive.lock"),
            pytest.raises(LedgerUnusable, match=r"ledger.sqlite: a run on far-away writes it; ask there"),
        ):
            Ledger.reader(tmp_path)
        with Ledger.reader(tmp_path) as reader:
            assert reader.counts().pending == 1, "it was killed: nobody holds the lock"
    with Ledger.reader(tmp_path) as reader:
        assert reader.counts().pending == 1


FOREIGN_TABLES = {
    "a view that never ends": [
        "ALTER TABLE pairs RENAME TO kept",
        "CREATE VIEW pairs AS SELECT * FROM kept, "
        "(WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n)",
    ],
    "a trigger": ["CREATE TRIGGER gone AFTER UPDATE ON pairs BEGIN DELETE FROM pairs; END"],
    "a further table": ["CREATE TABLE more (x)"],
    "a table less": ["DROP TABLE parts"],
}


@pytest.mark.parametrize("kind", FOREIGN_TABLES)
def test_a_ledger_with_tables_of_a_stranger_is_refused(tmp_path, kind):
    with Ledger.open(tmp_path) as ledger:
        ledger.plan(pairs("a"), retry_failed=False)
    for statement in FOREIGN_TABLES[kind]:
        tamper(tmp_path, statement)
    content = (tmp_path / "ledger.sqlite").read_bytes()
    for opening in OPENINGS:
        with pytest.raises(LedgerForeign, match="its tables are not those of rscc batch"):
            opening(tmp_path)
    assert (tmp_path / "ledger.sqlite").read_bytes() == content


def test_tables_of_a_stranger_call_nothing_and_ask_for_little(tmp_path):
    Ledger.open(tmp_path).close()
    for opening in OPENINGS:
        with opening(tmp_path) as ledger:
            values = [ledger.select(f"PRAGMA {name}")[0][0] for name in ("trusted_schema", "cell_size_check")]
            assert values == [0, 1]
            with pytest.raises(LedgerForeign, match="too many attached"):
                ledger.select("ATTACH ':memory:' AS other")
            with pytest.raises(LedgerForeign, match="too big"):
                ledger.select("SELECT zeroblob(300000000)")


WRONG = [
    ("pairs", "state", "over"), ("pairs", "number", "first"), ("pairs", "started", "noon"),
    ("pairs", "finished", "noon"), ("pairs", "finished", float("inf")), ("pairs", "seconds", b"\xff"),
    ("pairs", "changes", "many"), ("pairs", "area_m2", float("inf")), ("pairs", "warnings", "["),
    ("pairs", "warnings", "{}"), ("pairs", "warnings", "[1]"), ("pairs", "warnings", b"\xff\xfe"),
    ("pairs", "line", b"\xff\xfe"), ("pairs", "footprint", "here"), ("pairs", "before", b"\0"),
    ("sessions", "started", "noon"), ("sessions", "ended", float("inf")), ("sessions", "host", b"\xff"),
]  # fmt: skip


@pytest.mark.parametrize(("table", "column", "value"), WRONG)
def test_values_that_no_run_writes_are_a_damaged_ledger(tmp_path, table, column, value):
    with Ledger.open(tmp_path) as ledger:
        ledger.plan(pairs("a", "b"), retry_failed=False)
        finish(ledger, "a")
        ledger.failed("b", "worker", 1.0, "failed", "RunFailed", "no reason")
    tamper(tmp_path, f"UPDATE {table} SET {column} = ?", value)
    with pytest.raises(LedgerForeign, match="the ledger is damaged") as caught:
        archive_status(tmp_path)
        failure_reasons(tmp_path)
        with Ledger.reader(tmp_path) as ledger:
            list(ledger.rows())
    assert "\n" not in str(caught.value)


def test_a_ledger_with_other_columns_is_a_damaged_one(tmp_path):
    Ledger.open(tmp_path).close()
    tamper(tmp_path, "ALTER TABLE pairs RENAME COLUMN state TO stage")
    with pytest.raises(LedgerForeign, match="damaged"):
        archive_status(tmp_path)

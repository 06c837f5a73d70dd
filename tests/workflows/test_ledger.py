import multiprocessing
import os
import signal
import sqlite3
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest
from shapely.geometry import Polygon

from workflows import ledger_file
from workflows.errors import ArchiveMissing, LedgerForeign, LedgerUnusable
from workflows.identity import Stored
from workflows.ledger import Ledger
from workflows.ledger_rows import Counts, Part
from workflows.pair_table import PairRow
from workflows.record import without_secrets

DEADLINE = 60
MANY = [(PairRow(f"p{number:05}", "/b.tif", "/a.tif"), "k") for number in range(12_000)]
# Later Pythons warn of it where libraries have threads; these processes touch none of them.
FORKS = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


def pairs(*names, key="k"):
    return [(PairRow(name, f"/scenes/{name}_1.tif", f"/scenes/{name}_2.tif"), key) for name in names]


def finish(ledger, name, changes=2):
    ledger.start(name, ledger.get(name).attempts + 1)
    ledger.done(name, "w1", 1.25, changes, 40.5, 9, ["dark"])


def fail(ledger, name, kind="failed"):
    ledger.start(name, ledger.get(name).attempts + 1)
    ledger.failed(name, "w1", 0.5, kind, "NotARaster", f"{name}.tif: this is not a raster")


def states(ledger):
    return {row.pair: row.state for state in (None, "dropped") for row in ledger.rows(state)}


@pytest.fixture
def ledger(tmp_path):
    with Ledger.open(tmp_path, create=True) as opened:
        yield opened


def test_a_new_pair_is_pending_with_what_the_table_says(ledger):
    ground = Polygon([(0, 0), (1, 0), (1, 1)])
    row = PairRow(
        "a", "/x/1.tif", "https://user:key@host/2.tif?sig=3", "2019", None, "town", footprint=ground
    )
    planned = ledger.plan([(row, "key")], retry_failed=False)
    assert (planned.pending, planned.new, planned.total) == (1, 1, 1)
    (found,) = ledger.next(10)
    assert (found.pair, found.number, found.state, found.attempts) == ("a", 0, "pending", 0)
    assert (found.before, found.after) == ("/x/1.tif", "https://host/2.tif")
    assert (found.date_before, found.date_after, found.site, found.key) == ("2019", None, "town", "key")
    assert found.footprint == ground.wkb
    assert (found.worker, found.finished, found.warnings, found.kind) == (None, None, (), None)


def test_pairs_come_in_the_order_of_the_table(ledger):
    ledger.plan(pairs("c", "a", "b"), retry_failed=False)
    assert [row.pair for row in ledger.next(2)] == ["c", "a"]
    ledger.plan(pairs("b", "c", "a", "d"), retry_failed=False)
    assert [row.pair for row in ledger.next(9)] == ["b", "c", "a", "d"]
    assert [row.number for row in ledger.rows()] == [0, 1, 2, 3]


def test_a_pair_goes_from_pending_to_done(ledger):
    ledger.plan(pairs("a", "b"), retry_failed=False)
    begin = time.time()
    ledger.start("a", 1)
    assert ledger.counts() == Counts(pending=1, running=1)
    assert [row.pair for row in ledger.next(9)] == ["b"]
    ledger.done("a", "node7-3", 1.23456, 4, 99.5, 12, ("hazy", "line\ntwo"))
    row = ledger.get("a")
    assert (row.state, row.worker, row.seconds, row.attempts) == ("done", "node7-3", 1.235, 1)
    assert (row.changes, row.area_m2, row.tiles, row.warnings) == (4, 99.5, 12, ("hazy", "line\ntwo"))
    assert begin <= row.started <= row.finished <= time.time()
    assert ledger.counts().left == 1


def test_a_failure_to_be_tried_again_counts_its_attempt(ledger):
    ledger.plan(pairs("a"), retry_failed=False)
    ledger.start("a", 1)
    ledger.again("a", "w1", 2.0, "crashed", "WorkerDied", "it was killed by SIGKILL")
    (row,) = ledger.next(1)
    assert (row.state, row.attempts, row.kind, row.error) == ("pending", 1, "crashed", "WorkerDied")
    ledger.start("a", row.attempts + 1)
    ledger.done("a", "w2", 1.0, 0, 0.0, 1)
    assert (ledger.get("a").attempts, ledger.get("a").kind, ledger.get("a").line) == (2, None, None)


def test_an_abandoned_attempt_does_not_count(ledger):
    ledger.plan(pairs("a"), retry_failed=False)
    ledger.start("a", 1)
    ledger.give_back("a")
    assert (ledger.get("a").state, ledger.get("a").attempts) == ("pending", 0)
    finish(ledger, "a")
    ledger.give_back("a")
    assert ledger.get("a").state == "done"


def test_what_is_done_and_the_same_stays(ledger):
    ledger.plan(pairs("a", "b"), retry_failed=False)
    finish(ledger, "a")
    before = ledger.get("a")
    planned = ledger.plan(pairs("a", "b"), retry_failed=False)
    assert (planned.done, planned.pending, planned.new, planned.changed) == (1, 1, 0, 0)
    assert ledger.get("a") == before


def test_another_key_makes_a_pair_pending_and_forgets_what_was_found(ledger):
    ledger.plan(pairs("a", "b"), retry_failed=False)
    finish(ledger, "a")
    fail(ledger, "b")
    planned = ledger.plan(pairs("a", "b", key="new"), retry_failed=False)
    assert (planned.pending, planned.changed) == (2, 2)
    for row in ledger.rows():
        assert (row.state, row.key, row.attempts, row.finished, row.changes) == (
            "pending",
            "new",
            0,
            None,
            None,
        )
        assert (row.error, row.warnings) == (None, ())


def test_another_place_in_the_table_or_on_disk_changes_the_row_alone(ledger):
    ledger.plan(pairs("a"), retry_failed=False)
    finish(ledger, "a")
    moved = PairRow("a", "/elsewhere/1.tif", "/elsewhere/2.tif", site="river")
    ledger.plan([*pairs("b"), (moved, "k")], retry_failed=False)
    row = ledger.get("a")
    assert (row.state, row.number, row.before, row.site, row.changes) == (
        "done",
        1,
        "/elsewhere/1.tif",
        "river",
        2,
    )


def test_failed_pairs_stay_unless_they_are_asked_for(ledger):
    ledger.plan(pairs("a"), retry_failed=False)
    fail(ledger, "a", "refused")
    assert ledger.plan(pairs("a"), retry_failed=False).failed == 1
    assert ledger.get("a").line == "a.tif: this is not a raster"
    planned = ledger.plan(pairs("a"), retry_failed=True)
    assert (planned.pending, planned.failed, planned.retried) == (1, 0, 1)
    assert (ledger.get("a").attempts, ledger.get("a").error) == (0, None)


def test_a_pair_that_left_the_table_comes_back_as_it_was(ledger):
    ledger.plan(pairs("a", "b", "c"), retry_failed=False)
    finish(ledger, "a")
    fail(ledger, "b")
    done = ledger.get("a")
    planned = ledger.plan(pairs("d"), retry_failed=True)
    assert (planned.dropped, planned.total, planned.retried) == (3, 1, 0)
    assert [row.pair for row in ledger.rows()] == ["d"]
    ledger.plan(pairs("d"), retry_failed=False)
    planned = ledger.plan(pairs("a", "b", "c"), retry_failed=False)
    assert states(ledger) == {"a": "done", "b": "failed", "c": "pending", "d": "dropped"}
    assert ledger.get("a") == done


def test_a_dropped_pair_with_another_key_is_pending(ledger):
    ledger.plan(pairs("a"), retry_failed=False)
    finish(ledger, "a")
    ledger.plan([], retry_failed=False)
    assert ledger.plan(pairs("a", key="new"), retry_failed=False).changed == 1
    assert states(ledger) == {"a": "pending"}


def test_the_options_of_before_find_what_was_not_done_anew(ledger):
    """A wrong option must not cost a week of work."""
    ledger.plan(pairs("a", "b", "c"), retry_failed=False)
    for pair in "abc":
        finish(ledger, pair)
    before = {row.pair: row for row in ledger.rows()}
    assert ledger.plan(pairs("a", "b", "c", key="typo"), retry_failed=False).changed == 3
    ledger.start("a", 1)
    ledger.start("b", 1)
    ledger.replaced("b")
    planned = ledger.plan(pairs("a", "b", "c"), retry_failed=False)
    assert (planned.done, planned.pending, planned.changed) == (2, 1, 1)
    assert states(ledger) == {"a": "done", "b": "pending", "c": "done"}
    assert {pair: ledger.get(pair) for pair in "ac"} == {pair: before[pair] for pair in "ac"}
    # Once it is done anew there is one report again, and it is that of the last key.
    ledger.plan(pairs("a", "b", "c", key="other"), retry_failed=False)
    ledger.replaced("a")
    finish(ledger, "a")
    assert ledger.plan(pairs("a", "b", "c"), retry_failed=False).done == 1
    assert states(ledger) == {"a": "pending", "b": "pending", "c": "done"}


def test_it_finds_them_through_several_keys_and_a_table_without_them(ledger):
    ledger.plan(pairs("a"), retry_failed=False)
    finish(ledger, "a")
    done = ledger.get("a")
    for table in (pairs("a", key="one"), [], pairs("a", key="two")):
        ledger.plan(table, retry_failed=False)
    assert states(ledger) == {"a": "pending"}
    assert ledger.plan(pairs("a"), retry_failed=False).changed == 0
    assert ledger.get("a") == done


def test_it_knows_what_reports_there_are(ledger):
    ledger.plan(pairs("a", "b", "c"), retry_failed=False)
    finish(ledger, "a")
    finish(ledger, "b")
    fail(ledger, "c")
    ledger.plan(pairs("a", "c", key="new"), retry_failed=False)
    found = [(pair, key) for pair in "abcd" for key in ("k", "new") if ledger.has_report(pair, key)]
    assert found == [("a", "k"), ("b", "k")], "one whose key is another now, and one that was dropped"


def test_a_row_of_another_shard_takes_its_place_in_the_order_alone(ledger):
    table = pairs("a", "b", "c")
    ledger.plan([(row, None if row.pair == "b" else key) for row, key in table], retry_failed=False)
    assert [(row.pair, row.number) for row in ledger.rows()] == [("a", 0), ("c", 2)]


def test_rows_can_be_changed_while_they_are_read(ledger, monkeypatch):
    monkeypatch.setattr("workflows.ledger._CHUNK", 3)
    names = [f"p{number}" for number in range(10)]
    ledger.plan(pairs(*names), retry_failed=False)
    seen = []
    for row in ledger.rows("pending"):
        seen.append(row.pair)
        finish(ledger, row.pair)
    assert seen == names
    assert [row.pair for row in ledger.rows("done")] == names
    with pytest.raises(AssertionError, match="finished"):
        list(ledger.rows("finished"))


def test_parts_of_a_split_pair_outlive_a_crash_and_not_a_change(tmp_path):
    with Ledger.open(tmp_path, create=True) as ledger:
        ledger.plan(pairs("a", "b"), retry_failed=False)
        ledger.start("a", 1)
        ledger.split("a", [(0, 4), (4, 8)])
        ledger.part_done("a", 1)
    with Ledger.open(tmp_path, create=False) as ledger:
        ledger.plan(pairs("a", "b"), retry_failed=False)
        ledger.split("a", [(0, 4), (4, 8)])
        assert ledger.parts("a") == [Part(0, 0, 4, False), Part(1, 4, 8, True)]
        assert ledger.parts("b") == []
        ledger.split("a", [(0, 8)])
        assert ledger.parts("a") == [Part(0, 0, 8, False)]
        ledger.plan(pairs("a", "b", key="new"), retry_failed=False)
        assert ledger.parts("a") == []


def test_a_ledger_can_be_made_of_the_rows_of_others(tmp_path, ledger):
    ledger.plan(pairs("a", "b"), retry_failed=False)
    finish(ledger, "b")
    fail(ledger, "a")
    rows = [replace(row, number=9 - row.number) for row in ledger.rows()]
    with Ledger.open(_folder(tmp_path, "whole"), create=True) as whole:
        whole.plan(pairs("z"), retry_failed=False)
        whole.replace(rows)
        assert list(whole.rows()) == rows[::-1]


def test_what_was_hashed_of_files_is_kept(tmp_path):
    files = {
        "/x/1.tif": Stored(5, 1, False, b"\0\1", None),
        "/x/2.vrt": Stored(6, 2, True, b"", ("/x/é.tif",)),
    }
    with Ledger.open(tmp_path, create=True) as ledger:
        ledger.keep_files(files)
    with Ledger.open(tmp_path, create=False) as ledger:
        assert dict(ledger.files()) == files
        assert "/x/3.tif" not in ledger.files()
        assert len(ledger.files()) == 2
        changed = Stored(7, 3, False, b"\2", None)
        ledger.keep_files({"/x/1.tif": changed})
        assert ledger.files()["/x/1.tif"] == changed
        found = ledger.files()
    with pytest.raises(LedgerUnusable):
        found.get("/x/1.tif")


def test_messages_hold_no_secrets(ledger):
    ledger.plan(pairs("a"), retry_failed=False)
    ledger.start("a", 1)
    ledger.failed(
        "a", "w", 1, "failed", "Odd", "/vsicurl/https://me:pw@host/a.tif?sig=1: HTTP 'https://h/b#c' no"
    )
    assert ledger.get("a").line == "/vsicurl/https://host/a.tif: HTTP 'https://h/b' no"
    ledger.done("a", "w", 1, 0, 0.0, 1, ["s3://bucket/key?X-Amz-Signature=2, dark"])
    assert ledger.get("a").warnings == ("s3://bucket/key, dark",)
    assert without_secrets("a.tif: is this right? no #1") == "a.tif: is this right? no #1"


def test_sessions_say_when_coordinators_worked(tmp_path):
    with Ledger.open(tmp_path, create=True) as ledger:
        assert ledger.sessions() == []
        ledger.plan(pairs("a"), retry_failed=False)
        (session,) = ledger.sessions()
        assert (session.pid, session.ended) == (os.getpid(), None)
    with Ledger.reader(tmp_path) as ledger:
        assert ledger.sessions()[0].ended >= session.started


def test_a_rehearsal_leaves_the_ledger_alone(tmp_path):
    folder = _folder(tmp_path, "new")
    with Ledger.rehearsal(folder) as ledger:
        assert ledger.plan(pairs("a"), retry_failed=False).new == 1
    assert list(folder.iterdir()) == []
    with Ledger.open(folder, create=True) as ledger:
        ledger.plan(pairs("a"), retry_failed=False)
        finish(ledger, "a")
    before = (folder / "ledger.sqlite").read_bytes()
    with Ledger.rehearsal(folder) as ledger:
        planned = ledger.plan(pairs("a", "b"), retry_failed=False)
        assert (planned.done, planned.new) == (1, 1)
    assert (folder / "ledger.sqlite").read_bytes() == before


def test_a_closed_ledger_is_one_file(tmp_path):
    with Ledger.open(tmp_path, create=True) as ledger:
        ledger.plan(pairs("a"), retry_failed=False)
        assert len(list(tmp_path.iterdir())) > 1
    (path,) = tmp_path.iterdir()
    # The versions for reading and writing in its head: 1 needs no log beside it.
    assert (path.name, path.read_bytes()[18:20]) == ("ledger.sqlite", b"\1\1")


def test_a_reader_sees_each_step_of_a_writer_and_stops_nobody(tmp_path, ledger):
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
    with Ledger.reader(tmp_path) as reader:
        assert reader.counts() == Counts(pending=1, done=1)


def test_closing_while_somebody_reads_loses_nothing(tmp_path):
    ledger = Ledger.open(tmp_path, create=True)
    ledger.plan(pairs("a"), retry_failed=False)
    with Ledger.reader(tmp_path) as reader:
        reader.counts()
        ledger.close()
        assert reader.counts().pending == 1
    with Ledger.open(tmp_path, create=False) as ledger:
        assert ledger.counts().pending == 1


def test_a_folder_without_a_ledger_is_no_archive(tmp_path):
    for opening in (lambda: Ledger.open(tmp_path, create=False), lambda: Ledger.reader(tmp_path)):
        with pytest.raises(ArchiveMissing, match="no archive of rscc batch"):
            opening()
    (tmp_path / "ledger.sqlite").touch()
    with pytest.raises(ArchiveMissing):
        Ledger.reader(tmp_path)
    with Ledger.open(tmp_path, create=True) as ledger:
        assert ledger.counts().total == 0


def test_a_ledger_that_cannot_be_made_says_why(tmp_path):
    with pytest.raises(LedgerUnusable, match="check its folder"):
        Ledger.open(tmp_path / "absent", create=True)


def test_a_foreign_file_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "ledger.sqlite"
    path.write_text("pair,before,after\n")
    for opening in (lambda: Ledger.open(tmp_path, create=True), lambda: Ledger.reader(tmp_path)):
        with pytest.raises(LedgerForeign, match="no ledger of rscc batch"):
            opening()
    path.unlink()
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE birds (name)")
    other.close()
    before = path.read_bytes()
    for opening in (lambda: Ledger.open(tmp_path, create=True), lambda: Ledger.reader(tmp_path)):
        with pytest.raises(LedgerForeign, match="no ledger of rscc batch"):
            opening()
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("version", "made"), [(0, "an older rscc"), (ledger_file.SCHEMA + 1, "a newer rscc")]
)
def test_a_ledger_of_another_version_is_refused(tmp_path, version, made):
    Ledger.open(tmp_path, create=True).close()
    with sqlite3.connect(tmp_path / "ledger.sqlite") as other:
        other.execute(f"PRAGMA user_version = {version}")
    other.close()
    for opening in (lambda: Ledger.open(tmp_path, create=True), lambda: Ledger.reader(tmp_path)):
        with pytest.raises(LedgerForeign, match=f"{made} .version {version}"):
            opening()


def test_a_damaged_ledger_is_refused_with_one_line(tmp_path):
    with Ledger.open(tmp_path, create=True) as ledger:
        ledger.plan(pairs(*(f"p{number}" for number in range(2000))), retry_failed=False)
    path = tmp_path / "ledger.sqlite"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    for opening in (lambda: Ledger.open(tmp_path, create=True), lambda: Ledger.reader(tmp_path)):
        with pytest.raises(LedgerForeign, match="damaged"), opening() as ledger:
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
    with pytest.raises(
        LedgerUnusable, match=r"full.*free some space and start the same command again"
    ) as caught:
        ledger.plan(pairs("a", *names), retry_failed=False)
    assert caught.value.exit_code == 1
    ledger.select(f"PRAGMA max_page_count = {2**30}")
    assert states(ledger) == {"a": "pending"}
    assert ledger.plan(pairs("a", *names), retry_failed=False).new == 3000


def test_a_locked_ledger_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(ledger_file, "BUSY_SECONDS", 0.1)
    with Ledger.open(tmp_path, create=True) as ledger:
        ledger.plan(pairs("a"), retry_failed=False)
        other = sqlite3.connect(ledger.path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerUnusable, match="another program holds it"):
            ledger.start("a", 1)
        other.execute("ROLLBACK")
        other.close()
        ledger.start("a", 1)


def test_an_unknown_pair_is_a_mistake_of_the_caller(ledger):
    with pytest.raises(AssertionError, match="nobody"):
        ledger.start("nobody", 1)
    with pytest.raises(KeyError):
        ledger.get("nobody")


def forked(work, *arguments):
    """Run a function in a process of its own that imports nothing anew; returns its pipe and itself."""
    fork = multiprocessing.get_context("fork")
    ours, theirs = fork.Pipe(duplex=False)
    process = fork.Process(target=work, args=(theirs, *arguments), daemon=True)
    process.start()
    theirs.close()
    return ours, process


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
    with Ledger.open(folder, create=True) as ledger:
        ledger.plan(MANY, retry_failed=False)
        for row in ledger.next(len(MANY)):
            ledger.start(row.pair, row.attempts + 1)
            ledger.done(row.pair, "w", 0.1, 1, 1.0, 1)
            pipe.send(row.pair)


@FORKS
def test_a_writer_killed_at_any_moment_keeps_what_it_said(tmp_path):
    """What was said to be done is done after SIGKILL, and at most one pair more; nothing else was lost."""
    told = set()
    for moment in (1, 300, 900, 2000):
        pipe, writer = forked(write_many, tmp_path)
        try:
            told |= {pipe.recv() for _ in range(moment)}
            os.kill(writer.pid, signal.SIGKILL)
            told |= set(told_by(pipe))
        finally:
            writer.kill()
            writer.join(DEADLINE)
        with Ledger.reader(tmp_path) as reader:
            done = {row.pair for row in reader.rows("done")}
            assert reader.counts().total == len(MANY)
            assert told <= done
            assert len(done - told) <= 1
            told = done
            assert reader.sessions()[-1].ended is None
    with Ledger.open(tmp_path, create=False) as ledger:
        planned = ledger.plan(MANY, retry_failed=False)
        assert (planned.done, planned.running, planned.new) == (len(told), 0, 0)
        assert all(row.attempts == 0 for row in ledger.next(len(MANY)))
    assert [path.name for path in tmp_path.iterdir()] == ["ledger.sqlite"]


@FORKS
def test_counts_add_up_at_every_moment_while_a_writer_works(tmp_path):
    pipe, writer = forked(write_many, tmp_path)
    try:
        pipe.recv()
        seen = []
        while writer.is_alive() and len(seen) < 50:
            with Ledger.reader(tmp_path) as reader:
                counts = reader.counts()
                assert counts.total == len(MANY)
                assert counts.running <= 1
                seen.append(counts.done)
        assert seen == sorted(seen)
    finally:
        writer.kill()
        writer.join(DEADLINE)


def test_a_pair_that_was_running_at_a_crash_is_pending_with_its_attempt_given_back(tmp_path):
    crashed = Ledger.open(tmp_path, create=True)
    crashed.plan(pairs("a", "b"), retry_failed=False)
    crashed.start("a", 1)
    crashed.again("a", "w", 1.0, "failed", "Odd", "odd")
    crashed.start("a", 2)
    crashed._connection.close()
    with Ledger.open(tmp_path, create=False) as ledger:
        planned = ledger.plan(pairs("a", "b"), retry_failed=False)
        assert (planned.lost, planned.pending, planned.running) == (1, 2, 0)
        row = ledger.get("a")
        assert (row.state, row.attempts, row.lost, row.started) == ("pending", 1, 1, None)


@pytest.fixture
def open_folder():
    """A folder that other users may look into, unlike those of pytest."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
        folder.chmod(0o755)


@FORKS
@pytest.mark.parametrize("end", ["closed", "closed while somebody read", "killed"])
def test_an_archive_that_may_not_be_written_can_be_looked_at(open_folder, end):
    _, writer = forked(write_and_end, open_folder, end)
    writer.join(DEADLINE)
    # What it leaves: one file, one that needs a log beside it, or one with the log there.
    assert len(list(open_folder.glob("ledger.sqlite-wal"))) == (end == "killed")
    open_folder.chmod(0o555)
    pipe, process = forked(look_as_nobody, open_folder)
    counts, refused = told_by(pipe)
    process.join(DEADLINE)
    assert counts.pending == 1
    assert isinstance(refused, LedgerUnusable)


def write_and_end(pipe, folder, end):
    ledger = Ledger.open(folder, create=True)
    ledger.plan(pairs("a"), retry_failed=False)
    if end == "closed":
        ledger.close()
    elif end == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    else:
        ledger._connection.close()


def look_as_nobody(pipe, folder):
    if os.geteuid() == 0:  # who may write anywhere
        os.setuid(65534)
    with Ledger.reader(folder) as reader:
        pipe.send(reader.counts())
    try:
        Ledger.open(folder, create=False).plan([], retry_failed=False)
    except LedgerUnusable as error:
        pipe.send(error)


def test_a_ledger_written_on_another_machine_is_read_from_a_copy(tmp_path, monkeypatch):
    with Ledger.open(tmp_path, create=True) as ledger:
        ledger.plan(pairs("a", "b"), retry_failed=False)
        finish(ledger, "a")
        (tmp_path / "ledger.sqlite-host").write_text("far-away")
        memory = tmp_path / "ledger.sqlite-shm"
        before = memory.stat().st_mtime_ns
        opened = []
        monkeypatch.setattr(ledger_file, "_read_only", opened.append)
        with Ledger.reader(tmp_path) as reader:
            assert reader.counts() == Counts(pending=1, done=1)
        assert opened == []
        assert memory.stat().st_mtime_ns == before


def _folder(parent, name):
    (parent / name).mkdir()
    return parent / name

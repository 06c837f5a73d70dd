import os
import time
from dataclasses import replace

import pytest
from ledger_pairs import fail, finish, pair_of, pairs, states
from shapely.geometry import Polygon

from workflows.addresses import without_secrets
from workflows.errors import LedgerUnusable
from workflows.pairs.rows import PairRow
from workflows.store.identity import Stored
from workflows.store.ledger import Ledger
from workflows.store.ledger_rows import Counts, Part


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


def test_pairs_come_in_the_order_of_the_table_where_rows_of_another_shard_have_their_place(ledger):
    ledger.plan(pairs("c", "a", "b"), retry_failed=False)
    assert [row.pair for row in ledger.next(2)] == ["c", "a"]
    ledger.plan(pairs("b", "c", "a", "d"), retry_failed=False)
    assert [row.pair for row in ledger.next(9)] == ["b", "c", "a", "d"]
    assert [row.number for row in ledger.rows()] == [0, 1, 2, 3]
    table = [(row, None if row.pair == "e" else key) for row, key in pairs("b", "e", "a")]
    ledger.plan(table, retry_failed=False)
    assert [(row.pair, row.number) for row in ledger.rows()] == [("b", 0), ("a", 2)]


def test_a_pair_goes_from_pending_to_done(ledger):
    ledger.plan(pairs("a", "b"), retry_failed=False)
    begin = time.time()
    ledger.start("a", 1)
    assert ledger.counts() == Counts(pending=1, running=1)
    assert [row.pair for row in ledger.next(9)] == ["b"]
    ledger.done("a", "node7-3", 1.23456, 4, 99.5, 12, ("hazy", "line\ntwo"))
    row = pair_of(ledger, "a")
    assert (row.state, row.worker, row.seconds, row.attempts) == ("done", "node7-3", 1.235, 1)
    assert (row.changes, row.area_m2, row.tiles, row.warnings) == (4, 99.5, 12, ("hazy", "line\ntwo"))
    assert begin <= row.started <= row.finished <= time.time()
    assert ledger.counts().left == 1


def test_a_failure_to_be_tried_again_counts_its_attempt_and_an_abandoned_attempt_does_not(ledger):
    ledger.plan(pairs("a"), retry_failed=False)
    ledger.start("a", 1)
    ledger.give_back("a")
    assert (pair_of(ledger, "a").state, pair_of(ledger, "a").attempts) == ("pending", 0)
    ledger.start("a", 1)
    ledger.again("a", "w1", 2.0, "crashed", "WorkerDied", "it was killed by SIGKILL")
    (row,) = ledger.next(1)
    assert (row.state, row.attempts, row.kind, row.error) == ("pending", 1, "crashed", "WorkerDied")
    ledger.start("a", row.attempts + 1)
    ledger.done("a", "w2", 1.0, 0, 0.0, 1)
    row = pair_of(ledger, "a")
    assert (row.attempts, row.kind, row.line) == (2, None, None)
    ledger.give_back("a")
    assert pair_of(ledger, "a").state == "done"


def test_what_is_done_stays_wherever_it_lies_and_another_key_makes_it_pending_with_nothing_found(ledger):
    ledger.plan(pairs("a", "b"), retry_failed=False)
    finish(ledger, "a")
    before = pair_of(ledger, "a")
    planned = ledger.plan(pairs("a", "b"), retry_failed=False)
    assert (planned.done, planned.pending, planned.new, planned.changed) == (1, 1, 0, 0)
    assert pair_of(ledger, "a") == before
    moved = PairRow("a", "/elsewhere/1.tif", "/elsewhere/2.tif", site="river")
    ledger.plan([*pairs("b"), (moved, "k")], retry_failed=False)
    row = pair_of(ledger, "a")
    assert (row.state, row.number, row.changes) == ("done", 1, 2)
    assert (row.before, row.site) == ("/elsewhere/1.tif", "river")
    fail(ledger, "b")
    planned = ledger.plan(pairs("a", "b", key="new"), retry_failed=False)
    assert (planned.pending, planned.changed) == (2, 2)
    for row in ledger.rows():
        assert (row.state, row.key, row.attempts) == ("pending", "new", 0)
        assert (row.finished, row.changes, row.error, row.warnings) == (None, None, None, ())


def test_failed_pairs_stay_unless_they_are_asked_for(ledger):
    ledger.plan(pairs("a"), retry_failed=False)
    fail(ledger, "a", "refused")
    assert ledger.plan(pairs("a"), retry_failed=False).failed == 1
    assert pair_of(ledger, "a").line == "a.tif: this is not a raster"
    planned = ledger.plan(pairs("a"), retry_failed=True)
    assert (planned.pending, planned.failed, planned.retried) == (1, 0, 1)
    assert (pair_of(ledger, "a").attempts, pair_of(ledger, "a").error) == (0, None)


def test_a_pair_that_left_the_table_comes_back_as_it_was(ledger):
    ledger.plan(pairs("a", "b", "c"), retry_failed=False)
    finish(ledger, "a")
    fail(ledger, "b")
    done = pair_of(ledger, "a")
    planned = ledger.plan(pairs("d"), retry_failed=True)
    assert (planned.dropped, planned.total, planned.retried) == (3, 1, 0)
    assert [row.pair for row in ledger.rows()] == ["d"]
    ledger.plan(pairs("d"), retry_failed=False)
    planned = ledger.plan(pairs("a", "b", "c"), retry_failed=False)
    assert states(ledger) == {"a": "done", "b": "failed", "c": "pending", "d": "dropped"}
    assert pair_of(ledger, "a") == done


def test_what_was_done_with_an_earlier_key_is_never_called_done(ledger):
    """The folder may have another report by then, as after a kill before the ledger learnt of it."""
    ledger.plan(pairs("a"), retry_failed=False)
    finish(ledger, "a")
    for table in (pairs("a", key="one"), [], pairs("a", key="two"), pairs("a")):
        planned = ledger.plan(table, retry_failed=False)
        assert (planned.done, planned.pending, planned.changed) == (0, len(table), len(table))
        assert not ledger.has_report("a", "k")


def test_it_knows_what_reports_there_are(ledger):
    ledger.plan(pairs("a", "b", "c"), retry_failed=False)
    finish(ledger, "a")
    finish(ledger, "b")
    fail(ledger, "c")
    ledger.plan(pairs("a", "c", key="new"), retry_failed=False)
    found = [(pair, key) for pair in "abcd" for key in ("k", "new") if ledger.has_report(pair, key)]
    assert found == [("b", "k")], "one that was dropped, and none whose key is another now"
    assert states(ledger)["b"] == "dropped"
    assert ledger.plan(pairs("b", key="new"), retry_failed=False).changed == 1
    assert states(ledger)["b"] == "pending"


def test_rows_can_be_changed_while_they_are_read_and_unknown_ones_are_mistakes(ledger, monkeypatch):
    monkeypatch.setattr("workflows.store.ledger._CHUNK", 3)
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
    with pytest.raises(AssertionError, match="nobody"):
        ledger.start("nobody", 1)


def test_parts_of_a_split_pair_outlive_a_crash_and_not_a_change(tmp_path):
    with Ledger.open(tmp_path) as ledger:
        ledger.plan(pairs("a", "b"), retry_failed=False)
        ledger.start("a", 1)
        ledger.split("a", [(0, 4), (4, 8)])
        ledger.part_done("a", 1)
    with Ledger.open(tmp_path) as ledger:
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
    (tmp_path / "whole").mkdir()
    with Ledger.open(tmp_path / "whole") as whole:
        whole.plan(pairs("z"), retry_failed=False)
        whole.replace(rows)
        assert list(whole.rows()) == rows[::-1]


def test_what_was_hashed_of_files_is_kept(tmp_path):
    files = {
        "/x/1.tif": Stored(5, 1, False, b"\0\1", None),
        "/x/2.vrt": Stored(6, 2, True, b"", ("/x/é.tif",)),
    }
    with Ledger.open(tmp_path) as ledger:
        ledger.keep_files(files)
    with Ledger.open(tmp_path) as ledger:
        assert dict(ledger.files().all()) == files
        assert ledger.files().get("/x/2.vrt") == files["/x/2.vrt"]
        assert ledger.files().get("/x/3.tif") is None
        changed = Stored(7, 3, False, b"\2", None)
        ledger.keep_files({"/x/1.tif": changed})
        assert ledger.files().get("/x/1.tif") == changed
        found = ledger.files()
    with pytest.raises(LedgerUnusable):
        found.get("/x/1.tif")


def test_messages_hold_no_secrets(ledger):
    ledger.plan(pairs("a"), retry_failed=False)
    ledger.start("a", 1)
    ledger.failed(
        "a", "w", 1, "failed", "Odd", "/vsicurl/https://me:pw@host/a.tif?sig=1: HTTP 'https://h/b#c' no"
    )
    assert pair_of(ledger, "a").line == "/vsicurl/https://host/a.tif: HTTP 'https://h/b' no"
    ledger.done("a", "w", 1, 0, 0.0, 1, ["s3://bucket/key?X-Amz-Signature=2, dark"])
    assert pair_of(ledger, "a").warnings == ("s3://bucket/key, dark",)
    assert without_secrets("a.tif: is this right? no #1") == "a.tif: is this right? no #1"


def test_sessions_say_when_coordinators_worked(tmp_path):
    with Ledger.open(tmp_path) as ledger:
        assert ledger.sessions() == []
        ledger.plan(pairs("a"), retry_failed=False)
        (session,) = ledger.sessions()
        assert (session.pid, session.ended) == (os.getpid(), None)
    with Ledger.reader(tmp_path) as ledger:
        assert ledger.sessions()[0].ended >= session.started


def test_a_pair_that_was_running_at_a_crash_is_pending_and_has_all_its_tries_again(tmp_path):
    crashed = Ledger.open(tmp_path)
    crashed.plan(pairs("a", "b"), retry_failed=False)
    crashed.start("a", 1)
    crashed.again("a", "w", 1.0, "failed", "Odd", "odd")
    crashed.start("a", 2)
    crashed._connection.close()
    with Ledger.open(tmp_path) as ledger:
        planned = ledger.plan(pairs("a", "b"), retry_failed=False)
        assert (planned.lost, planned.pending, planned.running) == (1, 2, 0)
        row = pair_of(ledger, "a")
        assert (row.state, row.attempts, row.lost, row.started) == ("pending", 0, 1, None)

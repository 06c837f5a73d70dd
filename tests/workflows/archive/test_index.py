"""The index is a cache: whatever is done to it, the state of an archive is that of its folders."""

import hashlib
import os
from pathlib import Path

import pytest
from archive_rows import change, fill, report

from workflows.archive import index as index_module
from workflows.archive.index import Counts, Index
from workflows.archive.state import read_state
from workflows.pairs.rows import PairRow

PAIRS = [PairRow(f"p{number}", f"/s/{number}_1.tif", f"/s/{number}_2.tif") for number in range(4)]


@pytest.fixture
def archive(tmp_path):
    """Two pairs that are done, one that failed and one to do."""
    ends = [report(change()), report(change(1), change(2, 12.6)), "no raster", None]
    return fill(tmp_path / "archive", dict(zip(PAIRS, ends, strict=True)))


def state_of(folder) -> dict[str, tuple]:
    with read_state(folder.path) as state:
        rows = state.index.select("SELECT pair, state, key, changes, area_m2, line FROM pairs")
    return {pair: tuple(values) for pair, *values in rows}


def test_the_index_comes_back_as_it_was_written(archive):
    with read_state(archive.path) as state:
        rows = list(state.index.rows())
        assert state.index.counts() == Counts(pending=1, done=2, failed=1)
        assert state.index.totals() == (3, 300.75, 0)
        again = Index.load(archive.index, archive.archive_id())
    assert [row.pair for row in rows] == ["p0", "p1", "p2", "p3"]
    assert list(again.rows()) == rows


def damage(path: Path, how: str) -> None:
    content = path.read_bytes()
    if how == "missing":
        path.unlink()
    elif how == "fifo":
        path.unlink()
        os.mkfifo(path)
    else:
        cut = content[: len(content) // 2]
        path.write_bytes({"empty": b"", "text": b"no index", "cut": cut, "zeros": bytes(9000)}[how])


@pytest.mark.parametrize("how", ["missing", "fifo", "empty", "text", "cut", "zeros"])
def test_a_lost_or_damaged_index_is_rebuilt_from_the_folders(archive, how):
    before = state_of(archive)
    damage(archive.index, how)
    after = state_of(archive)
    # Pairs that are still to do are in the table of pairs alone.
    assert after == {pair: values for pair, values in before.items() if values[0] != "pending"}
    with read_state(archive.path) as state:
        assert state.index.counts() == Counts(done=2, failed=1)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER t AFTER UPDATE ON pairs BEGIN DELETE FROM pairs; END",
        "ALTER TABLE files RENAME TO f; CREATE VIEW files AS SELECT * FROM f",
        "CREATE TABLE t (a CHECK (length(hex(zeroblob(400000000))) > 0)); INSERT INTO t VALUES (1)",
        "ALTER TABLE pairs ADD big TEXT GENERATED ALWAYS AS (hex(zeroblob(400000000)))",
        "CREATE INDEX i ON pairs (length(hex(zeroblob(tiles))))",
    ],
)
def test_an_index_of_another_schema_computes_nothing(archive, monkeypatch, statement):
    connection = index_module._connect()
    connection.deserialize(archive.index.read_bytes()[:-32])
    connection.executescript(f"PRAGMA ignore_check_constraints = ON; {statement}")
    content = connection.serialize()
    archive.index.write_bytes(content + hashlib.sha256(content).digest())
    index_module._own_schema()
    asked = []
    connection = index_module._connect()
    connection.set_trace_callback(asked.append)
    monkeypatch.setattr(index_module, "_connect", lambda: connection)
    assert Index.load(archive.index, archive.archive_id()) is None
    assert "sqlite_master" in asked[-1]  # nothing after the schema


def test_an_index_of_another_archive_is_not_believed(archive, tmp_path):
    other = fill(tmp_path / "other", {row: None for row in PAIRS})
    archive.index.write_bytes(other.index.read_bytes())
    assert {values[0] for values in state_of(archive).values()} == {"done", "failed"}


@pytest.mark.parametrize("ending", ["-journal", "-wal", "-shm"])
def test_a_journal_beside_the_index_is_never_applied(archive, tmp_path, ending):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    # A hot journal that names a master journal: SQLite would delete that.
    name = str(victim).encode()
    trailer = name + len(name).to_bytes(4, "big") + sum(name).to_bytes(4, "big")
    magic = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"
    beside = archive.index.with_name(archive.index.name + ending)
    beside.write_bytes(magic + bytes(504) + trailer + magic)
    before = beside.read_bytes()
    states = state_of(archive)
    assert states["p0"][0] == "done" and victim.read_text() == "mine" and beside.read_bytes() == before


def test_folders_are_believed_and_not_the_index(archive):
    index = Index.load(archive.index, archive.archive_id())
    index.update("p0", state="pending", stamp=0)
    index.update("p3", state="done", stamp=5)
    index.update("p2", state="done", stamp=5, line="nothing")
    archive.index.write_bytes(index.encoded())
    states = {pair: values[0] for pair, values in state_of(archive).items()}
    assert states == {"p0": "done", "p1": "done", "p2": "failed", "p3": "pending"}


def test_a_failure_that_somebody_removed_is_to_be_done_again(archive):
    archive.failure("p2").unlink()
    assert state_of(archive)["p2"][0] == "pending"


@pytest.mark.parametrize("text", ["", "[]", '{"key": 3, "line": [], "finished": 1e300}', "{" * 99])
def test_a_damaged_failure_is_still_one(archive, text):
    archive.failure("p2").write_text(text)
    assert state_of(archive)["p2"][0] in ("failed", "pending")


def test_an_index_that_says_done_without_a_time_is_not_believed(archive):
    archive_id = archive.archive_id()
    index = Index.load(archive.index, archive_id)
    for pair in ("p3", "p0"):
        index.update(pair, state="done", stamp=0)
    index.select("UPDATE pairs SET pair = '../../p3' WHERE pair = 'p3'")
    archive.index.write_bytes(index.encoded())
    with read_state(archive.path) as state:
        assert state.index.names("done") == ["p0", "p1"] and state.index.one("../../p3").state == "pending"


def test_a_pair_that_is_to_be_done_again_adds_nothing_to_the_totals(archive):
    with read_state(archive.path) as state:
        outdated = next(state.index.rows("done"))._replace(state="pending")
        state.index.put([outdated])
        assert state.index.totals()[:2] == (2, 200.5)

"""Layers that are small on the disk and huge in memory, and journals beside a GeoPackage."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from archive_rows import change, report

from workflows.bounded import bounded_memory
from workflows.errors import ReportInvalid
from workflows.report import reading
from workflows.report.formats import layers
from workflows.report.reading import open_report

LONG = "x" * 100_000


def shared_prefix(count):
    return pa.array([LONG + str(number % 2) for number in range(count)]), {
        "use_dictionary": False,
        "column_encoding": {"caption": "DELTA_BYTE_ARRAY"},
    }


def one_dictionary(count):
    codes = pa.array(np.zeros(count, np.int32))
    return pa.DictionaryArray.from_arrays(codes, pa.array([LONG])), {}


def one_page(count):
    return pa.array([LONG] * count), {"use_dictionary": False, "data_page_size": 2**30}


@pytest.mark.parametrize("column", [shared_prefix, one_dictionary, one_page])
@pytest.mark.parametrize("is_memory", [False, True])
def test_columns_that_unpack_to_a_thousand_times_are_refused(tmp_path, monkeypatch, column, is_memory):
    """By the bytes that come out, or by the memory that they take."""
    path, count = tmp_path / "r.parquet", 400
    report(change()).write(path)
    rows = pa.concat_tables([pq.read_table(path)] * count)
    values, options = column(count)
    rows = rows.set_column(rows.schema.get_field_index("caption"), "caption", values)
    pq.write_table(rows, path, compression="zstd", **options)
    assert path.stat().st_size < 40_000
    if is_memory:
        resource = pytest.importorskip("resource")
        monkeypatch.setattr(resource, "setrlimit", lambda *_: None)
        monkeypatch.setattr(layers.Parquet, "features", lambda self: bytearray(2**62))
    else:
        monkeypatch.setattr(reading, "LARGEST_BYTES", 10**6)
    with pytest.raises(ReportInvalid):
        open_report(path)


def test_the_limit_of_memory_ends_with_its_block_and_is_that_of_the_system_before():
    import resource

    before = resource.getrlimit(resource.RLIMIT_AS)
    with pytest.raises(MemoryError), bounded_memory(2**28), bounded_memory(2**30):
        bytearray(2**30)
    assert resource.getrlimit(resource.RLIMIT_AS) == before


@pytest.fixture
def layer(tmp_path):
    return report(change()).write(tmp_path / "r.gpkg")


@pytest.mark.parametrize("ending", ["-journal", "-wal", "-shm"])
@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
def test_what_has_the_name_of_a_journal_and_is_no_file_is_never_opened(layer, ending, kind):
    journal = layer.with_name(layer.name + ending)
    if kind == "pipe":
        os.mkfifo(journal)
    elif kind == "link":
        journal.symlink_to("/dev/zero")
    else:
        journal.mkdir()
    with pytest.raises(ReportInvalid, match=r"r\.gpkg"):
        open_report(layer)


def test_a_journal_is_neither_applied_nor_removed(layer, tmp_path):
    victim, journal = tmp_path / "victim", layer.with_name("r.gpkg-journal")
    victim.write_text("mine")
    name = str(victim).encode()
    # As SQLite ends a journal of several files: the name of the file that it deletes with it.
    magic = bytes.fromhex("d9d505f920a163d7")
    tail = name + len(name).to_bytes(4, "big") + sum(name).to_bytes(4, "big") + magic
    journal.write_bytes(magic + bytes(504) + tail)
    before = layer.read_bytes()
    with pytest.raises(ReportInvalid):
        open_report(layer)
    assert victim.read_text() == "mine" and journal.exists() and layer.read_bytes() == before


def test_what_another_program_writes_is_read_while_it_has_the_layer_open(layer):
    with closing(sqlite3.connect(layer)) as editor:
        editor.execute("PRAGMA journal_mode = WAL")
        for (trigger,) in editor.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            editor.execute(f"DROP TRIGGER {trigger}")
        editor.execute("UPDATE changes SET review_status = 'confirmed'")
        editor.commit()
        assert [one.review_status for one in open_report(layer).changes] == ["confirmed"]
    assert [one.review_status for one in open_report(layer).changes] == ["confirmed"]

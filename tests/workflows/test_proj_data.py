"""Databases of PROJ that the environment names: those that cannot be used are ignored."""

import os
import sqlite3
from importlib.util import find_spec
from pathlib import Path

import pytest

from workflows.proj_data import ignore_unusable_proj_data

OWN = Path(find_spec("rasterio").origin).parent / "proj_data"


def database(folder: Path, minor: int) -> Path:
    with sqlite3.connect(folder / "proj.db") as base:
        base.execute("CREATE TABLE metadata (key TEXT, value TEXT)")
        rows = [("DATABASE.LAYOUT.VERSION.MAJOR", "1"), ("DATABASE.LAYOUT.VERSION.MINOR", str(minor))]
        base.executemany("INSERT INTO metadata VALUES (?, ?)", rows)
    base.close()
    return folder


@pytest.mark.skipif(not (OWN / "proj.db").exists(), reason="this rasterio has no database of its own")
@pytest.mark.parametrize("variable", ["PROJ_LIB", "PROJ_DATA"])
def test_only_a_database_that_can_be_used_stays(tmp_path, monkeypatch, variable):
    for folder, stays in ((tmp_path / "absent", False), (database(tmp_path, 0), False), (OWN, True)):
        monkeypatch.setenv(variable, str(folder))
        ignore_unusable_proj_data()
        assert (variable in os.environ) == stays

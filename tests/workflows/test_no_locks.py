"""A file system without locks: GeoPackages are made elsewhere, archives say what to do."""

from __future__ import annotations

import errno
import sqlite3
from contextlib import closing

import filelock
import pytest
from captioners import captioned
from scene_pairs import make_pair

from workflows.archive.folder import locked
from workflows.errors import OutputNotWritable
from workflows.scene.network import map_folder

ERRORS = [NotImplementedError("no flock"), OSError(errno.ENOLCK, "No locks available")]


@pytest.fixture(params=ERRORS, ids=lambda error: type(error).__name__)
def no_locks(request, monkeypatch):
    def refuse(self, *_, **__):
        raise request.param

    monkeypatch.setattr(filelock.FileLock, "acquire", refuse)


def test_an_archive_says_what_to_do(tmp_path, no_locks):
    with pytest.raises(OutputNotWritable, match="local disk") as caught, locked(tmp_path / "a.lock", "busy"):
        pass
    assert caught.value.exit_code == 1 and str(tmp_path / "a.lock") in str(caught.value)


def test_maps_are_written_without_a_lock(tmp_path, no_locks):
    with map_folder.surveying(tmp_path):
        pass


def test_a_geopackage_is_made_on_this_machine(tmp_path, monkeypatch):
    report = captioned(make_pair(tmp_path, [(20, 150, 12, 20, 220)]))
    report.write(tmp_path / "usual.gpkg", overwrite=True)
    (tmp_path / "share").mkdir()
    connect = sqlite3.connect

    def refuse(path, **options):
        if str(path).startswith(str(tmp_path / "share")):
            raise sqlite3.OperationalError("locking protocol")
        return connect(path, **options)

    monkeypatch.setattr("workflows.report.formats.geopackage.sqlite3.connect", refuse)
    report.write(tmp_path / "share/r.gpkg")
    monkeypatch.undo()
    names = [path.name for path in (tmp_path / "share").iterdir()]
    assert names == ["r.gpkg"]
    counts = []
    for path in (tmp_path / "usual.gpkg", tmp_path / "share/r.gpkg"):
        with closing(connect(path)) as base:
            counts.append(base.execute("SELECT caption FROM changes").fetchall())
    assert counts[0] == counts[1] != []

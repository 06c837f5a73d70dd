from __future__ import annotations

import errno
import shutil
import sqlite3
from contextlib import closing
from types import SimpleNamespace

import pytest

from workflows.errors import FormatUnsupported, OutputExists, OutputFolderMissing, OutputNotWritable
from workflows.files import check_free, check_output, style_path, told_when_refused, write_together
from workflows.report.report import ChangeReport


def test_checking_leaves_nothing_behind(tmp_path):
    assert check_output(tmp_path / "r.geojson") == tmp_path / "r.geojson"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["r.shp", "r", "r.json", "r.tif"])
def test_other_formats_are_refused(tmp_path, name):
    with pytest.raises(FormatUnsupported, match=r"\.geojson"):
        check_output(tmp_path / name)


@pytest.mark.parametrize("existing", ["r.geojson", "r.qml"])
def test_nothing_is_replaced_unless_asked_for(tmp_path, existing):
    (tmp_path / existing).write_text("mine")
    with pytest.raises(OutputExists, match=existing):
        check_output(tmp_path / "r.geojson")
    check_output(tmp_path / "r.geojson", overwrite=True)
    assert (tmp_path / existing).read_text() == "mine"


def test_a_geopackage_that_is_being_edited_is_not_replaced(tmp_path):
    report = ChangeReport([])
    path = report.write(tmp_path / "r.gpkg")
    with closing(sqlite3.connect(path)) as editor:
        editor.execute("PRAGMA journal_mode = WAL")
        editor.execute("UPDATE gpkg_contents SET description = 'mine'")
        editor.commit()
        with pytest.raises(OutputExists, match=r"QGIS, has changes of it in r\.gpkg-wal; save and close"):
            report.write(path, overwrite=True)
        assert report.write(tmp_path / "r.fgb").is_file()
    path.with_name("r.gpkg-wal").touch()  # in which a program has nothing
    assert report.write(path, overwrite=True) == path
    with closing(sqlite3.connect(path)) as reader:
        assert reader.execute("SELECT * FROM gpkg_contents WHERE description = 'mine'").fetchall() == []


def test_the_style_of_another_format_is_in_nobodys_way(tmp_path):
    (tmp_path / "r.qml").write_text("ours")
    assert check_output(tmp_path / "r.fgb", style="ours") == tmp_path / "r.fgb"
    with pytest.raises(OutputExists, match=r"r\.qml"):
        check_output(tmp_path / "r.fgb", style="another")


def test_a_folder_is_never_replaced_and_a_missing_one_or_a_file_in_its_place_is_none(tmp_path):
    (tmp_path / "r.geojson").mkdir()
    with pytest.raises(OutputExists, match="folder"):
        check_output(tmp_path / "r.geojson", overwrite=True)
    (tmp_path / "file").write_text("")
    for folder in ("missing", "file"):
        with pytest.raises(OutputFolderMissing, match=folder):
            check_output(tmp_path / folder / "r.geojson")


def test_a_folder_that_takes_no_files():
    with pytest.raises(OutputNotWritable, match=r"/proc/r\.geojson") as caught:
        check_output("/proc/r.geojson")
    assert caught.value.exit_code == 1


def test_files_appear_together(tmp_path):
    report = tmp_path / "r.geojson"
    write_together({style_path(report): ["style"], report: ["re", "port"]})
    assert report.read_text() == "report"
    assert {path.name for path in tmp_path.iterdir()} == {"r.geojson", "r.qml"}
    assert report.stat().st_mode & 0o777 == (tmp_path / "r.qml").stat().st_mode & 0o777
    assert report.stat().st_mode & 0o400


@pytest.mark.parametrize(
    ("failure", "expected"),
    [(OSError(errno.ENOSPC, "No space left"), OutputNotWritable), (KeyboardInterrupt(), KeyboardInterrupt)],
)
def test_a_failure_in_the_middle_touches_neither(tmp_path, failure, expected):
    def broken():
        yield "half of "
        raise failure

    report = tmp_path / "r.geojson"
    report.write_text("old")
    with pytest.raises(expected):
        write_together({style_path(report): ["style"], report: broken()})
    assert report.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["r.geojson"]


@pytest.mark.parametrize("name", ["r.geojson", "r.qml"])
@pytest.mark.parametrize("link", [False, True])
def test_an_input_is_never_replaced(tmp_path, name, link):
    source = tmp_path / ("scene.tif" if link else name)
    source.write_text("a scene")
    if link:
        (tmp_path / name).symlink_to(source)
    with pytest.raises(OutputExists, match=f"{name}: is an input"):
        check_output(tmp_path / "r.geojson", overwrite=True, inputs=["https://host/x.tif", source])
    report = ChangeReport([], {"inputs": {"before": {"path": str(source)}, "after": {"path": "\0"}}})
    with pytest.raises(OutputExists, match=f"{name}: is an input"):
        report.write(tmp_path / "r.geojson", overwrite=True)
    with pytest.raises(OutputExists, match=r"is an input"):
        check_free([tmp_path / name], overwrite=True, inputs=[str(source)])
    assert source.read_text() == "a scene"


@pytest.mark.parametrize("name", ["r.geojson", "r.qml"])
def test_a_link_that_leads_nowhere_is_replaced_only_when_asked_for(tmp_path, name):
    (tmp_path / name).symlink_to(tmp_path / "nowhere")
    with pytest.raises(OutputExists, match=name):
        check_output(tmp_path / "r.geojson")
    ChangeReport([]).write(tmp_path / "r.geojson", overwrite=True)
    assert not (tmp_path / "nowhere").exists() and (tmp_path / "r.geojson").is_file()


FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (FULL, OutputNotWritable),
        (shutil.Error([("a", "b", str(FULL))]), OutputNotWritable),
        (RuntimeError("unexpected pos 576"), RuntimeError),
        (PermissionError(errno.EACCES, "Permission denied", "data/a.png"), PermissionError),
    ],
)
def test_a_full_disk_is_told_in_a_line_whoever_met_it(tmp_path, failure, expected):
    with pytest.raises(expected) as caught, told_when_refused(tmp_path):
        raise failure
    if expected is OutputNotWritable:
        assert str(caught.value).startswith(f"{tmp_path}: cannot be written (No space left on device); ")
    with pytest.raises(OutputNotWritable), told_when_refused(tmp_path):
        try:
            raise FULL
        finally:
            raise failure


def test_a_disk_that_is_nearly_full_is_the_reason_where_a_library_tells_none(tmp_path, monkeypatch):
    def fail(draft):
        raise OSError("no such table: gpkg_contents")

    for free, reason in ((40_000, "only 40 kB are free"), (10**9, "no such table")):
        monkeypatch.setattr(shutil, "disk_usage", lambda folder, free=free: SimpleNamespace(free=free))
        with pytest.raises(OutputNotWritable, match=reason):
            write_together({tmp_path / "a.gpkg": fail})

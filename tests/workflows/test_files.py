import errno
import os
import shutil
import sqlite3
import zipfile
from contextlib import closing

import pytest
from rasters import textured, write_scene, write_vrt

from workflows.errors import OutputExists, OutputFolderMissing, OutputNotWritable
from workflows.files import (
    check_free,
    check_output,
    make_folder,
    one_line_if_disk_full,
    style_path,
    write_together,
)
from workflows.report.report import Report


@pytest.mark.parametrize("existing", ["r.geojson", "r.qml"])
def test_nothing_is_replaced_unless_asked_for(tmp_path, existing):
    (tmp_path / existing).write_text("mine")
    with pytest.raises(OutputExists, match=existing):
        check_output(tmp_path / "r.geojson")
    check_output(tmp_path / "r.geojson", overwrite=True)
    assert (tmp_path / existing).read_text() == "mine"


def test_a_geopackage_that_is_being_edited_is_not_replaced(tmp_path):
    report = Report([])
    path = report.write(tmp_path / "r.gpkg")
    with closing(sqlite3.connect(path)) as editor:
        editor.execute("PRAGMA journal_mode = WAL")
        editor.execute("UPDATE gpkg_contents SET description = 'mine'")
        editor.commit()
        with pytest.raises(OutputExists, match=r"r\.gpkg-wal"):
            report.write(path, overwrite=True)
        assert report.write(tmp_path / "r.fgb").is_file()
    path.with_name("r.gpkg-wal").touch()  # in which a program has nothing
    assert report.write(path, overwrite=True) == path
    with closing(sqlite3.connect(path)) as reader:
        assert reader.execute("SELECT * FROM gpkg_contents WHERE description = 'mine'").fetchall() == []


def test_a_geopackage_with_a_change_that_is_not_committed_is_not_replaced(tmp_path):
    report = Report([])
    path = report.write(tmp_path / "r.gpkg")
    with closing(sqlite3.connect(path)) as editor:
        editor.execute("UPDATE gpkg_contents SET description = 'mine'")
        with pytest.raises(OutputExists, match=r"r\.gpkg-journal"):
            report.write(path, overwrite=True)
    assert report.write(path, overwrite=True) == path


def test_a_folder_is_never_replaced_and_a_missing_one_or_a_file_in_its_place_is_none(tmp_path):
    (tmp_path / "r.geojson").mkdir()
    with pytest.raises(OutputExists):
        check_output(tmp_path / "r.geojson", overwrite=True)
    (tmp_path / "file").write_text("")
    for folder in ("missing", "file"):
        with pytest.raises(OutputFolderMissing, match=folder):
            check_output(tmp_path / folder / "r.geojson")


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
    with pytest.raises(OutputExists, match=name):
        check_output(tmp_path / "r.geojson", overwrite=True, inputs=["https://host/x.tif", source])
    report = Report([], {"inputs": {"before": {"path": str(source)}, "after": {"path": "\0"}}})
    with pytest.raises(OutputExists, match=name):
        report.write(tmp_path / "r.geojson", overwrite=True)
    with pytest.raises(OutputExists, match=name):
        check_free([tmp_path / name], overwrite=True, inputs=[str(source)])
    assert source.read_text() == "a scene"


@pytest.mark.parametrize("name", ["r.geojson", "r.qml"])
@pytest.mark.parametrize("kind", ["vrt", "zip", "overviews"])
def test_what_an_input_is_read_from_is_never_replaced(tmp_path, name, kind):
    source, scene = tmp_path / name, tmp_path / "scene.vrt"
    tiff = write_scene(tmp_path / "a.tif", textured(40, 60))
    if kind == "vrt":
        tiff.rename(source)
        write_vrt(scene, name)
    elif kind == "zip":
        with zipfile.ZipFile(source, "w") as archive:
            archive.write(tiff, "a.tif")
        scene = f"/vsizip/{{{source}}}/a.tif"
    else:
        scene = tiff
        source = write_scene(tmp_path / "a.tif.msk", textured(40, 60)[:1])
    with pytest.raises(OutputExists, match=source.name):
        check_free([source], overwrite=True, inputs=[scene])
    if kind != "overviews":
        with pytest.raises(OutputExists, match=name):
            check_output(tmp_path / "r.geojson", overwrite=True, inputs=[scene])


def test_a_huge_style_is_not_read(tmp_path):
    with (tmp_path / "r.qml").open("wb") as file:
        file.truncate(2**41)
    with pytest.raises(OutputExists, match=r"r\.qml"):
        check_output(tmp_path / "r.geojson", style="<qgis/>")


@pytest.mark.parametrize("name", ["r.geojson", "r.qml"])
def test_a_link_that_leads_nowhere_is_replaced_only_when_asked_for(tmp_path, name):
    (tmp_path / name).symlink_to(tmp_path / "nowhere")
    with pytest.raises(OutputExists, match=name):
        check_output(tmp_path / "r.geojson")
    Report([]).write(tmp_path / "r.geojson", overwrite=True)
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
    with pytest.raises(expected) as caught, one_line_if_disk_full(tmp_path):
        raise failure
    if expected is OutputNotWritable:
        assert str(caught.value).startswith(f"{tmp_path}: ") and "No space left" in str(caught.value)
    with pytest.raises(OutputNotWritable), one_line_if_disk_full(tmp_path):
        try:
            raise FULL
        finally:
            raise failure


def test_a_folder_is_made_though_another_run_removes_the_one_above_it(tmp_path, monkeypatch):
    mkdir, removed = os.mkdir, []

    def raced(path, *arguments):
        if path == tmp_path / "work" / "own" and path.parent.exists() and len(removed) < 3:
            removed.append(path.parent.rmdir())
        mkdir(path, *arguments)

    monkeypatch.setattr(os, "mkdir", raced)
    make_folder(tmp_path / "work" / "own")
    assert (tmp_path / "work" / "own").is_dir() and len(removed) == 3


def test_a_folder_that_the_system_refuses_is_told(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        make_folder(tmp_path / "file" / "own")

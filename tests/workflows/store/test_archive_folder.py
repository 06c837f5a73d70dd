"""Whole folders come and go, whatever moment the process is killed at."""

from __future__ import annotations

import errno
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from filelock import FileLock
from killing import STEPS, Steps, kill

from workflows.errors import ArchiveBusy, NotAnArchive, OutputFolderMissing, OutputNotWritable
from workflows.store.folder import ArchiveFolder

OLD = {"changes.geojson": b"old", "item.json": b"{}"}
NEW = {"changes.geojson": b"new" * 1000, "changes.qml": b"<qgis/>", "item.json": b"{}"}


def made(tmp_path, name="archive", *, durable=True, pair=None) -> ArchiveFolder:
    """An archive, that holds ``pair`` as the pair a if there is one."""
    folder = ArchiveFolder(tmp_path / name, durable=durable)
    folder.create()
    if pair:
        folder.install("a", pair)
    return folder


def files(path: Path) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}


def check_recovered(folder: ArchiveFolder, *either: dict[str, bytes]) -> None:
    folder.recover()
    assert files(folder.pair_folder("a")) in either, folder.path.name
    assert not folder.work.exists()


def everything(folder: ArchiveFolder) -> set[str]:
    return {str(path.relative_to(folder.path)) for path in folder.path.rglob("*")}


def steps_of(action, only=STEPS) -> range:
    """The steps that ``action`` takes when nothing stops it."""
    with pytest.MonkeyPatch.context() as patch:
        counted = Steps(patch, only=only)
        action()
    assert counted.count > 2
    return range(1, counted.count + 1)


def killed_at_each_step(prepared, action):
    """Yield what ``prepared`` makes, under a new name each time, killed before each step of ``action``."""
    undisturbed = prepared("whole")
    for last in steps_of(lambda: action(undisturbed)):
        folder = prepared(str(last))
        assert kill(last, lambda folder=folder: action(folder))
        yield folder


def install(folder: ArchiveFolder) -> None:
    folder.install("a", NEW)


def test_a_new_archive_is_an_empty_one(tmp_path):
    folder = made(tmp_path)
    assert everything(folder) == {"pairs"}
    assert not ArchiveFolder(tmp_path / "other").exists()
    folder.ledger.touch()
    assert folder.exists() and not folder.is_foreign()
    folder.create()


@pytest.mark.parametrize("name", ["notes.txt", "pairs.csv"])
def test_a_folder_of_other_things_is_left_alone(tmp_path, name):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / name).touch()
    folder = ArchiveFolder(tmp_path / "mine")
    assert folder.is_foreign()
    with pytest.raises(NotAnArchive, match=r"mine: is not empty and no archive.*--out"):
        folder.create()
    assert everything(folder) == {name}
    with pytest.raises(NotAnArchive, match=name):
        ArchiveFolder(folder.path / name).create()


def test_the_folder_around_it_must_be_there(tmp_path):
    folder = ArchiveFolder(tmp_path / "absent" / "archive")
    for absent in (folder, folder.shard(1, 4)):
        with pytest.raises(OutputFolderMissing, match="absent does not exist; create it"):
            absent.create()


def test_shards_are_archives_of_their_own(tmp_path):
    folder = made(tmp_path)
    for number in (10, 2):
        folder.shard(number, 12).create()
    (folder.shards / "notes").mkdir()
    assert list(folder.shard_folders()) == [(2, 12), (10, 12)]
    assert folder.exists() and not folder.is_foreign()
    assert folder.shard_folders()[2, 12].path == folder.path / "shards" / "2-of-12"


def test_what_a_run_leaves_that_was_killed_when_it_began_is_no_other_thing(tmp_path):
    def archive(name):
        return ArchiveFolder(tmp_path / name)

    for folder in killed_at_each_step(archive, lambda folder: folder.shard(1, 2).create()):
        folder.create()
        folder.shard(2, 2).create()


def test_a_run_that_was_killed_while_it_tried_the_folder_out_left_no_other_thing(tmp_path):
    folder = made(tmp_path)
    probe = folder.path / ".archive.lock.0123abcd.tmp"
    probe.touch()
    assert not folder.is_foreign()
    (folder.path / ".mine.tmp").touch()
    assert folder.is_foreign()
    (folder.path / ".mine.tmp").unlink()
    folder.create()
    folder.recover()
    assert not probe.exists()


@pytest.mark.parametrize(
    ("steps", "action", "line"),
    [
        (["scandir", "listdir"], ArchiveFolder.is_foreign, r"archive: cannot be written \({}\)"),
        (["mkdir"], lambda folder: folder.install("a", NEW), r"cannot be written \({}\); free space"),
    ],
)
def test_a_folder_that_may_not_be_used_is_one_line(tmp_path, monkeypatch, steps, action, line):
    folder = made(tmp_path)
    Steps(monkeypatch, 1, PermissionError(13, "Permission denied"), steps)
    with pytest.raises(OutputNotWritable, match=line.format("Permission denied")):
        action(folder)


def test_who_only_looks_at_the_lock_for_a_moment_keeps_no_run_away(tmp_path, monkeypatch):
    folder = made(tmp_path)
    looking = FileLock(folder.lock)
    looking.acquire()
    # It lets go while the run waits to try again.
    monkeypatch.setattr(time, "sleep", lambda seconds: looking.release())
    with folder.locked():
        pass
    with FileLock(folder.lock), pytest.raises(ArchiveBusy), folder.locked():
        pass


def test_a_folder_is_installed_and_replaced(tmp_path):
    folder = made(tmp_path, pair=OLD)
    assert files(folder.pair_folder("a")) == OLD
    folder.install("a", NEW)
    assert files(folder.pair_folder("a")) == NEW
    folder.tidy()
    assert not folder.work.exists()
    folder.remove("a")
    folder.remove("a")
    folder.tidy()
    assert everything(folder) == {"pairs"}


@pytest.mark.parametrize("report", [b"old", b"new"])
def test_what_people_put_beside_a_report_outlives_it_but_for_its_page(tmp_path, report):
    folder = made(tmp_path)
    place = folder.pair_folder("a")
    folder.install("a", {"changes.geojson": b"old", "item.json": b"{}"})
    (place / "zoe_marks.json").write_text("{}")
    (place / "changes.html").write_text("a page")
    (place / "notes").mkdir()
    (place / "notes" / "1.txt").write_text("see there")
    folder.install("a", {"changes.geojson": report})
    theirs = {"zoe_marks.json": b"{}", "notes/1.txt": b"see there"}
    page = {"changes.html": b"a page"} if report == b"old" else {}
    assert files(place) == {"changes.geojson": report, **theirs, **page}
    folder.remove("a")
    assert files(place) == theirs
    folder.install("a", {"changes.geojson": report})
    assert files(place) == {"changes.geojson": report, **theirs}


def test_a_kill_while_installing_takes_nothing_that_people_put_beside_a_report(tmp_path):
    def prepared(name: str) -> ArchiveFolder:
        folder = made(tmp_path, name, pair=OLD)
        (folder.pair_folder("a") / "notes.txt").write_text("mine")
        return folder

    notes = {"notes.txt": b"mine"}
    for folder in killed_at_each_step(prepared, install):
        check_recovered(folder, OLD | notes, NEW | notes)


def test_several_threads_install_at_once(tmp_path):
    folder = made(tmp_path)
    pairs = [f"p{number}" for number in range(60)]
    for content in (OLD, NEW):
        with ThreadPoolExecutor(12) as threads:
            list(threads.map(lambda pair, content=content: folder.install(pair, content), pairs))
        assert all(files(folder.pair_folder(pair)) == content for pair in pairs)
    folder.tidy()
    assert not folder.work.exists()


def test_a_folder_is_taken_over_and_stays_where_it_was(tmp_path):
    folder, other = made(tmp_path, pair=OLD), made(tmp_path, "other", pair=NEW)
    folder.adopt("a", other.pair_folder("a"))
    assert files(folder.pair_folder("a")) == files(other.pair_folder("a")) == NEW
    with pytest.raises(FileNotFoundError):
        folder.adopt("b", other.pair_folder("b"))
    folder.remove("a")
    assert files(other.pair_folder("a")) == NEW


@pytest.mark.parametrize("pair", ["..", ".hidden", "a/b", "", "x" * 101, "a\n", "/tmp/x"])
def test_nothing_is_written_outside(tmp_path, pair):
    folder = made(tmp_path)
    for refused in (lambda: folder.install(pair, OLD), lambda: folder.tile_cache(pair)):
        with pytest.raises(ValueError, match="is no id of a pair"):
            refused()
    assert everything(folder) == {"pairs"}


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("before", [None, OLD])
def test_a_kill_while_installing_leaves_the_old_or_the_new(tmp_path, durable, before):
    def prepared(name):
        folder = made(tmp_path, name, durable=durable, pair=before)
        folder.install("other", OLD)
        return folder

    undisturbed, seen = prepared("undisturbed"), set()
    install(undisturbed)
    undisturbed.tidy()
    for folder in killed_at_each_step(prepared, install):
        check_recovered(ArchiveFolder(folder.path), before or {}, NEW)
        seen.add(files(folder.pair_folder("a")) == NEW)
        assert files(folder.pair_folder("other")) == OLD
        install(folder)
        folder.tidy()
        assert everything(folder) == everything(undisturbed)
        assert files(folder.path) == files(undisturbed.path)
    # Without an old folder and without waiting for the disk, the last step is the renaming itself.
    assert seen == ({False, True} if before or durable else {False})


def test_the_old_folder_comes_back_where_the_new_one_is_lost(tmp_path):
    folder = made(tmp_path)
    aside = folder.work / "old" / "a"
    aside.mkdir(parents=True)
    (aside / "changes.geojson").write_bytes(b"old")
    check_recovered(folder, {"changes.geojson": b"old"})


def test_a_kill_while_recovering_is_recovered_from(tmp_path):
    for again in range(1, 12):
        prepared = partial(made, tmp_path / str(again), durable=False, pair=OLD)
        (tmp_path / str(again)).mkdir()
        for folder in killed_at_each_step(prepared, install):
            kill(again, folder.recover)
            check_recovered(folder, OLD, NEW)


def test_a_full_disk_while_installing_leaves_the_old_and_says_so(tmp_path):
    whole = made(tmp_path, "whole", pair=OLD)
    only = ("rename", "fsync")
    for last in steps_of(lambda: install(whole), only):
        folder = made(tmp_path, str(last), pair=OLD)
        with pytest.MonkeyPatch.context() as patch:
            Steps(patch, last, OSError(errno.ENOSPC, "No space left on device"), only)
            with pytest.raises(OutputNotWritable, match=r"pairs/a: cannot be written \(No space left"):
                folder.install("a", NEW)
        assert files(folder.pair_folder("a")) in (OLD, NEW), last
        check_recovered(folder, OLD, NEW)


def test_a_kill_while_removing_leaves_all_of_it_or_nothing(tmp_path):
    for folder in killed_at_each_step(partial(made, tmp_path, pair=OLD), lambda folder: folder.remove("a")):
        assert files(folder.pair_folder("a")) in ({}, OLD)
        check_recovered(folder, {}, OLD)


def draw(folder: ArchiveFolder, text: str) -> None:
    with folder.drafting() as draft:
        for layer in folder.layers:
            (draft / layer.name).write_text(text)


def shown(folder: ArchiveFolder) -> set[str]:
    return {layer.read_text() if layer.exists() else "" for layer in folder.layers}


@pytest.mark.parametrize("before", ["", "old"])
def test_a_kill_while_publishing_leaves_layers_of_one_run(tmp_path, before):
    def prepared(name):
        folder = made(tmp_path, name)
        if before:
            draw(folder, before)
        return folder

    seen = set()
    for folder in killed_at_each_step(prepared, lambda folder: draw(folder, "new")):
        folder.recover()
        assert shown(folder) in ({before}, {"new"}), folder.path.name
        seen |= shown(folder)
        assert not folder.work.exists()
        draw(folder, "newer")
        assert shown(folder) == {"newer"}
    assert seen == {before, "new"}


def test_finished_tiles_are_kept_until_they_are_dropped(tmp_path):
    folder = made(tmp_path)
    tiles = folder.tile_cache("large")
    tiles.mkdir(parents=True)
    (tiles / "0").touch()
    folder.recover()
    assert (tiles / "0").exists()
    folder.drop_tile_cache("large")
    folder.drop_tile_cache("large")
    folder.tidy()
    assert not folder.work.exists()


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), ValueError("no")])
def test_an_error_while_layers_are_made_leaves_the_old_ones(tmp_path, error):
    folder = made(tmp_path)
    draw(folder, "old")
    with pytest.raises((OutputNotWritable, ValueError)), folder.drafting() as draft:
        (draft / "changes.parquet").write_text("new")
        raise error
    assert shown(folder) == {"old"}
    folder.tidy()
    assert not folder.work.exists()

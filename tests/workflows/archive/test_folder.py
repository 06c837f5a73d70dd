"""An archive is known by its mark, and survives a kill before any step on the disk."""

import errno
import json
import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from archive_rows import new_claim
from damage import STEPS, Steps, kill
from filelock import FileLock

from workflows.archive.claim import Claim, claim_shard
from workflows.archive.folder import ITEM, MARK, PAGE, REPORT, STYLE, THUMBNAILS, ArchiveFolder, locked
from workflows.errors import ArchiveBusy, FolderOccupied, MarkMissing, OutputNotWritable

OLD = {"changes.geojson": b"old", "item.json": b"{}"}
NEW = {"changes.geojson": b"new" * 1000, "changes.qml": b"<qgis/>", "item.json": b"{}"}
FOLDERS = ("pairs", "failed", "claims", "runs", "work")


def made(path: Path, pair: dict[str, bytes] | None = None, notes: str = "") -> Claim:
    """An archive with ``pair`` as the pair a, and ``notes`` that somebody put beside its report."""
    claim = new_claim(path)
    if pair:
        claim.install("a", pair)
    if notes:
        (claim.folder.pair_folder("a") / "notes.txt").write_text(notes)
    return claim


def files(path: Path) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}


def killed_at_each_step(tmp_path, prepare, action):
    """Yield what ``prepare`` makes at a new path each time, killed before each step of ``action``."""
    with pytest.MonkeyPatch.context() as patch:
        whole = prepare(tmp_path / "whole")
        counted = Steps(patch, only=STEPS)
        action(whole)
    assert counted.count > 2
    for last in range(1, counted.count + 1):
        claim = prepare(tmp_path / str(last))
        assert kill(last, lambda claim=claim: action(claim))
        yield claim


# The mark -------------------------------------------------------------------------------------------------


def test_a_new_archive_has_a_mark_and_keeps_it(tmp_path):
    folder = ArchiveFolder(tmp_path / "archive")
    with pytest.raises(MarkMissing):
        folder.archive_id()
    folder.create()
    first = folder.archive_id()
    folder.create()
    assert len(first) == 32 and folder.archive_id() == first


def test_an_archive_whose_creation_was_killed_can_be_created(tmp_path):
    for last in range(1, 20):
        path = tmp_path / str(last)
        is_killed = kill(last, ArchiveFolder(path).create)
        ArchiveFolder(path).create()
        assert ArchiveFolder(path).archive_id()
        if not is_killed:
            return
    raise AssertionError("it was killed every time")


def test_nothing_is_written_into_a_folder_of_other_files(tmp_path):
    mine = tmp_path / "mine"
    for name in ("work/tiles/a", "work/new/a", "work/layers/x", "work/old/b", "work/1-of-1/old/c", "pairs/p"):
        (mine / name).mkdir(parents=True)
        (mine / name / "thesis.txt").write_text("years of work")
    before = files(mine)
    with pytest.raises(FolderOccupied):
        ArchiveFolder(mine).create()
    assert files(mine) == before
    with pytest.raises(FolderOccupied):
        ArchiveFolder(mine / "work/new/a/thesis.txt").create()


def test_runs_that_start_together_agree_on_one_mark(tmp_path):
    for number in range(20):
        path = tmp_path / f"archive{number}"
        together = threading.Barrier(4)

        def create(path=path, together=together):
            together.wait()
            ArchiveFolder(path).create()
            return ArchiveFolder(path).archive_id()

        with ThreadPoolExecutor(4) as threads:
            ids = {future.result() for future in [threads.submit(create) for _ in range(4)]}
        assert ids == {ArchiveFolder(path).archive_id()}


@pytest.mark.parametrize("mark", ["", "[]", '{"format": 1}', '{"archive": "x", "format": 2}', "link", "fifo"])
def test_a_mark_of_another_kind_is_none(tmp_path, mark):
    folder = ArchiveFolder(tmp_path)
    if mark == "link":
        elsewhere = new_claim(tmp_path / "elsewhere").folder
        folder = ArchiveFolder(tmp_path / "linked")
        folder.path.mkdir()
        folder.mark.symlink_to(elsewhere.mark)
    elif mark == "fifo":
        os.mkfifo(folder.mark)
    else:
        folder.mark.write_text(mark)
    with pytest.raises(FolderOccupied):
        folder.create()


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_that_is_a_link_is_not_followed(tmp_path, name):
    claim = made(tmp_path / "archive", OLD)
    elsewhere = tmp_path / "elsewhere"
    shutil.rmtree(claim.folder.path / name, ignore_errors=True)
    for inner in ("new/a", "1-of-1/old/a"):
        (elsewhere / inner).mkdir(parents=True)
        (elsewhere / inner / "mine.txt").touch()
    (claim.folder.path / name).symlink_to(elsewhere)
    before = files(elsewhere)
    with pytest.raises(FolderOccupied):
        ArchiveFolder(claim.folder.path).create()
    assert files(elsewhere) == before


@pytest.mark.parametrize(
    "place",
    [
        *("pairs/a", "work/1-of-1", "work/2-of-3", "work/maps", "work/maps/a"),
        *("work/1-of-1/old/a", "work/1-of-1/old", "work/1-of-1/new", "work/2-of-3/old"),
    ],
)
def test_a_link_inside_an_archive_is_replaced_and_not_followed(tmp_path, place):
    claim = made(tmp_path / "archive")
    elsewhere = tmp_path / "elsewhere"
    for inner in ("old/a", "new/a"):
        (elsewhere / inner).mkdir(parents=True)
    for inner in ("", "old/a", "new/a"):
        (elsewhere / inner / "changes.geojson").write_text("mine")
    link = claim.folder.path / place
    link.parent.mkdir(parents=True, exist_ok=True)
    if link.name == "new":
        (link.parent / "old" / "a").mkdir(parents=True)
    link.symlink_to(elsewhere / "new" if link.name in ("old", "new") else elsewhere)
    before = files(elsewhere)
    claim.recover()
    claim.install("a", NEW)
    claim.fail("a", {})
    claim.tidy()
    assert files(elsewhere) == before


@pytest.mark.parametrize("pair", ["..", ".hidden", "a/b", "", "x" * 101, "a\n", "/tmp/x", "CON", "nul", "p."])
def test_nothing_is_written_outside(tmp_path, pair):
    claim = made(tmp_path / "archive")
    for change in (
        lambda: claim.install(pair, OLD),
        lambda: claim.fail(pair, {}),
        lambda: claim.drop_maps(pair),
    ):
        with pytest.raises(ValueError):
            change()
    assert files(tmp_path) == {f"archive/{MARK}": claim.folder.mark.read_bytes()}


# Claims ---------------------------------------------------------------------------------------------------


def test_a_shard_is_claimed_by_one_run(tmp_path):
    folder = made(tmp_path / "archive").folder
    with claim_shard(folder, (1, 2)), claim_shard(folder, (2, 2)):
        assert folder.claimed() == [(1, 2), (2, 2)]
        for shard in ((1, 2), (1, 1), (3, 3)):
            with pytest.raises(ArchiveBusy), claim_shard(folder, shard):
                pass
    assert folder.claimed() == []
    with claim_shard(folder, (3, 3)):
        pass


def test_a_lock_that_is_held_for_a_moment_is_waited_for(tmp_path, monkeypatch):
    held = FileLock(tmp_path / "a.lock")
    held.acquire()
    monkeypatch.setattr("time.sleep", lambda seconds: held.release())
    with locked(tmp_path / "a.lock", "busy", patience=60):
        assert not held.is_locked


def test_a_lock_that_is_a_link_is_refused_and_its_target_stays(tmp_path):
    folder = made(tmp_path / "archive").folder
    target = tmp_path / "mine.txt"
    target.write_text("mine")
    (folder.claims / "1-of-1.lock").symlink_to(target)
    with pytest.raises(OutputNotWritable), claim_shard(folder):
        pass
    assert target.read_text() == "mine" and folder.claimed() == []


# Pairs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("report", [b"old", b"new"])
def test_files_of_people_beside_a_report_stay_but_for_its_page(tmp_path, report):
    claim = made(tmp_path / "archive", OLD, notes="mine")
    place = claim.folder.pair_folder("a")
    (place / "changes.html").write_text("a page")
    (place / "sub").mkdir()
    (place / "sub" / "1.txt").write_text("see there")
    claim.install("a", {"changes.geojson": report})
    theirs = {"notes.txt": b"mine", "sub/1.txt": b"see there"}
    page = {"changes.html": b"a page"} if report == b"old" else {}
    assert files(place) == {"changes.geojson": report, **theirs, **page}
    claim.fail("a", {"line": "no"})
    assert files(place) == theirs and claim.folder.failure("a").exists()
    claim.install("a", {"changes.geojson": report})
    assert files(place) == {"changes.geojson": report, **theirs}
    assert not claim.folder.failure("a").exists()


def test_a_pair_that_fails_keeps_nothing_of_its_report(tmp_path):
    ours = (REPORT, STYLE, ITEM, PAGE, THUMBNAILS)
    claim = made(tmp_path / "archive", dict.fromkeys(ours, b"{}"))
    claim.fail("a", {"line": "no"})
    assert not claim.folder.pair_folder("a").exists()


@pytest.mark.parametrize("before", [None, OLD])
def test_a_kill_while_installing_leaves_the_old_or_the_new_report(tmp_path, before):
    notes = "mine" if before else ""
    kept = {"notes.txt": b"mine"} if before else {}
    seen = []
    for claim in killed_at_each_step(
        tmp_path, lambda path: made(path, before, notes), lambda claim: claim.install("a", NEW)
    ):
        claim.recover()
        found = files(claim.folder.pair_folder("a"))
        assert found in ((before or {}) | kept, NEW | kept)
        seen.append(found == NEW | kept)
        assert not claim.folder.work.exists()
    assert set(seen) == {False, True}


def test_a_kill_while_recovering_is_recovered_from(tmp_path):
    for again in (1, 3, 5, 8):
        (tmp_path / str(again)).mkdir()
        for claim in killed_at_each_step(
            tmp_path / str(again), lambda path: made(path, OLD), lambda claim: claim.install("a", NEW)
        ):
            kill(again, claim.recover)
            claim.recover()
            assert files(claim.folder.pair_folder("a")) in (OLD, NEW)


def test_a_run_finishes_what_a_killed_run_of_another_shard_left(tmp_path):
    claim = made(tmp_path / "archive")
    other = Claim(claim.folder, claim.folder.work / "2-of-3")
    old = other.work / "old" / "a"
    old.mkdir(parents=True)
    (old / "changes.geojson").write_bytes(b"old")
    with FileLock(claim.folder.claims / "2-of-3.lock"):
        claim.recover()
        assert old.exists(), "that run is alive"
    claim.recover()
    assert files(claim.folder.pair_folder("a")) == {"changes.geojson": b"old"}


def test_a_kill_while_failing_leaves_a_report_or_a_failure_or_nothing(tmp_path):
    for claim in killed_at_each_step(
        tmp_path, lambda path: made(path, OLD), lambda claim: claim.fail("a", {"line": "no"})
    ):
        claim.recover()
        failure = claim.folder.failure("a")
        assert not failure.exists() or json.loads(failure.read_text()) == {"line": "no"}
        assert not (failure.exists() and claim.folder.report("a").exists())


def test_several_threads_install_at_once(tmp_path):
    claim = made(tmp_path / "archive")
    pairs = [f"p{number}" for number in range(40)]
    for content in (OLD, NEW):
        with ThreadPoolExecutor(12) as threads:
            list(threads.map(lambda pair, content=content: claim.install(pair, content), pairs))
        assert all(files(claim.folder.pair_folder(pair)) == content for pair in pairs)


@pytest.mark.parametrize("step", ["rename", "fsync", "mkdir"])
def test_a_full_disk_while_installing_leaves_the_old_report(tmp_path, step):
    for last in (1, 2):
        claim = made(tmp_path / f"{step}{last}", OLD)
        claim.tidy()  # so that each folder is to be made
        with pytest.MonkeyPatch.context() as patch:
            Steps(patch, last, OSError(errno.ENOSPC, "No space left on device"), (step,))
            with pytest.raises(OutputNotWritable):
                claim.install("a", NEW)
        claim.recover()
        assert files(claim.folder.pair_folder("a")) == OLD


# Layers ---------------------------------------------------------------------------------------------------


def draw(claim: Claim, text: str) -> None:
    with claim.drafting() as draft:
        for layer in claim.folder.layers:
            (draft / layer.name).write_text(text)


def test_after_a_kill_while_layers_are_published_there_is_no_catalog_or_all_are_of_one_run(tmp_path):
    def prepare(path):
        claim = made(path)
        draw(claim, "old")
        return claim

    for claim in killed_at_each_step(tmp_path, prepare, lambda claim: draw(claim, "new")):
        claim.recover()
        found = {layer.read_text() for layer in claim.folder.layers if layer.exists()}
        assert len(found) == 1 or not claim.folder.catalog.exists()


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), ValueError("no")])
def test_an_error_while_layers_are_made_leaves_the_old_ones(tmp_path, error):
    claim = made(tmp_path / "archive")
    draw(claim, "old")
    with pytest.raises((OutputNotWritable, ValueError)), claim.drafting() as draft:
        (draft / "changes.parquet").write_text("new")
        raise error
    assert {layer.read_text() for layer in claim.folder.layers} == {"old"}

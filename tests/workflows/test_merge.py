"""Shards become the archive that one run would have made, again and again while they grow."""

from __future__ import annotations

import itertools
import json
import os
import shutil
from contextlib import suppress

import pytest
from archive_pairs import contents
from archive_rows import change, install, report
from filelock import FileLock

from workflows.archive import shard_of
from workflows.archive_folder import ArchiveFolder
from workflows.errors import ArchiveBusy, ArchiveMissing, ReportsDamaged, ShardsDiffer
from workflows.layers import write_layers
from workflows.ledger import Ledger
from workflows.merge import merge_shards
from workflows.pair_table import PairRow

COUNT = 3
PAIRS = [PairRow(f"p{number:02d}", f"/b/{number}.tif", f"/a/{number}.tif", site="s") for number in range(12)]
BROKEN = "p05"
RECORD = {"model": {"name": "m"}, "settings": {"beams": 3}, "versions": {"rscc": "1"}, "engine": "local"}


def work(folder: ArchiveFolder, shard=None, most=99, *, key="key", pairs=PAIRS) -> ArchiveFolder:
    """Do at most ``most`` pairs as a coordinator does; the last one is left running if there are more."""
    folder.create()
    if shard is not None:
        folder = folder.shard(*shard)
        folder.create()
    with folder.locked(), Ledger.open(folder.path, create=True) as ledger:
        mine = [
            (row, key if shard is None or shard_of(row.pair, shard[1]) == shard[0] else None) for row in pairs
        ]
        ledger.plan(mine, retry_failed=False)
        folder.run.write_text(json.dumps(RECORD))
        for number, row in enumerate(ledger.next(99)):
            ledger.start(row.pair, attempt=1, worker="w")
            if number == most:
                return folder
            if row.pair == BROKEN:
                ledger.failed(row.pair, "w", 0.5, "refused", "SceneUnreadable", "5.tif: no raster")
                continue
            found = report(*[change(n) for n in range(1, 1 + int(row.pair[1:]) % 3)])
            install(folder, row, found)
            ledger.done(row.pair, "w", 1.0, changes=len(found.changes), area_m2=found.area_m2, tiles=4)
        write_layers(folder, ledger.rows())
    return folder


@pytest.fixture
def whole(tmp_path) -> ArchiveFolder:
    """What one run makes of all pairs."""
    return work(ArchiveFolder(tmp_path / "whole", durable=False))


@pytest.fixture
def folder(tmp_path) -> ArchiveFolder:
    return ArchiveFolder(tmp_path / "merged", durable=False)


def rows(folder: ArchiveFolder):
    with Ledger.reader(folder.path) as ledger:
        return {
            row.pair: (row.number, row.state, row.key, row.changes, row.area_m2, row.site, row.line)
            for row in ledger.rows()
        }


def test_shards_make_what_one_run_makes(folder, whole):
    for number in range(1, COUNT + 1):
        work(folder, (number, COUNT))
    found = merge_shards(folder.path, remove=True)
    assert contents(folder.path) == contents(whole.path)
    assert rows(folder) == rows(whole)
    assert found.is_complete and found.removed
    assert (found.shards, found.missing, found.unfinished) == (COUNT, (), {})
    assert (found.pairs, found.done, found.failed, found.left) == (12, 11, 1, 0)
    assert found.changes == sum(number % 3 for number in range(12) if number != 5)
    assert found.area_m2 == pytest.approx(found.changes * 100.25)


def test_one_run_goes_on_from_merged_shards_and_repeats_nothing(folder, whole):
    for number in range(1, COUNT + 1):
        work(folder, (number, COUNT))
    merge_shards(folder.path)
    with Ledger.open(folder.path, create=False) as ledger:
        planned = ledger.plan([(row, "key") for row in PAIRS], retry_failed=False)
    assert planned.left == 0 and planned.done == 11


def test_the_files_are_shared_with_the_shards(folder):
    shard = work(folder, (1, 1))
    merge_shards(folder.path)
    for name in ("changes.geojson", "changes.qml", "item.json"):
        assert os.path.samefile(shard.pair_folder("p01") / name, folder.pair_folder("p01") / name)


def test_where_files_cannot_be_shared_they_are_copied_once(folder, whole, monkeypatch):
    def refused(*_, **__):
        raise OSError("Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    shard = work(folder, (1, 1))
    merge_shards(folder.path)
    report = folder.pair_folder("p01") / "changes.geojson"
    assert not os.path.samefile(shard.pair_folder("p01") / "changes.geojson", report)
    inode = report.stat().st_ino
    merge_shards(folder.path, remove=True)
    assert report.stat().st_ino == inode
    assert contents(folder.path) == contents(whole.path)


def test_what_is_missing_or_not_finished_is_said_and_merged_later(folder, whole):
    work(folder, (3, COUNT))
    work(folder, (1, COUNT), most=1)
    found = merge_shards(folder.path, remove=True)
    assert found.missing == (2,)
    assert found.unfinished == {1: found.left} and found.left > 0
    assert not found.is_complete and not found.removed
    assert {state for _, state, *_ in rows(folder).values()} <= {"done", "failed", "pending"}
    assert folder.shards.is_dir()
    work(folder, (1, COUNT))
    work(folder, (2, COUNT))
    again = merge_shards(folder.path, remove=True)
    assert again.is_complete and again.removed
    assert contents(folder.path) == contents(whole.path)
    assert rows(folder) == rows(whole)


def test_merging_again_changes_nothing(folder):
    for number in range(1, COUNT + 1):
        work(folder, (number, COUNT))
    merge_shards(folder.path)
    before = contents(folder.path)
    times = {layer: layer.stat().st_mtime_ns for layer in folder.layers}
    merge_shards(folder.path)
    assert contents(folder.path) == before
    assert {layer: layer.stat().st_mtime_ns for layer in folder.layers} == times


def test_a_pair_that_was_done_anew_replaces_the_merged_one(folder):
    shard = work(folder, (1, 1))
    merge_shards(folder.path)
    with Ledger.open(shard.path, create=False) as ledger:
        ledger.plan([(row, "new" if row.pair == "p00" else "key") for row in PAIRS], retry_failed=False)
        row = ledger.next(1)[0]
        ledger.start(row.pair, attempt=1)
        install(shard, row, report(change(1), change(2)))
        ledger.done(row.pair, "w", 1.0, changes=2, area_m2=200.5, tiles=4)
    found = merge_shards(folder.path)
    assert found.is_complete
    assert len(json.loads((folder.pair_folder("p00") / "changes.geojson").read_bytes())["features"]) == 2
    assert rows(folder)["p00"][2:4] == ("new", 2)


def test_a_pair_that_fails_now_has_no_report_any_more(folder):
    shard = work(folder, (1, 1))
    merge_shards(folder.path)
    with Ledger.open(shard.path, create=False) as ledger:
        ledger.plan([(row, "new" if row.pair == "p00" else "key") for row in PAIRS], retry_failed=False)
        ledger.start("p00", attempt=1)
        shard.remove("p00")
        ledger.failed("p00", "w", 1.0, "failed", "OSError", "no")
    merge_shards(folder.path)
    assert not folder.pair_folder("p00").exists()
    assert rows(folder)["p00"][1] == "failed"


def test_what_was_merged_before_stays_without_its_shard(folder):
    work(folder, (1, COUNT))
    second = work(folder, (2, COUNT))
    merge_shards(folder.path)
    before = rows(folder)
    shutil.rmtree(second.path)
    found = merge_shards(folder.path)
    assert found.missing == (2, 3)
    assert rows(folder) == before


def test_a_pair_that_left_the_table_leaves_the_archive(folder):
    work(folder, (1, 1))
    merge_shards(folder.path)
    work(folder, (1, 1), pairs=PAIRS[1:])
    merge_shards(folder.path)
    assert "p00" not in rows(folder)
    assert "p00" not in folder.summary.read_text()


def test_a_report_that_is_gone_from_its_shard_is_to_be_done_again(folder):
    shard = work(folder, (1, 1))
    merge_shards(folder.path)
    shutil.rmtree(shard.pair_folder("p01"))
    found = merge_shards(folder.path)
    assert found.unfinished == {1: 1} and found.left == 1
    assert rows(folder)["p01"][1] == "pending"
    assert not folder.pair_folder("p01").exists()


def test_a_damaged_report_is_named_and_to_be_done_again(folder):
    shard = work(folder, (1, 1))
    (shard.pair_folder("p01") / "changes.geojson").write_text("{")
    with pytest.raises(ReportsDamaged, match="p01"):
        merge_shards(folder.path)
    found = merge_shards(folder.path)
    assert found.unfinished == {1: 1}


def redo(folder: ArchiveFolder, pair: str, changes: int = 2) -> None:
    """Do one pair anew, whatever became of it before."""
    with folder.locked(), Ledger.open(folder.path, create=False) as ledger:
        ledger.start(pair, attempt=1)
        ledger.replaced(pair)
        install(folder, ledger.get(pair), report(*[change(number) for number in range(changes)]))
        ledger.done(pair, "w", 1.0, changes=changes, area_m2=100.25 * changes, tiles=4)
    folder.tidy()


def features(folder: ArchiveFolder, pair: str) -> int:
    return len(json.loads((folder.pair_folder(pair) / "changes.geojson").read_bytes())["features"])


def test_what_the_archive_itself_did_later_stays(folder):
    work(folder, (1, 2))
    work(folder, (2, 2))
    merge_shards(folder.path)
    redo(folder, BROKEN)
    redo(folder, "p01", changes=3)
    before = rows(folder)
    found = merge_shards(folder.path)
    assert rows(folder) == before
    assert (found.done, found.failed) == (12, 0)
    assert (features(folder, BROKEN), features(folder, "p01")) == (2, 3)


def test_what_a_shard_did_later_still_comes(folder):
    shard = work(folder, (1, 1))
    merge_shards(folder.path)
    redo(folder, "p01", changes=3)
    with Ledger.open(folder.path, create=False) as ledger:
        ledger.start("p02", attempt=1)
        ledger.failed("p02", "w", 1.0, "failed", "OSError", "no")
    redo(shard, "p01", changes=4)
    merge_shards(folder.path)
    assert features(folder, "p01") == 4
    assert rows(folder)["p02"][1] == "done"


def test_a_pair_that_the_archive_has_done_is_not_left_to_a_killed_shard(folder):
    work(folder, (1, 1), most=3)
    found = merge_shards(folder.path)
    assert found.left == 9
    work(folder)
    found = merge_shards(folder.path)
    assert found.is_complete and found.unfinished == {}
    assert (found.done, found.failed) == (11, 1)


def test_what_the_archive_did_later_and_lost_comes_from_the_shard(folder):
    work(folder, (1, 1))
    merge_shards(folder.path)
    redo(folder, "p01", changes=3)
    shutil.rmtree(folder.pair_folder("p01"))
    assert merge_shards(folder.path).is_complete
    assert features(folder, "p01") == 1


def test_a_damaged_report_of_the_archive_itself_leaves_that_of_the_shard(folder):
    work(folder, (1, 1))
    merge_shards(folder.path)
    redo(folder, "p01", changes=3)
    (folder.pair_folder("p01") / "changes.geojson").write_text("{")
    with pytest.raises(ReportsDamaged, match="p01"):
        merge_shards(folder.path)
    assert merge_shards(folder.path).is_complete
    assert features(folder, "p01") == 1


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"settings": {"beams": 1}}, "other options"),
        ({"versions": {"rscc": "2"}}, "another version of rscc"),
    ],
)
def test_work_of_the_archive_itself_with_other_options_is_not_undone(folder, changed, said):
    work(folder, (1, 1))
    merge_shards(folder.path)
    redo(folder, "p01", changes=3)
    folder.run.write_text(json.dumps({**RECORD, **changed}))
    before = contents(folder.path)
    with pytest.raises(ShardsDiffer, match=rf"merged: was itself worked on with {said} than its shards; run"):
        merge_shards(folder.path)
    assert contents(folder.path) == before and features(folder, "p01") == 3
    folder.run.write_text(json.dumps({**RECORD, "engine": "dask"}))
    merge_shards(folder.path)
    assert features(folder, "p01") == 3


def test_what_is_in_no_shard_is_not_mixed_with_another_run(folder):
    work(folder, (1, 2))
    second = work(folder, (2, 2))
    merge_shards(folder.path)
    shutil.rmtree(second.path)
    shard = folder.shard(1, 2)
    shard.run.write_text(json.dumps({**RECORD, "model": {"name": "other"}}))
    with pytest.raises(ShardsDiffer, match="another model than its shards"):
        merge_shards(folder.path)


def test_shards_that_were_all_done_anew_with_other_options_replace_what_was_merged(folder):
    shard = work(folder, (1, 1))
    merge_shards(folder.path)
    work(folder, (1, 1), key="other")
    record = json.dumps({**RECORD, "settings": {"beams": 1}})
    shard.run.write_text(record)
    assert merge_shards(folder.path).is_complete
    assert folder.run.read_text() == record
    assert {key for _, _, key, *_ in rows(folder).values()} == {"other"}


def plan(folder: ArchiveFolder, pairs=PAIRS, key: str = "key"):
    with Ledger.open(folder.path, create=False) as ledger:
        return ledger.plan([(row, key) for row in pairs], retry_failed=False)


def test_a_pair_that_the_table_dropped_comes_back_after_merging(folder):
    """Also after shards were removed, and after others were merged."""
    for number in (1, 2):
        work(folder, (number, 2))
    merge_shards(folder.path)
    for number in (1, 2):
        work(folder, (number, 2), pairs=PAIRS[2:])
    merge_shards(folder.path, remove=True)
    assert len(rows(folder)) == 10
    work(folder, (1, 1), pairs=PAIRS[2:])
    merge_shards(folder.path, remove=True)
    found = plan(folder)
    assert (found.done, found.left, found.dropped) == (11, 0, 0)
    assert features(folder, "p01") == 1


def test_a_pair_that_was_dropped_before_the_first_merge_comes_back(folder):
    work(folder, (1, 1))
    work(folder, (1, 1), pairs=[row for row in PAIRS if row.pair not in ("p01", BROKEN)])
    merge_shards(folder.path, remove=True)
    assert len(rows(folder)) == 10
    found = plan(folder)
    assert (found.done, found.failed, found.left) == (11, 1, 0)
    assert features(folder, "p01") == 1


def test_a_report_with_other_options_comes_back_after_merging(folder):
    shard = work(folder, (1, 1))
    with Ledger.open(shard.path, create=False) as ledger:
        ledger.plan([(row, "wrong") for row in PAIRS], retry_failed=False)
        ledger.start("p01", attempt=1)
        ledger.failed("p01", "w", 1.0, "refused", "BandMissing", "no band 4")
        shutil.rmtree(shard.pair_folder("p02"))
    found = merge_shards(folder.path, remove=False)
    assert (found.failed, found.left) == (1, 11)
    # The second merge finds the reports where the first has put them.
    merge_shards(folder.path)
    found = plan(folder)
    assert features(folder, "p01") == 1
    assert (found.done, found.changed) == (10, 2)


def test_the_same_pair_in_two_shards_is_refused(folder):
    first, second = folder.shard(1, 2), folder.shard(2, 2)
    work(folder, (1, 2))
    shutil.copytree(first.path, second.path)
    with pytest.raises(ShardsDiffer, match=r"2-of-2: has the pair p\d\d, which is in .*1-of-2, too; remove"):
        merge_shards(folder.path)
    assert not folder.ledger.exists()


@pytest.mark.parametrize("name", ["3-of-2", "0-of-2", "01-of-2", "1-of-02"])
def test_a_shard_that_cannot_be_is_refused(folder, name):
    shard = work(folder, (1, 2))
    shutil.copytree(shard.path, folder.shards / name)
    with pytest.raises(ShardsDiffer, match=rf"{name}: no shard has this name; name it .* such as 1-of-4"):
        merge_shards(folder.path)


def test_no_shards_no_merge(tmp_path, folder):
    with pytest.raises(ArchiveMissing, match=r"nowhere: there are no shards in it; rscc batch --shard 1/4"):
        merge_shards(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()
    work(folder)
    with pytest.raises(ArchiveMissing):
        merge_shards(folder.path)


def test_a_shard_that_was_only_begun_is_missing(folder):
    work(folder, (1, 2))
    folder.shard(2, 2).create()
    assert merge_shards(folder.path).missing == (2,)


def test_shards_of_two_counts_are_not_mixed(folder):
    work(folder, (1, 2))
    work(folder, (1, 3))
    with pytest.raises(ShardsDiffer, match=r"shards: shards of 2 and shards of 3 lie together; remove"):
        merge_shards(folder.path)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"model": {"name": "other"}}, "another model"),
        ({"settings": {"beams": 1}}, "other options"),
        ({"versions": {"rscc": "2"}}, "another version of rscc"),
    ],
)
def test_shards_of_two_runs_are_not_mixed(folder, changed, said):
    work(folder, (1, 2))
    shard = work(folder, (2, 2))
    shard.run.write_text(json.dumps({**RECORD, **changed}))
    with pytest.raises(ShardsDiffer, match=rf"2-of-2: was made with {said} than .*1-of-2; run one"):
        merge_shards(folder.path)
    shard.run.write_text("{")
    with pytest.raises(ShardsDiffer, match=r"2-of-2/run.json: is damaged"):
        merge_shards(folder.path)
    shard.run.write_text(json.dumps({**RECORD, "engine": "dask"}))
    assert merge_shards(folder.path).is_complete


@pytest.mark.parametrize("busy", ["archive.lock", "shards/2-of-2/archive.lock"])
def test_nothing_is_merged_while_somebody_works(folder, busy):
    work(folder, (1, 2))
    work(folder, (2, 2))
    with FileLock(folder.path / busy), pytest.raises(ArchiveBusy):
        merge_shards(folder.path)
    assert not folder.catalog.exists()
    merge_shards(folder.path)


class Killed(BaseException):
    """As SIGKILL: nothing tidies up after it."""


@pytest.mark.parametrize(
    ("name", "places"),
    [("rename", (1, 7, 12, 13)), ("replace", (1, 3, 5)), ("link", (2,)), ("unlink", (1, 5))],
)
def test_a_merge_that_was_killed_is_gone_on_with(tmp_path, whole, monkeypatch, name, places):
    real = getattr(os, name)
    for last in places:
        folder = ArchiveFolder(tmp_path / f"{name}{last}", durable=False)
        for number in (1, 2):
            work(folder, (number, 2))
        counted = itertools.count(1)

        def step(*arguments, last=last, counted=counted, **options):
            if next(counted) == last:
                raise Killed
            return real(*arguments, **options)

        monkeypatch.setattr(os, name, step)
        with pytest.raises(Killed):
            merge_shards(folder.path, remove=True)
        monkeypatch.setattr(os, name, real)
        with suppress(ArchiveMissing):  # it was killed when all was done but for removing the shards
            merge_shards(folder.path, remove=True)
        assert contents(folder.path) == contents(whole.path), last
        assert rows(folder) == rows(whole)

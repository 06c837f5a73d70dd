"""Shards become the archive that one run would have made, again and again while they grow."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from archive_pairs import contents
from archive_rows import change, install, report
from archive_runs import mark
from filelock import FileLock
from killing import kill
from ledger_pairs import pair_of

from workflows.archive.archive import Archive
from workflows.archive.merge import merge_shards
from workflows.archive.plan import shard_of
from workflows.errors import ArchiveBusy, ArchiveMissing, ReportsDamaged, ShardsDiffer, ShardsUnfinished
from workflows.layers.layers import write_layers
from workflows.pairs.rows import PairRow
from workflows.store.folder import ArchiveFolder
from workflows.store.ledger import Ledger

COUNT = 3
PAIRS = [PairRow(f"p{number:02d}", f"/b/{number}.tif", f"/a/{number}.tif", site="s") for number in range(12)]
BROKEN = "p05"
RECORD = {
    "model": {"name": "m"},
    "settings": {"beams": 3},
    "table": {"pairs": 12, "sha256": "12"},
    "versions": {"rscc": "1"},
    "engine": "local",
}


def work(folder: ArchiveFolder, shard=None, most=99, *, key="key", pairs=PAIRS) -> ArchiveFolder:
    """Do at most ``most`` pairs as a coordinator does; the last one is left running if there are more."""
    folder.create()
    if shard is not None:
        folder = folder.shard(*shard)
        folder.create()
    with folder.locked(), Ledger.open(folder.path) as ledger:
        mine = [
            (row, key if shard is None or shard_of(row.pair, shard[1]) == shard[0] else None) for row in pairs
        ]
        ledger.plan(mine, retry_failed=False)
        folder.run.write_text(json.dumps(RECORD))
        for number, row in enumerate(ledger.next(99)):
            ledger.start(row.pair, attempt=1)
            if number == most:
                return folder
            if row.pair == BROKEN:
                ledger.failed(row.pair, "w", 0.5, "refused", "SceneUnreadable", "5.tif: no raster")
                continue
            found = report(*[change(n) for n in range(1, 1 + int(row.pair[1:]) % 3)])
            install(folder, row, found)
            ledger.done(row.pair, "w", 1.0, changes=len(found.changes), area_m2=found.area_m2, tiles=4)
        write_layers(folder, ledger.rows)
    return folder


def work_all(folder: ArchiveFolder, count: int = COUNT) -> None:
    for number in range(1, count + 1):
        work(folder, (number, count))


@contextmanager
def changed(shard: ArchiveFolder, pair: str = "p00") -> Iterator[Ledger]:
    """Begin a pair of a shard anew, with another key."""
    with Ledger.open(shard.path) as ledger:
        ledger.plan([(row, "new" if row.pair == pair else "key") for row in PAIRS], retry_failed=False)
        ledger.start(pair, attempt=1)
        yield ledger


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
    work_all(folder)
    found = merge_shards(folder.path, remove=True)
    assert contents(folder.path) == contents(whole.path)
    assert rows(folder) == rows(whole)
    assert found.removed and not folder.shards.exists()
    assert (found.shards, found.pairs, found.done, found.failed) == (COUNT, 12, 11, 1)
    assert found.changes == sum(number % 3 for number in range(12) if number != 5)
    assert found.area_m2 == pytest.approx(found.changes * 100.25)


def test_the_files_are_shared_with_the_shards(folder):
    shard = work(folder, (1, 1))
    merge_shards(folder.path)
    for name in ("changes.geojson", "changes.qml", "item.json"):
        assert os.path.samefile(shard.pair_folder("p01") / name, folder.pair_folder("p01") / name)


def test_where_files_cannot_be_shared_they_are_copied(folder, whole, monkeypatch):
    def refused(*_, **__):
        raise OSError("Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    shard = work(folder, (1, 1))
    merge_shards(folder.path, remove=False)
    report = "changes.geojson"
    assert not os.path.samefile(shard.pair_folder("p01") / report, folder.pair_folder("p01") / report)
    merge_shards(folder.path, remove=True)
    assert contents(folder.path) == contents(whole.path)


def test_shards_that_are_missing_or_not_finished_are_named_and_nothing_is_made(folder, whole):
    work(folder, (3, COUNT))
    work(folder, (1, COUNT), most=1)
    folder.shard(2, COUNT).create()
    with pytest.raises(ShardsUnfinished, match="merged: shard 2 of the 3 is missing; run it, then merge"):
        merge_shards(folder.path, remove=True)
    work(folder, (2, COUNT))
    unfinished = r"merged: pairs are left in shards 1 \(\d pairs\); run"
    with pytest.raises(ShardsUnfinished, match=unfinished) as error:
        merge_shards(folder.path, remove=True)
    assert error.value.exit_code == 1
    assert folder.shards.is_dir() and not folder.ledger.exists()
    work(folder, (1, COUNT))
    merge_shards(folder.path, remove=True)
    assert contents(folder.path) == contents(whole.path)
    assert rows(folder) == rows(whole)


@pytest.mark.parametrize("content", [None, "{"])
def test_a_report_that_is_missing_or_damaged_is_for_its_shard_to_do_anew(folder, whole, content):
    work_all(folder, 2)
    number = shard_of("p01", 2)
    report = folder.shard(number, 2).pair_folder("p01") / "changes.geojson"
    shutil.rmtree(report.parent) if content is None else report.write_text(content)
    for _ in range(2):
        remedy = rf"{report}: .*; run shards {number} again .*then merge again"
        with pytest.raises(ReportsDamaged, match=remedy):
            merge_shards(folder.path)
        assert not report.exists()
    with Archive.open(folder.shard(number, 2)) as shard:
        assert shard.take_up_missing() == 1
    work(folder, (number, 2))
    merge_shards(folder.path, remove=True)
    aside = {} if content is None else {"pairs/p01/changes.damaged.geojson": content.encode()}
    assert contents(folder.path) == contents(whole.path) | aside


def test_what_a_run_over_the_archive_itself_did_is_not_replaced(folder, tmp_path):
    work(folder)
    before = contents(folder.path)
    elsewhere = ArchiveFolder(tmp_path / "elsewhere", durable=False)
    work(elsewhere, (1, 1))
    elsewhere.shards.rename(folder.shards)
    with pytest.raises(ShardsDiffer, match=r"merged: a run worked on the archive itself; move .*shards into"):
        merge_shards(folder.path)
    folder.shards.rename(elsewhere.shards)
    assert contents(folder.path) == before


def test_merging_again_changes_nothing(folder):
    work_all(folder)
    merge_shards(folder.path)
    before = contents(folder.path)
    times = {layer: layer.stat().st_mtime_ns for layer in folder.layers}
    merge_shards(folder.path)
    assert contents(folder.path) == before
    assert {layer: layer.stat().st_mtime_ns for layer in folder.layers} == times


def test_what_somebody_took_out_of_the_report_of_a_shard_is_counted_by_no_merge(folder):
    work_all(folder)
    first = merge_shards(folder.path)
    (report,) = (
        path for path in folder.path.rglob("p01/changes.geojson") if folder.pairs not in path.parents
    )
    content = json.loads(report.read_text())
    taken = len(content["features"])
    report.unlink()  # it is the archive's, too
    report.write_text(json.dumps({**content, "features": []}))
    assert taken and [merge_shards(folder.path).changes for _ in range(2)] == [first.changes - taken] * 2


def test_a_merged_pair_is_replaced_when_done_anew_and_removed_when_it_fails_or_leaves_the_table(folder):
    shard = work(folder, (1, 1))
    merge_shards(folder.path)
    with changed(shard) as ledger:
        install(shard, pair_of(ledger, "p00"), report(change(1), change(2)))
        ledger.done("p00", "w", 1.0, changes=2, area_m2=200.5, tiles=4)
    merge_shards(folder.path)
    assert len(json.loads((folder.pair_folder("p00") / "changes.geojson").read_bytes())["features"]) == 2
    assert rows(folder)["p00"][2:4] == ("new", 2)
    with changed(shard) as ledger:
        shard.remove("p00")
        ledger.failed("p00", "w", 1.0, "failed", "OSError", "no")
    merge_shards(folder.path)
    assert not folder.pair_folder("p00").exists()
    assert rows(folder)["p00"][1] == "failed"
    work(folder, (1, 1), pairs=PAIRS[1:])
    merge_shards(folder.path)
    assert "p00" not in rows(folder)
    assert "p00" not in folder.summary.read_text()


def test_marks_made_since_the_last_merge_stay_over_the_same_report(folder):
    shard = work(folder, (1, 1))
    merge_shards(folder.path)
    report, other = (one.pair_folder("p01") / "changes.geojson" for one in (folder, shard))
    before, of_shard, marked = rows(folder), other.read_bytes(), mark(report)
    found = merge_shards(folder.path)
    assert (found.kept, found.pairs) == ((), 12) and rows(folder) == before
    assert report.read_bytes() == marked and b"Zoe" in folder.parquet.read_bytes()
    merge_shards(folder.path, overwrite=True)
    assert report.read_bytes() == of_shard
    mark(report)
    assert merge_shards(folder.path, remove=True).removed


@pytest.mark.parametrize("end", ["done", "failed"])
def test_a_report_with_marks_stays_though_its_shard_has_another_and_so_do_the_shards(folder, end):
    shard = work(folder, (1, 1))
    merge_shards(folder.path)
    path, before = folder.pair_folder("p01") / "changes.geojson", rows(folder)["p01"]
    marked = mark(path)
    with changed(shard, "p01") as ledger:
        if end == "done":
            install(shard, pair_of(ledger, "p01"), report(change(1), change(2)))
            ledger.done("p01", "w", 1.0, changes=2, area_m2=200.5, tiles=4)
        else:
            shard.remove("p01")
            ledger.failed("p01", "w", 1.0, "failed", "OSError", "no")
    found = merge_shards(folder.path, remove=True)
    assert (found.kept, found.removed, folder.shards.is_dir()) == (("p01",), False, True)
    assert (path.read_bytes(), rows(folder)["p01"]) == (marked, before)
    assert b"Zoe" in folder.parquet.read_bytes()
    assert merge_shards(folder.path, remove=True, overwrite=True).removed
    assert rows(folder)["p01"][1:4:2] == (end, 2 if end == "done" else None)


def test_marks_of_a_pair_that_no_shard_has_any_more_are_not_removed_unless_asked_for(folder):
    work(folder, (1, 1))
    merge_shards(folder.path)
    mark(folder.pair_folder("p01") / "changes.geojson")
    work(folder, (1, 1), pairs=[pair for pair in PAIRS if pair.pair != "p01"])
    assert merge_shards(folder.path).kept == ()
    assert folder.pair_folder("p01").is_dir() and "p01" not in folder.summary.read_text()
    work(folder, (1, 1))
    assert merge_shards(folder.path).kept == ("p01",)
    assert rows(folder)["p01"][1] == "done" and b"Zoe" in folder.parquet.read_bytes()
    work(folder, (1, 1), pairs=[pair for pair in PAIRS if pair.pair != "p01"])
    merge_shards(folder.path, overwrite=True)
    assert not folder.pair_folder("p01").exists()


def test_what_somebody_put_beside_the_reports_is_left_and_taken_along(folder):
    shard = work(folder, (1, 1))
    (shard.pair_folder("p01") / "page").mkdir()
    (shard.pair_folder("p01") / "page" / "index.html").write_text("mine")
    merge_shards(folder.path)
    assert (folder.pair_folder("p01") / "page" / "index.html").read_text() == "mine"
    (folder.pairs / ".DS_Store").write_text("")
    (folder.pairs / ".ipynb_checkpoints").mkdir()
    merge_shards(folder.path)
    assert {path.name for path in folder.pairs.iterdir()} >= {".DS_Store", ".ipynb_checkpoints"}


def test_shards_whose_run_was_killed_on_another_machine_are_merged(folder):
    shard = work(folder, (1, 1))
    (shard.path / "ledger.sqlite-host").write_text("far-away")
    assert merge_shards(folder.path).pairs == 12


def test_shards_that_were_all_done_anew_with_other_options_replace_what_was_merged(folder):
    shard = work(folder, (1, 1))
    merge_shards(folder.path)
    work(folder, (1, 1), key="other")
    record = json.dumps({**RECORD, "settings": {"beams": 1}})
    shard.run.write_text(record)
    merge_shards(folder.path)
    assert folder.run.read_text() == record
    assert {key for _, _, key, *_ in rows(folder).values()} == {"other"}


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
        ({"table": {"pairs": 13, "sha256": "13"}}, "another table of pairs"),
    ],
)
def test_shards_of_two_runs_are_not_mixed(folder, changed, said):
    work(folder, (1, 2))
    shard = work(folder, (2, 2))
    shard.run.write_text(json.dumps({**RECORD, **changed}))
    with pytest.raises(ShardsDiffer, match=rf"2-of-2: was made with {said} than .*1-of-2; run one"):
        merge_shards(folder.path)
    for damaged in ("{", "[]", "[" * 100_000):
        shard.run.write_text(damaged)
        with pytest.raises(ShardsDiffer, match=r"2-of-2/run.json: is damaged"):
            merge_shards(folder.path)
    shard.run.write_text(json.dumps({**RECORD, "engine": "dask"}))
    merge_shards(folder.path)


@pytest.mark.parametrize("busy", ["archive.lock", "shards/2-of-2/archive.lock"])
def test_nothing_is_merged_while_somebody_works(folder, busy):
    work_all(folder, 2)
    with FileLock(folder.path / busy), pytest.raises(ArchiveBusy):
        merge_shards(folder.path)
    assert not folder.catalog.exists()
    merge_shards(folder.path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "places"),
    [("rename", (1, 7, 12, 13)), ("replace", (1, 3, 5)), ("link", (2,)), ("unlink", (1, 4))],
)
def test_a_merge_that_was_killed_is_gone_on_with(tmp_path, whole, name, places):
    for last in places:
        folder = ArchiveFolder(tmp_path / f"{name}{last}", durable=False)
        work_all(folder, 2)
        assert kill(last, lambda: merge_shards(folder.path, remove=True), [name])  # noqa: B023
        with suppress(ArchiveMissing):  # it was killed when all was done but for removing the shards
            merge_shards(folder.path, remove=True)
        assert contents(folder.path) == contents(whole.path), last
        assert rows(folder) == rows(whole)

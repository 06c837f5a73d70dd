"""A table of pairs into an archive: what is done, what is gone on with, and what is left alone."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import geopandas
import pytest
import rasterio
from archive_fakes import fake_card, load_fake
from archive_pairs import MadeArchive, contents, make_archive, write_table
from filelock import FileLock
from inline_engine import InlineEngine

from rscc.interrupts import patient_interrupts
from workflows import SceneOptions
from workflows.archive import ArchiveSummary, run_archive, shard_of
from workflows.archive_folder import ArchiveFolder
from workflows.errors import (
    ArchiveBusy,
    LedgerUnusable,
    NotAnArchive,
    OptionInvalid,
    OutputNotWritable,
    ReportsDamaged,
    ScenesUnreachable,
    ShardsDiffer,
)
from workflows.identity import Stored
from workflows.ledger import Ledger
from workflows.merge import merge_shards
from workflows.pair_table import read_pairs
from workflows.status import archive_status
from workflows.tasks import ModelSource, Outcome, Task


def run(made: MadeArchive, out: Path, engine: InlineEngine | None = None, **options) -> ArchiveSummary:
    """Run the table into ``out``; without an engine none may be started."""

    def start(source: ModelSource) -> InlineEngine:
        assert engine is not None, "there is nothing to do"
        return engine

    scene = options.pop("scene", SceneOptions())
    source = ModelSource("fake", "cpu", load_fake)
    return run_archive(read_pairs(made.table), out, fake_card("fake"), source, start, scene, **options)


def begun(engine: InlineEngine) -> list[str]:
    """The pairs that an engine was given, in order."""
    return [task.partition("/")[0] for task in engine.begun]


def states(out: Path) -> dict[str, str]:
    with Ledger.reader(out) as ledger:
        return {row.pair: row.state for row in ledger.rows()}


def brighten(path: Path) -> None:
    with rasterio.open(path, "r+") as file:
        image = file.read()
        image[:, 20:50, 20:50] = 255
        file.write(image)


@pytest.fixture
def made(tmp_path) -> MadeArchive:
    return make_archive(tmp_path, 9, each=1, breakages=("missing", "damaged"))


@pytest.fixture
def out(tmp_path) -> Path:
    return tmp_path / "out"


def test_an_archive_has_a_folder_for_every_pair_that_is_done_and_the_layers(made, out):
    found = run(made, out, InlineEngine())
    assert (found.pairs, found.done, found.failed, found.skipped_as_done) == (9, 7, 2, 0)
    assert {path.name for path in (out / "pairs").iterdir()} == set(made.sound)
    layers = {"changes.parquet", "changes.gpkg", "summary.csv", "catalog.json"}
    assert {path.name for path in out.iterdir()} - {"archive.lock"} == {
        "ledger.sqlite",
        "run.json",
        "pairs",
        *layers,
    }
    reports = [json.loads((out / "pairs" / pair / "changes.geojson").read_text()) for pair in made.sound]
    assert found.changes == sum(len(report["features"]) for report in reports) > 0
    area = sum(change["properties"]["area_m2"] for report in reports for change in report["features"])
    assert found.area_m2 == pytest.approx(area, abs=0.1)
    assert reports[0]["rscc"]["inputs"]["before"]["date"] == "2019-05-01"
    assert reports[0]["rscc"]["inputs"]["after"]["date_source"] == "option"


def test_the_run_record_says_how_it_was_made(made, out):
    run(made, out, InlineEngine(), scene=SceneOptions(min_area=30.0))
    record = json.loads((out / "run.json").read_text())
    assert record["settings"]["min_area"] == 30.0
    assert record["model"]["name"] == "brightness" and record["engine"] == "inline"
    assert record["versions"].keys() == {"rscc", "torch", "rasterio", "gdal"}


def test_the_same_again_starts_no_worker_and_changes_nothing(made, out):
    first = run(made, out, InlineEngine())
    old, times = contents(out), {path: path.stat().st_mtime_ns for path in (out / "pairs").rglob("*")}
    again = run(made, out)
    assert (again.done, again.failed, again.skipped_as_done) == (7, 2, 7)
    assert (again.changes, again.area_m2) == (first.changes, first.area_m2)
    assert contents(out) == old
    assert {path: path.stat().st_mtime_ns for path in (out / "pairs").rglob("*")} == times


def test_only_what_changed_is_done_again(made, out):
    run(made, out, InlineEngine())
    old, changed = contents(out), made.sound[3]
    brighten(made.after(changed))
    (missing,) = (pair for pair, how in made.broken.items() if how == "missing")
    made.before(missing).rename(made.after(missing))
    shutil.copyfile(made.after(missing), made.before(missing))
    engine, lines = InlineEngine(), []
    found = run(made, out, engine, notice=lines.append)
    assert sorted(begun(engine)) == sorted([changed, missing])
    assert (found.done, found.failed, found.skipped_as_done) == (8, 1, 6)
    assert lines == [
        "9 pairs: 6 done already, 2 to do (2 changed inputs or settings), 1 failed before "
        "(--retry-failed takes them up)"
    ]
    new = contents(out)
    assert {name.split("/")[1] for name in new if "/" in name and new[name] != old.get(name)} == {
        changed,
        missing,
    }
    assert b"brightness 255" in new[f"pairs/{changed}/changes.geojson"]
    assert new["changes.parquet"] != old["changes.parquet"]


def test_a_pair_that_fails_now_has_its_report_again_with_the_scene_of_before(made, out):
    run(made, out, InlineEngine())
    old, changed = contents(out), made.sound[2]
    kept = made.after(changed).rename(made.after(changed).with_suffix(".kept"))
    made.after(changed).write_text("nothing")
    assert run(made, out, InlineEngine()).failed == 3
    new = contents(out)
    assert f"\n{changed},site".encode() in new["summary.csv"]
    assert f"pairs/{changed}/".encode() not in new["catalog.json"]
    assert changed not in set(geopandas.read_parquet(out / "changes.parquet").pair)
    assert new[f"pairs/{changed}/changes.geojson"] == old[f"pairs/{changed}/changes.geojson"]
    kept.rename(made.after(changed))
    assert run(made, out).failed == 2
    assert contents(out) == old


def test_other_settings_do_everything_again_and_the_former_ones_too(made, out):
    run(made, out, InlineEngine())
    old, engine = contents(out), InlineEngine()
    run(made, out, engine, scene=SceneOptions(min_area=100_000.0))
    assert sorted(set(begun(engine))) == made.pairs
    assert contents(out)["changes.parquet"] != old["changes.parquet"]
    run(made, out, InlineEngine())
    assert contents(out) == old


def test_pairs_that_the_table_no_longer_has_are_left_out_and_come_back(made, out):
    run(made, out, InlineEngine())
    old, left = contents(out), made.sound[1]
    write_table(made, [pair for pair in made.pairs if pair != left])
    found = run(made, out)
    assert (found.pairs, found.done) == (8, 6)
    assert left.encode() not in contents(out)["summary.csv"]
    write_table(made)
    run(made, out)
    assert contents(out) == old


def test_failed_pairs_are_taken_up_when_asked(made, out):
    run(made, out, InlineEngine())
    engine = InlineEngine()
    run(made, out, engine, retry_failed=True)
    assert sorted(begun(engine)) == sorted(made.broken)


def test_a_report_that_somebody_removed_is_made_again(made, out):
    run(made, out, InlineEngine())
    old, removed = contents(out), made.sound[4]
    shutil.rmtree(out / "pairs" / removed)
    engine, lines = InlineEngine(), []
    found = run(made, out, engine, notice=lines.append)
    assert begun(engine) == [removed] and "1 to do (1 report removed)" in lines[0]
    assert found.skipped_as_done == 6
    assert contents(out) == old


def test_a_report_that_somebody_damaged_is_said_and_made_again(made, out):
    run(made, out, InlineEngine())
    old, damaged, changed = contents(out), made.sound[4], made.sound[0]
    (out / "pairs" / damaged / "changes.geojson").write_text("{")
    (out / "summary.csv").unlink()
    engine, lines = InlineEngine(), []
    found = run(made, out, engine, notice=lines.append)
    assert begun(engine) == [damaged] and changed not in begun(engine)
    assert lines == [f"1 report is missing or damaged ({damaged}); made again"]
    assert (found.done, found.skipped_as_done) == (7, 6)
    assert contents(out) == old


def test_a_report_that_is_damaged_again_and_again_ends_the_run(made, out, monkeypatch):
    run(made, out, InlineEngine())
    damaged = out / "pairs" / made.sound[4] / "changes.geojson"
    install = ArchiveFolder.install

    def damage(folder, pair, files):
        install(folder, pair, {**files, "changes.geojson": b"{"})

    damaged.write_text("{")
    (out / "summary.csv").unlink()
    with monkeypatch.context() as patched:
        patched.setattr(ArchiveFolder, "install", damage)
        with pytest.raises(ReportsDamaged, match=made.sound[4]):
            run(made, out, InlineEngine())
    assert run(made, out, InlineEngine()).done == 7


@pytest.mark.parametrize("content", [None, b""])
def test_a_folder_without_its_report_is_made_again(made, out, content):
    run(made, out, InlineEngine())
    old, lost = contents(out), made.sound[1]
    report = out / "pairs" / lost / "changes.geojson"
    report.unlink() if content is None else report.write_bytes(content)
    engine = InlineEngine()
    assert run(made, out, engine).skipped_as_done == 6
    assert begun(engine) == [lost]
    assert contents(out) == old


def test_two_runs_on_one_archive_are_refused(made, out):
    out.mkdir()
    with FileLock(out / "archive.lock"), pytest.raises(ArchiveBusy, match="out: another run works on this"):
        run(made, out)
    assert run(made, out, InlineEngine()).done == 7


def test_a_folder_of_something_else_is_left_alone(made, out):
    out.mkdir()
    (out / "thesis.txt").write_text("years of work")
    with pytest.raises(NotAnArchive, match="out: "):
        run(made, out)
    assert [path.name for path in out.iterdir()] == ["thesis.txt"]


def test_shards_share_the_pairs_out_by_their_ids(made, out):
    engines = [InlineEngine() for _ in range(3)]
    for number, engine in enumerate(engines, start=1):
        found = run(made, out, engine, shard=(number, 3))
        assert found.pairs == len(begun(engine)) == sum(shard_of(pair, 3) == number for pair in made.pairs)
        assert (out / "shards" / f"{number}-of-3" / "summary.csv").exists()
    assert sorted(pair for engine in engines for pair in begun(engine)) == made.pairs
    # The place in the whole table, so that shards can be put together in its order.
    with Ledger.reader(out / "shards" / "2-of-3") as ledger:
        assert all(made.pairs[row.number] == row.pair for row in ledger.rows())


def folders(path: Path) -> set[str]:
    return {one.relative_to(path).as_posix() for one in path.rglob("*")}


def test_what_shards_have_done_is_not_done_again(made, out):
    run(made, out, InlineEngine(), shard=(1, 2))
    there = folders(out)
    with pytest.raises(ShardsDiffer, match=r"shards: \d pairs are done .* rscc merge .* or remove") as told:
        run(made, out)
    assert told.value.exit_code == 2
    assert folders(out) == there, "nothing is touched"
    merge_shards(out)
    run(made, out, InlineEngine())
    old = contents(out)
    # What the archive has taken over, and has gone on from, is no hindrance.
    run(made, out)
    run(made, out, InlineEngine(), scene=SceneOptions(min_area=30.0))
    run(made, out, InlineEngine())
    assert contents(out) == old


def test_a_shard_that_went_on_since_the_merge_is_to_be_merged_first(made, out):
    last = made.sound[-1]
    write_table(made, [pair for pair in made.pairs if pair != last])
    run(made, out, InlineEngine(), shard=(1, 1))
    merge_shards(out)
    run(made, out)
    write_table(made)
    run(made, out, InlineEngine(), shard=(1, 1))
    with pytest.raises(ShardsDiffer, match="shards: 1 pair is done in shards and not in the archive"):
        run(made, out)
    merge_shards(out)
    assert run(made, out).done == 7


def test_shards_that_have_done_nothing_are_no_hindrance(made, out):
    ArchiveFolder(out).shard(1, 2).create()
    Ledger.open(out / "shards" / "1-of-2", create=True).close()
    (out / "shards" / "2-of-2").mkdir()
    assert run(made, out, InlineEngine()).done == 7


def test_other_pairs_do_not_move_a_pair_to_another_shard():
    assert [shard_of(f"p{number}", 4) for number in range(12)] == [
        shard_of(f"P{number}", 4) for number in range(12)
    ]
    counts = [sum(shard_of(f"pair-{number}", 8) == shard for number in range(8000)) for shard in range(1, 9)]
    assert sum(counts) == 8000 and min(counts) > 900


@pytest.mark.parametrize("shard", [(0, 3), (4, 3), (-1, 0)])
def test_a_shard_that_cannot_be_is_refused(made, out, shard):
    with pytest.raises(OptionInvalid, match="shard"):
        run(made, out, shard=shard)
    assert not out.exists()


class Interrupting(InlineEngine):
    """Gets Ctrl-C while it does the tasks with these numbers."""

    def __init__(self, *numbers: int) -> None:
        super().__init__(wanted=2)
        self._numbers = numbers

    def wait(self, timeout: float) -> list[Outcome]:
        if len(self.begun) in self._numbers:
            os.kill(os.getpid(), signal.SIGINT)
        return super().wait(timeout)


def test_ctrl_c_finishes_what_runs_and_the_same_command_goes_on(made, out):
    reference = out.with_name("reference")
    run(made, reference, InlineEngine())
    engine, lines = Interrupting(3), []
    with pytest.raises(KeyboardInterrupt):
        run(made, out, engine, notice=lines.append)
    assert lines[1].startswith("Ctrl-C: ") and engine.abandoned is False
    assert not (out / "changes.gpkg").exists() and not (out / "work").exists()
    assert set(states(out).values()) == {"done", "pending"}
    second = InlineEngine()
    run(made, out, second)
    assert not set(begun(engine)) & set(begun(second))
    assert contents(out) == contents(reference)


def test_a_wrong_option_costs_only_what_was_finished_with_it(made, out):
    run(made, out, InlineEngine())
    old, wrong = contents(out), Interrupting(3)
    with pytest.raises(KeyboardInterrupt):
        run(made, out, wrong, scene=SceneOptions(min_area=100_000.0))
    finished = {pair for pair, state in states(out).items() if state == "done"}
    assert 0 < len(finished) < len(made.sound)
    engine = InlineEngine()
    found = run(made, out, engine)
    assert set(begun(engine)) & set(made.sound) == finished
    assert found.skipped_as_done == len(made.sound) - len(finished)
    assert contents(out) == old


def test_an_option_with_which_all_pairs_fail_costs_nothing(made, out):
    run(made, out, InlineEngine())
    old, lines = contents(out), []
    assert run(made, out, InlineEngine(), scene=SceneOptions(bands=(4, 5, 6))).failed == len(made.pairs)
    assert archive_status(out).counts.done == 0
    assert b"item.json" not in contents(out)["catalog.json"]
    assert len(geopandas.read_parquet(out / "changes.parquet")) == 0
    # The others have never been done.
    found = run(made, out, InlineEngine(), notice=lines.append)
    assert (found.done, found.skipped_as_done) == (7, 7) and lines[0].startswith("9 pairs: 7 done already")
    assert contents(out) == old


def test_the_run_record_is_that_of_the_reports_that_are_there(made, out):
    write_table(made, made.sound)
    run(made, out, InlineEngine())
    old = contents(out)
    run(made, out, InlineEngine(), scene=SceneOptions(bands=(4, 5, 6)))
    assert contents(out)["run.json"] != old["run.json"]
    run(made, out)
    assert contents(out) == old


def test_a_second_ctrl_c_abandons_what_runs(made, out):
    class Stuck(Interrupting):
        def withdraw(self) -> list[Task]:
            return []

    engine = Stuck(3, 4)
    with pytest.raises(KeyboardInterrupt):
        run(made, out, engine)
    assert engine.abandoned is True
    run(made, out, InlineEngine())
    assert set(states(out).values()) == {"done", "failed"}


def test_a_patient_interrupt_leaves_the_handler_as_it_was():
    earlier = signal.getsignal(signal.SIGINT)
    with patient_interrupts() as asked:
        assert not asked()
        os.kill(os.getpid(), signal.SIGINT)
        assert asked()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is earlier


def test_an_archive_can_be_run_in_a_thread_where_no_signals_come(made, out):
    found = []
    thread = threading.Thread(target=lambda: found.append(run(made, out, InlineEngine())))
    thread.start()
    thread.join(60)
    assert found[0].done == 7


def test_an_ignored_ctrl_c_stays_ignored():
    earlier = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with patient_interrupts() as asked:
            os.kill(os.getpid(), signal.SIGINT)
        assert not asked()
    finally:
        signal.signal(signal.SIGINT, earlier)


def full(*arguments: object, **values: object) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(
    ("where", "name"), [(ArchiveFolder, "_write_folder"), (os, "fsync"), (ArchiveFolder, "_move")]
)
def test_a_full_disk_ends_in_one_line_and_the_same_command_goes_on(made, out, monkeypatch, where, name):
    calls = []
    original: Callable = getattr(where, name)

    def filling(*arguments: object, **values: object) -> object:
        calls.append(name)
        return full() if len(calls) > 4 else original(*arguments, **values)

    engine = InlineEngine()
    with monkeypatch.context() as patched:
        patched.setattr(where, name, filling)
        with pytest.raises(OutputNotWritable, match=r"No space left on device.*same command again"):
            run(made, out, engine)
    assert engine.abandoned is True
    assert not any((out / "work" / name).is_dir() for name in ("new", "old", "gone"))
    run(made, out, InlineEngine())
    reference = out.with_name("reference")
    run(made, reference, InlineEngine())
    assert contents(out) == contents(reference)


def test_a_ledger_on_a_full_disk_ends_the_run_and_the_same_command_goes_on(made, out, monkeypatch):
    class Filling(Ledger):
        def start(self, pair: str, attempt: int, worker: str | None = None) -> None:
            self._connection.execute("PRAGMA max_page_count = 1")
            super().start(pair, attempt, worker)
            self.keep_files({f"{number:0900}": Stored(1, 1, False, b"", None) for number in range(100)})

    with monkeypatch.context() as patched:
        patched.setattr("workflows.archive.Ledger", Filling)
        with pytest.raises(LedgerUnusable, match=r"ledger.sqlite: .*full.*same command again"):
            run(made, out, InlineEngine())
    assert run(made, out, InlineEngine()).done == 7


def test_reports_outlive_their_scenes(made, out):
    run(made, out, InlineEngine())
    old, lines = contents(out), []
    for scene in made.scenes.iterdir():
        scene.unlink()
    found = run(made, out, InlineEngine(), notice=lines.append, give_up_after=3)
    assert (found.done, found.failed, found.skipped_as_done) == (7, 2, 7)
    assert lines[0] == (
        f"warning: the scenes of 7 pairs that are done are not there any more, or cannot be read "
        f"(the first: {made.sound[0]}); the reports stay"
    )
    new = contents(out)
    assert {name: new[name] for name in new if name.startswith("pairs/")} == {
        name: old[name] for name in old if name.startswith("pairs/")
    }
    # With other options they are to be done, which fails; with those of before all is as it was.
    assert run(made, out, InlineEngine(), scene=SceneOptions(min_area=9e9), give_up_after=0).failed == 9
    assert run(made, out, InlineEngine(), give_up_after=0).done == 7
    assert contents(out) == new


def test_another_scene_that_is_not_there_is_not_taken_for_the_one_of_before(made, out):
    run(made, out, InlineEngine())
    changed = made.sound[0]
    made.table.write_text(made.table.read_text().replace(f"{changed}_after", f"typo/{changed}_after"))
    for _ in range(2):
        assert run(made, out, InlineEngine()).failed == 3
    assert (out / "pairs" / changed).is_dir()


def test_storage_that_is_away_ends_the_run_and_nothing_is_counted_as_failed(made, out):
    scenes = made.scenes.rename(made.scenes.with_name("elsewhere"))
    with pytest.raises(
        ScenesUnreachable, match=r"5 pairs in a row .*there is no such file.*same command again"
    ):
        run(made, out, InlineEngine(), give_up_after=5)
    assert set(states(out).values()) == {"pending", "running"}
    scenes.rename(made.scenes)
    found = run(made, out, InlineEngine(), give_up_after=5)
    assert (found.done, found.failed) == (7, 2)

"""A table of pairs into an archive: what is done, what is gone on with, and what is left alone."""

import json
import re
import shutil
import threading
from pathlib import Path

import geopandas
import pytest
import rasterio
from archive_pairs import InlineEngine, begun, contents, run, write_table
from damage import Killed
from filelock import FileLock

from workflows import SceneOptions
from workflows.archive.archive import Archive
from workflows.archive.claim import Claim
from workflows.errors import ArchiveBusy, FolderOccupied, ReportsDamaged


def brighten(path: Path) -> None:
    with rasterio.open(path, "r+") as file:
        image = file.read()
        image[:, 20:50, 20:50] = 255
        file.write(image)


@pytest.mark.slow
def test_an_archive_has_a_folder_for_every_pair_that_is_done_the_layers_and_a_record(made, out):
    found = run(made, out, InlineEngine(), scene=SceneOptions(min_area=30.0))
    assert (found.pairs, found.done, found.failed, found.skipped_as_done) == (9, 7, 2, 0)
    assert {path.name for path in (out / "pairs").iterdir()} == set(made.sound)
    layers = {"changes.parquet", "changes.gpkg", "summary.csv", "catalog.json"}
    names = {path.name for path in out.iterdir()}
    ours = {"rscc-archive.json", "index.sqlite", "run.json", "pairs", "failed", "claims", "runs"}
    assert names == ours | layers
    assert {path.stem for path in (out / "failed").iterdir()} == set(made.broken)
    reports = [json.loads((out / "pairs" / pair / "changes.geojson").read_text()) for pair in made.sound]
    assert found.changes == sum(len(report["features"]) for report in reports) > 0
    area = sum(change["properties"]["area_m2"] for report in reports for change in report["features"])
    assert found.area_m2 == pytest.approx(area, abs=0.1)
    assert reports[0]["rscc"]["inputs"]["before"]["date"] == "2019-05-01"
    assert reports[0]["rscc"]["inputs"]["after"]["date_source"] == "option"
    record = json.loads((out / "run.json").read_text())
    assert record["settings"]["min_area"] == 30.0
    assert record["model"]["name"] == "brightness" and record["engine"] == "inline"
    assert record["versions"].keys() == {"rscc", "torch", "rasterio", "gdal"}


@pytest.mark.slow
def test_the_same_again_starts_no_worker_and_failed_pairs_are_taken_up_when_asked(made, out):
    first = run(made, out, InlineEngine())
    old, times = contents(out), {path: path.stat().st_mtime_ns for path in (out / "pairs").rglob("*")}
    again = run(made, out)
    assert (again.done, again.failed, again.skipped_as_done) == (7, 2, 7)
    assert (again.changes, again.area_m2) == (first.changes, first.area_m2)
    assert contents(out) == old
    assert {path: path.stat().st_mtime_ns for path in (out / "pairs").rglob("*")} == times
    engine = InlineEngine()
    run(made, out, engine, retry_failed=True)
    assert sorted(begun(engine)) == sorted(made.broken)


@pytest.mark.slow
def test_only_what_changed_is_done_again(made, out, old):
    changed = made.sound[3]
    brighten(made.after(changed))
    (missing,) = (pair for pair, how in made.broken.items() if how == "missing")
    made.before(missing).rename(made.after(missing))
    shutil.copyfile(made.after(missing), made.before(missing))
    engine, lines = InlineEngine(), []
    found = run(made, out, engine, notice=lines.append)
    assert sorted(begun(engine)) == sorted([changed, missing])
    assert (found.done, found.failed, found.skipped_as_done) == (8, 1, 6)
    assert "6 done already, 2 to do" in lines[0]
    new = contents(out)
    others = {name.split("/")[1] for name in new if "/" in name and new[name] != old.get(name)}
    assert others == {changed, missing}
    assert b"brightness 255" in new[f"pairs/{changed}/changes.geojson"]
    assert new["changes.parquet"] != old["changes.parquet"]


def test_a_pair_that_fails_now_has_no_report_until_its_scene_is_right(made, out, old):
    changed = made.sound[2]
    right = made.after(changed).rename(made.after(changed).with_suffix(".right"))
    made.after(changed).write_text("nothing")
    assert run(made, out, InlineEngine()).failed == 3
    new = contents(out)
    assert f"\n{changed},site".encode() in new["summary.csv"]
    assert f"pairs/{changed}/".encode() not in new["catalog.json"]
    assert changed not in set(geopandas.read_parquet(out / "changes.parquet").pair)
    assert not (out / "pairs" / changed).exists()
    right.rename(made.after(changed))
    engine = InlineEngine()
    assert run(made, out, engine).failed == 2 and begun(engine) == [changed]
    assert contents(out) == old


@pytest.mark.slow
def test_a_report_that_was_replaced_before_a_kill_is_not_taken_for_that_of_the_options_of_before(
    made, out, old, monkeypatch
):
    def killed(*arguments: object, **values: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(Archive, "done", killed)
        with pytest.raises(Killed):
            run(made, out, InlineEngine(wanted=1), scene=SceneOptions(min_area=100_000.0))
    replaced = {name for name, content in contents(out).items() if content != old.get(name)}
    assert any(name.endswith("changes.geojson") for name in replaced), "the kill came after the replacement"
    run(made, out, InlineEngine())
    assert contents(out) == old


@pytest.mark.slow
def test_other_settings_do_everything_again_and_the_former_ones_too(made, out, old):
    engine = InlineEngine()
    run(made, out, engine, scene=SceneOptions(min_area=100_000.0))
    assert sorted(set(begun(engine))) == made.pairs
    assert contents(out)["changes.parquet"] != old["changes.parquet"]
    run(made, out, InlineEngine())
    assert contents(out) == old


def test_pairs_that_the_table_no_longer_has_are_left_out_and_come_back(made, out, old):
    left = made.sound[1]
    write_table(made, [pair for pair in made.pairs if pair != left])
    found = run(made, out)
    assert (found.pairs, found.done) == (8, 6)
    assert left.encode() not in contents(out)["summary.csv"]
    write_table(made)
    run(made, out)
    assert contents(out) == old


@pytest.mark.slow
def test_reports_that_somebody_removed_or_cut_off_are_made_again(made, out, old):
    no_folder, removed, *cut, whole = (out / "pairs" / pair / "changes.geojson" for pair in made.sound)
    shutil.rmtree(no_folder.parent)
    removed.unlink()
    beginnings = (b"", b"{", b'{"type": "FeatureCollection", "fea', cut[-1].read_bytes()[:-3])
    for report, beginning in zip(cut, beginnings, strict=True):
        report.write_bytes(beginning)
    engine, lines = InlineEngine(), []
    found = run(made, out, engine, notice=lines.append)
    assert begun(engine) == made.sound[:-1] and "6 to do" in lines[0]
    assert found.skipped_as_done == 1 and whole.is_file()
    assert contents(out) == old


def test_a_verdict_that_a_gis_wrote_into_a_report_stays(made, out, old):
    reports = (out / "pairs" / pair / "changes.geojson" for pair in made.sound)
    report = next(one for one in reports if json.loads(one.read_text())["features"])
    content = json.loads(report.read_text())
    content["features"][0]["properties"]["review_status"] = "confirmed"
    report.write_text(json.dumps(content)[:-2] + "\n]\n}\n")  # as GDAL ends it
    run(made, out)
    assert json.loads(report.read_text()) == content
    layer = geopandas.read_parquet(out / "changes.parquet")
    assert list(layer["review_status"].dropna()) == ["confirmed"]
    layer = geopandas.read_file(out / "changes.gpkg", layer="changes")
    assert list(layer["review_status"].dropna()) == ["confirmed"]
    times = {path: path.stat().st_mtime_ns for path in out.glob("c*")}
    run(made, out)
    assert {path: path.stat().st_mtime_ns for path in out.glob("c*")} == times


def test_a_tampered_report_is_named_and_made_again(made, out, old):
    tampered = made.sound[4]
    report = out / "pairs" / tampered / "changes.geojson"
    whole = json.loads(report.read_text())
    whole["rscc"]["inputs"]["before"]["date"] = 7
    report.write_text(json.dumps(whole)[:-2] + "\n]}\n")
    (out / "summary.csv").unlink()
    engine, lines = InlineEngine(), []
    found = run(made, out, engine, warn=lines.append)
    aside = report.with_name("changes.damaged.geojson")
    assert len(lines) == 1 and tampered in lines[0]
    assert json.loads(aside.read_text()) == whole
    assert begun(engine) == [tampered] and (found.done, found.skipped_as_done) == (7, 6)
    # What is put aside next takes nothing's place.
    report.write_text('{"features": 3}')
    run(made, out, InlineEngine())
    second = aside.with_name(f"2.{aside.name}")
    assert (json.loads(aside.read_text()), second.read_text()) == (whole, '{"features": 3}')
    aside.unlink()
    second.unlink()
    assert contents(out) == old


def test_a_report_that_is_damaged_again_and_again_ends_the_run(made, out, old, monkeypatch):
    damaged = out / "pairs" / made.sound[4] / "changes.geojson"
    install = Claim.install

    def damage(claim, pair, files, maps):
        report = json.loads(files["changes.geojson"])
        report["rscc"]["inputs"]["before"]["date"] = 7
        install(claim, pair, {**files, "changes.geojson": json.dumps(report).encode()}, maps)

    damaged.write_text("{\n]}\n")
    (out / "summary.csv").unlink()
    with monkeypatch.context() as patched:
        patched.setattr(Claim, "install", damage)
        with pytest.raises(ReportsDamaged, match=made.sound[4]):
            run(made, out, InlineEngine())
    assert run(made, out, InlineEngine()).done == 7


@pytest.mark.slow
def test_two_runs_on_one_archive_are_refused(made, out):
    run(made, out, InlineEngine(), shard=(1, 2))
    (out / "work" / "1-of-1" / "new").mkdir(parents=True)
    with FileLock(out / "claims" / "1-of-1.lock"), pytest.raises(ArchiveBusy) as error:
        run(made, out)
    assert error.value.exit_code == 1
    assert (out / "work" / "1-of-1" / "new").is_dir(), "the other's work is left alone"
    assert run(made, out, InlineEngine()).done == 7


def test_a_folder_of_something_else_is_left_alone(made, out):
    out.mkdir()
    (out / "thesis.txt").write_text("years of work")
    with pytest.raises(FolderOccupied):
        run(made, out)
    assert [path.name for path in out.iterdir()] == ["thesis.txt"]


@pytest.mark.slow
def test_shards_share_one_archive_and_the_last_one_writes_the_layers(made, out, worked_through):
    whole, engines = contents(worked_through), [InlineEngine() for _ in range(3)]
    for number, engine in enumerate(engines, start=1):
        assert not (out / "summary.csv").exists()
        found = run(made, out, engine, shard=(number, 3))
        assert begun(engine) == made.pairs[number - 1 :: 3]
        assert (found.pairs, found.left) == (3, 9 - 3 * number)
    record = re.compile(rb'"table".*', re.DOTALL)
    assert {**contents(out), "run.json": b""} == {**whole, "run.json": b""}
    assert record.search(contents(out)["run.json"])[0] == record.search(whole["run.json"])[0]
    assert run(made, out).skipped_as_done == 7 and contents(out)["changes.gpkg"] == whole["changes.gpkg"]


# Python's filters of warnings are not for several threads, as these runs are here.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
def test_shards_work_at_the_same_time(made, out, worked_through):
    threads = [
        threading.Thread(target=run, args=(made, out, InlineEngine()), kwargs={"shard": (number, 3)})
        for number in (1, 2, 3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    run(made, out)
    assert {**contents(out), "run.json": b""} == {**contents(worked_through), "run.json": b""}


@pytest.fixture
def at_once(made, out):
    """Return a function that runs both shards of two, the second while the first is at work."""

    def both(**options):
        ends = []

        class Meanwhile(InlineEngine):
            def submit(self, task):
                if not ends:
                    ends.append(run(made, out, InlineEngine(), shard=(2, 2), **options))
                super().submit(task)

        last = run(made, out, Meanwhile(), shard=(1, 2), **options)
        return ends[0], last

    return both


@pytest.mark.slow
def test_the_last_of_two_shards_at_work_writes_the_layers(out, at_once):
    first, last = at_once()
    assert first.left > 0 == last.left
    assert (out / "catalog.json").exists()


@pytest.mark.slow
def test_the_last_of_two_shards_writes_the_layers_also_after_other_settings(out, old, at_once):
    first, last = at_once(scene=SceneOptions(min_area=25.0))
    assert first.left > 0 == last.left
    assert (out / "changes.gpkg").read_bytes() != old["changes.gpkg"]


@pytest.mark.slow
def test_the_run_record_is_that_of_the_reports_that_are_there(made, out):
    first, second = made.sound[:3], made.sound[3:]
    write_table(made, first)
    run(made, out, InlineEngine())
    old = contents(out)
    write_table(made, second)
    run(made, out, InlineEngine(), scene=SceneOptions(min_area=9e9))
    assert contents(out)["run.json"] != old["run.json"]
    write_table(made, first)
    run(made, out)
    assert contents(out)["run.json"] == old["run.json"]

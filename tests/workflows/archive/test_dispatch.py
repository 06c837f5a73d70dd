"""What a run does with what comes back from an engine."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from archive_pairs import InlineEngine
from archive_rows import report
from damage import Steps

from workflows import SceneOptions
from workflows.archive import dispatch
from workflows.archive.archive import Archive, ArchiveOptions
from workflows.archive.claim import Claim
from workflows.archive.dispatch import Dispatch
from workflows.archive.folder import ArchiveFolder
from workflows.archive.workers.tasks import Outcome, Task
from workflows.errors import OutputNotWritable, ScenesUnreachable
from workflows.pairs.table import read_pairs
from workflows.report.qgis import qgis_style

REPORT = report(warnings=["a warning"], tiling={"tiles": 7, "gsd": 0.5}).encoded()


def found(task: Task) -> Outcome:
    return Outcome(task.pair, "done", report=REPORT, seconds=1.5, worker="w")


def failing(task: Task, state: str = "failed", error: str = "RuntimeError") -> Outcome:
    return Outcome(task.pair, state, error=error, line=f"{task.pair} says no", worker="w", seconds=1.0)


class Run:
    """A dispatch over ``count`` pairs that exist in name only."""

    def __init__(self, tmp_path: Path, count: int) -> None:
        table = tmp_path / "pairs.csv"
        if not table.exists():
            lines = [f"p{number},b{number}.tif,a{number}.tif" for number in range(count)]
            table.write_text("\n".join(["pair,before,after", *lines]) + "\n")
        self.rows = read_pairs(table)
        self.folder = ArchiveFolder(tmp_path / "archive")

    def __call__(
        self,
        engine: InlineEngine,
        stopping: Callable[[], bool] = lambda: False,
        *,
        key: str = "b-a-key",
        retry_failed: bool = False,
        **tells,
    ) -> list:
        """Run; returns (pair, state, kind, error) of all."""
        options = ArchiveOptions(retry_failed=retry_failed, overwrite=True)
        with Archive.open(self.folder, options) as archive:
            archive.plan((row, key) for row in self.rows)
            work = Dispatch(archive, self.rows, engine, SceneOptions(), **tells)
            try:
                work.run(stopping)
            finally:
                self.found = list(archive.index.rows())
        return [(row.pair, row.state, row.kind, row.error) for row in self.found]


def begun(engine: InlineEngine) -> list[str]:
    return [task.pair for task in engine.tasks]


def test_pairs_are_run_in_the_order_of_the_table_and_installed(tmp_path):
    run, told = Run(tmp_path, 5), []
    engine = InlineEngine(wanted=2, answer=found)
    states = run(engine, progress=lambda *values: told.append(values))
    assert states == [(f"p{number}", "done", None, None) for number in range(5)]
    assert begun(engine) == [f"p{number}" for number in range(5)]
    assert told[0] == ("pairs", 0, 5) and told[-1] == ("pairs", 5, 5)
    files = {path.name: path.read_bytes() for path in run.folder.pair_folder("p3").iterdir()}
    assert files.keys() == {"changes.geojson", "changes.qml", "item.json"}
    assert files["changes.geojson"] == REPORT and files["changes.qml"] == qgis_style().encode()
    item = json.loads(files["item.json"])
    assert item["id"] == "p3" and item["properties"]["rscc:key"] == "b-a-key"
    row = run.found[0]
    assert (row.seconds, row.tiles, row.warnings) == (1.5, 7, ("a warning",))


class AtOnce(InlineEngine):
    """Hands out everything it was given in one go."""

    def wait(self, timeout: float) -> list[Outcome]:
        return [one for _ in range(len(self.queue)) for one in super(AtOnce, self).wait(timeout)]


def test_a_report_that_cannot_be_written_ends_the_run_and_the_next_one_does_the_rest(tmp_path, monkeypatch):
    run, install = Run(tmp_path, 4), Claim.install

    def install_but_one(self, pair, files, maps):
        if pair == "p1":
            raise OutputNotWritable(f"{pair}: no space")
        install(self, pair, files, maps)

    with monkeypatch.context() as patched:
        patched.setattr(Claim, "install", install_but_one)
        with pytest.raises(OutputNotWritable):
            run(AtOnce(wanted=4, answer=found))
    again = InlineEngine(answer=found)
    assert {state for _, state, *_ in run(again)} == {"done"}
    # Their folders have their names: those are done, whether or not that was recorded.
    assert begun(again) == ["p1"]


def test_a_task_has_the_scenes_and_dates_of_its_row(tmp_path):
    (tmp_path / "pairs.csv").write_text(
        "pair,before,after,date_before,date_after\np0,b.tif,https://u:secret@h/a.tif?key=secret,2019,\n"
    )
    engine, run = InlineEngine(answer=found), Run(tmp_path, 1)
    run(engine)
    (task,) = engine.tasks
    assert task.before == str(tmp_path / "b.tif") and task.after == "https://u:secret@h/a.tif?key=secret"
    assert (task.options.date_before, task.options.date_after) == ("2019", None)
    assert b"secret" not in run.folder.index.read_bytes()


def test_unreachable_scenes_of_many_pairs_in_a_row_end_the_run_and_stay_pending(tmp_path, monkeypatch):
    def answer(task: Task) -> Outcome:
        gone = int(task.pair[1:]) >= 3
        return failing(task, "refused", "SceneNotFound") if gone else found(task)

    monkeypatch.setattr(dispatch, "GIVE_UP_AFTER", 6)
    run, engine = Run(tmp_path, 40), InlineEngine(answer=answer)
    with pytest.raises(ScenesUnreachable):
        run(engine)
    assert len(engine.tasks) == 9
    assert [row.state for row in run.found] == ["done"] * 3 + ["pending"] * 37
    assert {state for _, state, *_ in run(InlineEngine(answer=found))} == {"done"}


def test_unreachable_scenes_among_others_fail_alone(tmp_path, monkeypatch):
    def answer(task: Task) -> Outcome:
        is_there = int(task.pair[1:]) % 3 == 0
        return found(task) if is_there else failing(task, "refused", "SceneNotFound")

    monkeypatch.setattr(dispatch, "GIVE_UP_AFTER", 3)
    states = [state for _, state, *_ in Run(tmp_path, 12)(InlineEngine(wanted=1, answer=answer))]
    assert states == ["done", "failed", "failed"] * 4


def test_maps_of_a_large_pair_are_removed_when_it_is_done(tmp_path):
    run = Run(tmp_path, 2)

    def answer(task: Task) -> Outcome:
        task.maps.mkdir(parents=True)
        return found(task) if task.pair == "p0" else failing(task)

    run(InlineEngine(wanted=1, answer=answer))
    assert not run.folder.work.exists()


@pytest.mark.slow
def test_the_bookkeeping_of_a_pair_does_not_grow_with_the_archive(tmp_path):
    counts = []
    for count in (40, 80, 160):
        (tmp_path / str(count)).mkdir()
        run = Run(tmp_path / str(count), count)
        with pytest.MonkeyPatch.context() as patch:
            steps = Steps(patch)
            assert {state for _, state, *_ in run(AtOnce(wanted=64, answer=found))} == {"done"}
        counts.append(steps.count)
    few, some, many = counts
    assert 0 < many - some <= 2 * (some - few) + 8, "steps on the disk"
    assert many - some <= 80 * 14

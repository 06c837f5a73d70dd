"""What the coordinator does with what comes back from an engine."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from archive_rows import report
from inline_engine import InlineEngine

from workflows import SceneOptions
from workflows.archive.archive import Archive
from workflows.archive.dispatch import Dispatch
from workflows.archive.plan import ArchiveOptions
from workflows.engines.tasks import Outcome, PairResult, Task
from workflows.errors import OutputNotWritable, ScenesUnreachable
from workflows.pairs.table import read_pairs
from workflows.report.qgis import qgis_style
from workflows.store.folder import ArchiveFolder

REPORT = report().encoded()


def found(task: Task, **values) -> Outcome:
    result = PairResult(REPORT, 0, 0.0, 7, ("a warning",))
    return Outcome(task, "done", result=None if task.kind == "part" else result, seconds=1.5, **values)


def failing(task: Task, state: str = "failed", error: str = "RuntimeError") -> Outcome:
    return Outcome(task, state, error=error, line=f"{task.pair} says no", worker="w", seconds=1.0)


class Run:
    """A dispatch over ``count`` pairs that exist in name only, unless the answers want the files."""

    def __init__(self, tmp_path: Path, count: int, **options) -> None:
        table = tmp_path / "pairs.csv"
        if not table.exists():
            lines = [f"p{number},b{number}.tif,a{number}.tif" for number in range(count)]
            table.write_text("\n".join(["pair,before,after", *lines]) + "\n")
        self.rows = read_pairs(table)
        self.folder = ArchiveFolder(tmp_path / "archive", durable=False)
        self.folder.create()
        self.options = ArchiveOptions(overwrite=True, **options)

    def __call__(
        self,
        engine: InlineEngine,
        stopping: Callable[[], bool] = lambda: False,
        *,
        key: str = "key",
        retry_failed: bool = False,
        **tells,
    ) -> list:
        """Run; returns (pair, state, attempts, kind, error) of all."""
        with Archive.open(self.folder) as archive:
            ledger = archive.ledger
            ledger.plan([(row, key) for row in self.rows], retry_failed=retry_failed)
            work = Dispatch(archive, self.rows, engine, SceneOptions(), self.options, **tells)
            try:
                work.run(stopping)
            finally:
                self.found = list(ledger.rows())
                self.parts = {row.pair: ledger.parts(row.pair) for row in self.rows}
        return [(row.pair, row.state, row.attempts, row.kind, row.error) for row in self.found]


def test_pairs_are_run_in_the_order_of_the_table_and_installed(tmp_path):
    run, told = Run(tmp_path, 5), []
    engine = InlineEngine(wanted=2, answer=found)
    states = run(engine, progress=lambda *values: told.append(values))
    assert states == [(f"p{number}", "done", 1, None, None) for number in range(5)]
    assert engine.begun == [f"p{number}/1/pair/0" for number in range(5)]
    assert told[0] == ("pairs", 0, 5) and told[-1] == ("pairs", 5, 5)
    files = {path.name: path.read_bytes() for path in run.folder.pair_folder("p3").iterdir()}
    assert files.keys() == {"changes.geojson", "changes.qml", "item.json"}
    assert files["changes.geojson"] == REPORT and files["changes.qml"] == qgis_style().encode()
    assert json.loads(files["item.json"])["id"] == "p3"
    row = run.found[0]
    assert (row.seconds, row.tiles, row.warnings) == (1.5, 7, ("a warning",))


class AtOnce(InlineEngine):
    """Hands out everything it was given in one go."""

    def wait(self, timeout: float) -> list[Outcome]:
        return [one for _ in range(len(self.queue)) for one in super(AtOnce, self).wait(timeout)]


def test_reports_that_come_together_are_installed_together(tmp_path, monkeypatch):
    run = Run(tmp_path, 8)
    install, both = run.folder.install, threading.Barrier(2, timeout=120)

    def install_with_another(pair, files):
        both.wait()
        install(pair, files)

    monkeypatch.setattr(run.folder, "install", install_with_another)
    assert {state for _, state, *_ in run(AtOnce(wanted=4, answer=found))} == {"done"}


def test_of_reports_that_come_together_one_that_cannot_be_written_is_not_done(tmp_path, monkeypatch):
    run = Run(tmp_path, 4)
    install = run.folder.install

    def install_but_one(pair, files):
        if pair == "p1":
            raise OutputNotWritable(f"{pair}: no space")
        install(pair, files)

    monkeypatch.setattr(run.folder, "install", install_but_one)
    with pytest.raises(OutputNotWritable, match="p1: no space"):
        run(AtOnce(wanted=4, answer=found))
    assert [row.state for row in run.found] == ["done", "running", "running", "running"]
    monkeypatch.undo()
    # The next run takes up what was not recorded as done, whether its folder is there or not.
    again = InlineEngine(answer=found)
    assert {state for _, state, *_ in run(again)} == {"done"}
    assert sorted(name.split("/")[0] for name in again.begun) == ["p1", "p2", "p3"]


def test_a_task_has_the_scenes_and_dates_of_its_row(tmp_path):
    (tmp_path / "pairs.csv").write_text(
        "pair,before,after,date_before,date_after\np0,b.tif,https://u:secret@h/a.tif?key=secret,2019,\n"
    )
    engine = InlineEngine(answer=found)
    Run(tmp_path, 1, split_above=9)(engine)
    (task,) = engine.tasks
    assert task.before == str(tmp_path / "b.tif") and task.after == "https://u:secret@h/a.tif?key=secret"
    options = task.options
    assert (options.date_before, options.date_after, options.tile_cache) == ("2019", None, None)
    assert (task.kind, task.attempt, task.split_above) == ("pair", 1, 9)


@pytest.mark.parametrize("state", ["failed", "crashed"])
def test_a_failure_is_tried_again_and_then_kept_as_failed(tmp_path, state):
    def answer(task: Task) -> Outcome:
        bad = {"p1": 9, "p2": 1}.get(task.pair, 0)
        return failing(task, state) if task.attempt <= bad else found(task)

    run = Run(tmp_path, 4, retries=2)
    states = run(InlineEngine(wanted=2, answer=answer))
    assert states[1] == ("p1", "failed", 3, state, "RuntimeError")
    assert states[2] == ("p2", "done", 2, None, None)
    assert run.found[1].line == "p1 says no" and run.found[1].worker == "w"
    assert not run.folder.pair_folder("p1").exists()


def test_what_is_refused_is_not_tried_again(tmp_path):
    run = Run(tmp_path, 2, retries=5)
    engine = InlineEngine(answer=lambda task: failing(task, "refused", "NoOverlap"))
    assert run(engine) == [(f"p{n}", "failed", 1, "refused", "NoOverlap") for n in range(2)]
    assert len(engine.begun) == 2


def test_a_pair_that_crashes_has_its_last_attempt_alone(tmp_path):
    run = Run(tmp_path, 9)
    engine = InlineEngine(
        answer=lambda task: failing(task, "crashed") if task.pair in ("p2", "p5") else found(task)
    )
    states = run(engine)
    assert [state for _, state, *_ in states] == ["failed" if n in (2, 5) else "done" for n in range(9)]
    assert engine.begun[-2:] == ["p2/2/pair/0", "p5/2/pair/0"]
    assert engine.together[-2:] == [0, 0]


@pytest.mark.parametrize(
    ("state", "error"),
    [("refused", "BandsDiffer"), ("refused", "SceneNotFound"), ("failed", "OSError"), ("crashed", "Died")],
)
def test_a_pair_that_failed_has_no_report_of_other_settings(tmp_path, state, error):
    run = Run(tmp_path, 1)
    run(InlineEngine(answer=found))
    failed = run(InlineEngine(answer=lambda task: failing(task, state, error)), key="typo")
    assert failed[0][1] == "failed"
    assert not run.folder.pair_folder("p0").exists()
    engine = InlineEngine(answer=found)
    assert run(engine)[0][1] == "done" and engine.begun == ["p0/1/pair/0"]


def test_a_report_of_other_settings_is_made_anew_with_those_of_before(tmp_path):
    run = Run(tmp_path, 1)
    for key, settles in (("key", True), ("typo", False), ("typo", True)):
        run(InlineEngine(answer=found if settles else failing), key=key, retry_failed=True)
    again = InlineEngine(answer=found)
    run(again)
    assert again.begun == ["p0/1/pair/0"], "the folder has the report of the last key alone"


def test_scenes_of_many_pairs_that_cannot_be_had_end_the_run_and_stay_to_be_done(tmp_path):
    def answer(task: Task) -> Outcome:
        gone = int(task.pair[1:]) >= 3
        return failing(task, "refused", "SceneNotFound") if gone else found(task)

    run = Run(tmp_path, 40, give_up_after=6)
    engine = InlineEngine(answer=answer)
    with pytest.raises(ScenesUnreachable, match=r"6 pairs in a row .* p8 says no; .*--give-up-after 0"):
        run(engine)
    assert len(engine.begun) == 9
    # Those that were handed out besides are what a killed coordinator leaves too.
    states = [row.state for row in run.found]
    assert states == ["done"] * 3 + ["pending"] * 6 + ["running"] * 3 + ["pending"] * 28
    # The storage is back.
    again = run(InlineEngine(answer=found))
    assert {state for _, state, *_ in again} == {"done"}


@pytest.mark.parametrize(("retries", "attempts"), [(0, 4), (1, 8)])
def test_attempts_of_one_pair_count_once_when_scenes_cannot_be_had(tmp_path, retries, attempts):
    run = Run(tmp_path, 4, give_up_after=4, retries=retries)
    engine = InlineEngine(wanted=1, answer=lambda task: failing(task, error="SceneUnreachable"))
    with pytest.raises(ScenesUnreachable):
        run(engine)
    assert len(engine.begun) == attempts


@pytest.mark.parametrize(
    ("count", "missing", "give_up_after"), [(10, "012459", 0), (10, "012459", 4), (50, "0123456789", 0)]
)
def test_missing_scenes_fail_alone_where_few_follow_each_other_or_a_run_is_never_given_up(
    tmp_path, count, missing, give_up_after
):
    def answer(task: Task) -> Outcome:
        return failing(task, "refused", "SceneNotFound") if task.pair[-1] in missing else found(task)

    states = Run(tmp_path, count, give_up_after=give_up_after)(InlineEngine(wanted=1, answer=answer))
    assert [state for _, state, *_ in states] == [
        "failed" if pair[-1] in missing else "done" for pair, *_ in states
    ]


def test_a_stop_lets_running_pairs_finish_and_leaves_the_others_to_be_done(tmp_path):
    run, engine, lines = Run(tmp_path, 12), InlineEngine(wanted=3, answer=found), []
    states = run(engine, stopping=lambda: len(engine.begun) >= 4, notice=lines.append)
    assert [state for _, state, *_ in states] == ["done"] * 4 + ["pending"] * 8
    assert {attempts for _, state, attempts, *_ in states if state == "pending"} == {0}
    assert len(lines) == 1 and lines[0].startswith("Ctrl-C: 0 running pairs will be finished")


def splitting(task: Task) -> Outcome | None:
    """Split every even pair into three parts."""
    if task.kind == "pair" and int(task.pair[1:]) % 2 == 0:
        return Outcome(task, "split", rows=((0, 10), (10, 20), (20, 25)), seconds=0.5)
    return found(task)


def test_a_large_pair_goes_out_in_parts_and_is_finished_when_all_are_there(tmp_path):
    run = Run(tmp_path, 4, split_above=50)

    def answer(task: Task) -> Outcome | None:
        if task.kind == "part":
            task.options.tile_cache.mkdir(parents=True, exist_ok=True)
        return splitting(task)

    engine = InlineEngine(wanted=2, answer=answer)
    states = run(engine)
    assert {state for _, state, *_ in states} == {"done"}
    of_first = [task for task in engine.tasks if task.pair == "p0"]
    assert [task.kind for task in of_first] == ["pair", "part", "part", "part", "finish"]
    assert [task.rows for task in of_first] == [None, (0, 10), (10, 20), (20, 25), None]
    assert {task.options.tile_cache for task in of_first[1:]} == {run.folder.tile_cache("p0")}
    assert {task.split_above for task in of_first[1:]} == {None}
    assert not run.folder.tile_cache("p0").exists()
    assert run.found[0].seconds == 0.5 + 4 * 1.5
    assert run.parts["p0"] == []


def test_parts_that_are_done_are_not_repeated_after_a_stop(tmp_path):
    run = Run(tmp_path, 1, split_above=50)
    first = InlineEngine(wanted=1, answer=splitting)
    assert run(first, stopping=lambda: len(first.begun) >= 3) == [("p0", "pending", 0, None, None)]
    assert [part.done for part in run.parts["p0"]] == [True, True, False]
    second = InlineEngine(wanted=1, answer=splitting)
    assert run(second) == [("p0", "done", 1, None, None)]
    assert [task.split("/")[2:] for task in second.begun] == [["pair", "0"], ["part", "2"], ["finish", "0"]]


def test_a_part_that_fails_fails_its_pair_after_the_retries(tmp_path):
    def answer(task: Task) -> Outcome | None:
        return failing(task) if task.kind == "part" and task.rows == (10, 20) else splitting(task)

    run = Run(tmp_path, 3, split_above=50)
    states = run(InlineEngine(wanted=8, answer=answer))
    assert [values[1:3] for values in states] == [("failed", 2), ("done", 1), ("failed", 2)]
    assert not run.folder.tile_cache("p0").exists()


@pytest.mark.parametrize("second", ["done", "failed"])
def test_a_pair_that_is_given_up_for_one_part_is_not_worked_on_for_another(tmp_path, second):
    def answer(task: Task) -> Outcome | None:
        if task.kind == "part" and task.rows == (0, 10):
            return failing(task, error="SceneUnreachable")
        return failing(task) if task.kind == "part" and second == "failed" else splitting(task)

    run, told = Run(tmp_path, 1, split_above=50, retries=0, give_up_after=5), []
    engine = InlineEngine(wanted=1, answer=answer)
    states = run(engine, progress=lambda *values: told.append(values))
    assert states == [("p0", "failed", 1, "failed", "SceneUnreachable")]
    assert told[-1] == ("pairs", 1, 1) and not any(task.kind == "finish" for task in engine.tasks)


def test_nothing_is_split_where_workers_do_not_see_the_archive(tmp_path):
    def answer(task: Task) -> Outcome:
        return found(task) if task.split_above is None else splitting(task)

    engine = InlineEngine(wanted=1, answer=answer, shared=False)
    states = Run(tmp_path, 3, split_above=50)(engine)
    assert {state for _, state, *_ in states} == {"done"}
    assert {task.kind for task in engine.tasks} == {"pair"}
    assert [(task.pair, task.split_above) for task in engine.tasks] == [
        ("p0", 50), ("p0", None), ("p1", None), ("p2", None),
    ]  # fmt: skip

"""What ends a run over an archive before its time, and what is left then."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

import pytest
from archive_pairs import contents
from archive_runs import run, states
from inline_engine import InlineEngine

from workflows import SceneOptions
from workflows.archive.interrupts import patient_interrupts
from workflows.engines.tasks import Outcome, Task
from workflows.errors import LedgerUnusable, OutputNotWritable, ScenesUnreachable
from workflows.store.folder import ArchiveFolder
from workflows.store.identity import Stored
from workflows.store.ledger import Ledger


def test_a_second_ctrl_c_abandons_what_runs(made, out):
    class Interrupted(InlineEngine):
        def wait(self, timeout: float) -> list[Outcome]:
            if len(self.begun) in (3, 4):
                os.kill(os.getpid(), signal.SIGINT)
            return super().wait(timeout)

        def withdraw(self) -> list[Task]:
            return []

    engine = Interrupted(wanted=2)
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("where", "name"), [(ArchiveFolder, "_write_folder"), (os, "fsync"), (ArchiveFolder, "_move")]
)
def test_a_full_disk_ends_in_one_line_and_the_same_command_goes_on(
    made, out, worked_through, monkeypatch, where, name
):
    calls = []
    original: Callable = getattr(where, name)

    def filling(*arguments: object, **values: object) -> object:
        calls.append(name)
        if len(calls) > 4:
            raise OSError(28, "No space left on device")
        return original(*arguments, **values)

    engine = InlineEngine()
    with monkeypatch.context() as patched:
        patched.setattr(where, name, filling)
        with pytest.raises(OutputNotWritable, match=r"No space left on device.*same command again"):
            run(made, out, engine)
    assert engine.abandoned is True
    assert not any((out / "work" / name).is_dir() for name in ("new", "old", "gone"))
    run(made, out, InlineEngine())
    assert contents(out) == contents(worked_through)


def test_a_ledger_on_a_full_disk_ends_the_run_and_the_same_command_goes_on(made, out, monkeypatch):
    class Filling(Ledger):
        def start(self, pair: str, attempt: int) -> None:
            self._connection.execute("PRAGMA max_page_count = 1")
            super().start(pair, attempt)
            self.keep_files({f"{number:0900}": Stored(1, 1, False, b"", None) for number in range(100)})

    with monkeypatch.context() as patched:
        patched.setattr("workflows.archive.archive.Ledger", Filling)
        with pytest.raises(LedgerUnusable, match=r"ledger.sqlite: .*full.*same command again"):
            run(made, out, InlineEngine())
    assert run(made, out, InlineEngine()).done == 7


def test_reports_outlive_their_scenes(made, out, old):
    lines = []
    for scene in made.scenes.iterdir():
        scene.unlink()
    found = run(made, out, InlineEngine(), warn=lines.append, give_up_after=3)
    assert (found.done, found.failed, found.skipped_as_done) == (7, 2, 7)
    assert lines == [
        f"the scenes of 7 pairs that are done are not there any more, or cannot be read "
        f"(the first: {made.sound[0]}); the reports stay"
    ]
    new, reports = contents(out), {name for name in old if name.startswith("pairs/")}
    assert {name for name in new if name.startswith("pairs/")} == reports
    assert all(new[name] == old[name] for name in reports)
    # With other options they are to be done, which fails.
    assert run(made, out, InlineEngine(), scene=SceneOptions(min_area=9e9), give_up_after=0).failed == 9


def test_another_scene_that_is_not_there_is_not_taken_for_the_one_of_before(made, out, old):
    changed = made.sound[0]
    made.table.write_text(made.table.read_text().replace(f"{changed}_after", f"typo/{changed}_after"))
    for _ in range(2):
        assert run(made, out, InlineEngine()).failed == 3
    assert not (out / "pairs" / changed).exists()


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

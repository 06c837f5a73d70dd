"""What ends a run over an archive before its time, and what is left then."""

import os
import threading
from collections.abc import Callable

import pytest
from archive_pairs import InlineEngine, contents, run

from workflows import SceneOptions
from workflows.archive import claim
from workflows.errors import OutputNotWritable


@pytest.mark.slow
def test_an_archive_can_be_run_in_a_thread_where_no_signals_come(made, out):
    found = []
    thread = threading.Thread(target=lambda: found.append(run(made, out, InlineEngine())))
    thread.start()
    thread.join(60)
    assert found[0].done == 7


@pytest.mark.slow
@pytest.mark.parametrize(("where", "name"), [(claim, "_write_folder"), (os, "fsync"), (claim, "_move")])
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
        with pytest.raises(OutputNotWritable):
            run(made, out, engine)
    assert engine.abandoned is True
    assert not (out / "work").exists()
    run(made, out, InlineEngine())
    assert contents(out) == contents(worked_through)


@pytest.mark.slow
def test_reports_outlive_their_scenes(made, out, old):
    lines = []
    for scene in made.scenes.iterdir():
        scene.unlink()
    found = run(made, out, InlineEngine(), warn=lines.append)
    assert (found.done, found.failed, found.skipped_as_done) == (7, 2, 7)
    assert len(lines) == 1 and made.sound[0] in lines[0]
    new, reports = contents(out), {name for name in old if name.startswith("pairs/")}
    assert {name for name in new if name.startswith("pairs/")} == reports
    assert all(new[name] == old[name] for name in reports)
    # With other options they are to be done, which fails.
    assert run(made, out, InlineEngine(), scene=SceneOptions(min_area=9e9)).failed == 9


def test_another_scene_that_is_not_there_is_not_taken_for_the_one_of_before(made, out, old):
    changed = made.sound[0]
    made.table.write_text(made.table.read_text().replace(f"{changed}_after", f"typo/{changed}_after"))
    for _ in range(2):
        assert run(made, out, InlineEngine()).failed == 3
    assert not (out / "pairs" / changed).exists()

"""What the QGIS plugin does without QGIS: it finds the command, cleans its environment, reads its events."""

from __future__ import annotations

import ast
import hashlib
import os
import sys
import zipfile
from pathlib import Path

import pytest
from make_zip import FOLDER, MOST_BYTES, plugin_files, write_zip
from rscc_changes import command
from rscc_changes.command import (
    Cancelled,
    CommandMissing,
    Gauge,
    RunFailed,
    find_command,
    plain,
    read_event,
    run,
)


def program(path: Path, code: str = "") -> Path:
    """A command that runs ``code``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!{sys.executable}\n{code}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("place", "variables"),
    [
        ("tools/rscc", {"PATH": "/nowhere:{}/tools"}),
        ("pipx/rscc", {"PIPX_BIN_DIR": "{}/pipx"}),
        ("home/.local/bin/rscc", {}),
        ("home/.local/share/pipx/venvs/rscc/bin/rscc", {}),
        ("env/bin/rscc", {"CONDA_PREFIX": "{}/env"}),
        ("home/miniforge3/envs/eo/bin/rscc", {}),
        ("home/miniforge3/bin/rscc", {}),
        ("listed/bin/rscc", {}),
    ],
)
def test_the_command_is_found_where_people_have_it(tmp_path, place, variables):
    home = tmp_path / "home"
    (home / ".conda").mkdir(parents=True)
    (home / ".conda/environments.txt").write_text(f"/gone\n{tmp_path}/listed\n")
    variables = {name: text.format(tmp_path) for name, text in variables.items()}
    with pytest.raises(CommandMissing):
        find_command("", variables, home, windows=False)
    there = program(tmp_path / place)
    assert find_command("", variables, home, windows=False) == str(there)


def test_the_setting_goes_first_and_may_name_an_environment(tmp_path):
    there, other = program(tmp_path / "env/bin/rscc"), program(tmp_path / "path/rscc")
    variables = {"PATH": str(other.parent)}
    for named in (there, there.parent, tmp_path / "env"):
        assert find_command(f" {named} ", variables, tmp_path, windows=False) == str(there)
    with pytest.raises(CommandMissing):
        find_command(str(tmp_path / "gone"), variables, tmp_path, windows=False)


def test_windows_has_other_names_and_the_current_folder_is_never_looked_at(tmp_path, monkeypatch):
    there = program(tmp_path / "home/miniconda3/envs/a/Scripts/rscc.exe")
    assert find_command("", {}, tmp_path / "home", windows=True) == str(there)
    program(tmp_path / "rscc")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CommandMissing):
        find_command("", {"PATH": ".::", "PIPX_BIN_DIR": "."}, tmp_path / "empty", windows=False)


@pytest.mark.parametrize(
    "line", ["", "rscc: warning: x", "[1]", '{"event": 3}', "{", "[" * 100_000, '"done"']
)
def test_other_lines_are_no_events(line):
    assert read_event(line) is None


def test_progress_runs_through_the_stages_and_never_back():
    gauge = Gauge((("tiles", 80), ("captions", 100)))
    told = [("tiles", 1, 2), ("captions", 1, 2), ("tiles", 2, 2), ("other", 9, 9), ("captions", 2, 2)]
    percents = [gauge.update({"stage": stage, "done": done, "total": total}) for stage, done, total in told]
    assert percents == [40, 90, 90, 90, 100]


@pytest.mark.parametrize(
    ("stage", "done", "total"),
    [
        (["tiles"], 1, 1),
        ("tiles", "1", 2),
        ("tiles", 3, 0),
        ("tiles", -1, 2),
        ("tiles", 3, 2),
        (None, 1, None),
    ],
)
def test_progress_without_sense_changes_nothing(stage, done, total):
    assert Gauge((("tiles", 100),)).update({"stage": stage, "done": done, "total": total}) == 0


def test_texts_of_others_are_shown_on_one_line():
    assert plain("a\x1b[2J\nb\u202e") == "a [2J b"


def told(path, arguments=(), cancelled=lambda: False, **options):
    events, lines = [], []
    result = run(
        path, arguments, on_event=events.append, on_line=lines.append, cancelled=cancelled, **options
    )
    return result, events, lines


def test_a_run_tells_its_events_and_its_result(tmp_path):
    code = (
        "import sys\n"
        "print('a b', sys.argv[1:])\n"
        'print(\'noise\', \'{"event": "warning", "message": "é"}\', file=sys.stderr, sep=\'\\n\')\n'
        'print(\'{"event": "done", "changes": 2}\', file=sys.stderr)\n'
        "sys.exit(3)\n"
    )
    path = program(tmp_path / "rscc", code)
    result, events, lines = told(path, ["x; touch y", "--z"], accepted=(0, 3))
    assert (result.code, result.facts["changes"]) == (3, 2)
    assert result.output == "a b ['x; touch y', '--z']\n"
    assert events == [{"event": "warning", "message": "é"}] and lines == ["noise"]
    with pytest.raises(RunFailed):
        told(path)


def test_an_error_is_what_the_command_says(tmp_path):
    code = 'import sys; sys.exit(\'{"event": "error", "message": "b.tif: no raster", "exit_code": 2}\')'
    with pytest.raises(RunFailed):
        told(program(tmp_path / "rscc", code))
    with pytest.raises(CommandMissing):
        told(tmp_path / "gone")


@pytest.mark.parametrize("deaf", [False, True])
def test_a_stopped_run_is_gone(tmp_path, monkeypatch, deaf):
    monkeypatch.setattr(command, "_GRACE", 0.3)
    ignore = "signal.signal(signal.SIGINT, signal.SIG_IGN)" if deaf else "pass"
    code = (
        "import os, signal, sys, time\n"
        f"{ignore}\n"
        'sys.stderr.write(\'{"event": "notice", "message": "%d"}\\n\' % os.getpid())\n'
        "sys.stderr.flush()\n"
        "time.sleep(600)\n"
    )
    events = []
    with pytest.raises(Cancelled):
        run(
            program(tmp_path / "rscc", code), (), on_event=events.append, on_line=print,
            cancelled=lambda: bool(events),
        )  # fmt: skip
    with pytest.raises(ProcessLookupError):
        os.kill(int(events[0]["message"]), 0)


def test_the_plugin_needs_nothing_but_qgis_and_installs_nothing():
    known = {*sys.stdlib_module_names, "qgis", "processing"}
    for path in FOLDER.glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 9))
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and node.level == 0 else []
            assert {name.partition(".")[0] for name in names} <= known, path.name


def test_the_zip_is_small_and_the_same_each_time(tmp_path):
    first, second = write_zip(tmp_path / "a.zip"), write_zip(tmp_path / "b.zip")
    assert len({hashlib.sha256(path.read_bytes()).digest() for path in (first, second)}) == 1
    assert first.stat().st_size < MOST_BYTES / 10
    with zipfile.ZipFile(first) as archive:
        names = archive.namelist()
    assert names == [path.relative_to(FOLDER.parent).as_posix() for path in plugin_files()]
    assert {"rscc_changes/metadata.txt", "rscc_changes/__init__.py", "rscc_changes/LICENSE"} <= set(names)
    assert not [name for name in names if "cache" in name]

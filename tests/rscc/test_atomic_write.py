"""A file or folder is there whole or not at all, whatever stops its writer."""

import gzip
import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from rscc.files import atomic_write, parsed_json, read_file, temporary_folder


def write(draft, text, name=""):
    """Write a file, or a folder with one where the name says so."""
    if "folder" in (name or draft.name):
        draft.mkdir()
        draft /= "content"
    draft.write_text(text)


def contents(folder):
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["file", "folder"])
@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_a_writer_that_raises_midway_changes_nothing(tmp_path, name, error):
    write(tmp_path / name, "old")
    before = contents(tmp_path)
    with pytest.raises(error), atomic_write(tmp_path / "first", tmp_path / name) as (first, second):
        write(first, "half")
        write(second, "half", name)
        raise error
    assert contents(tmp_path) == before
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["file", "folder"])
def test_nothing_has_its_name_before_everything_is_written(tmp_path, name):
    write(tmp_path / name, "old")
    with atomic_write(tmp_path / "first", tmp_path / name) as (first, second):
        write(first, "new")
        write(second, "new", name)
        assert not (tmp_path / "first").exists()
        assert "old" in contents(tmp_path).values()
    assert set(contents(tmp_path).values()) == {"new"}
    assert {path.name for path in tmp_path.iterdir()} == {"first", name}


def test_the_disk_has_every_file_before_the_first_has_its_name(tmp_path, monkeypatch):
    steps = []
    for name in ("fsync", "replace"):
        own = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a, name=name, own=own: (steps.append(name), own(*a)))
    with atomic_write(tmp_path / "a", tmp_path / "b") as drafts:
        for draft in drafts:
            draft.write_text("new")
    assert steps == ["fsync", "fsync", "replace", "replace"]


def kill(code, folder):
    """Run Python code in ``folder`` that kills itself."""
    code = f"import os, signal; from pathlib import Path; from rscc.files import *\n{code}"
    assert subprocess.run([sys.executable, "-c", code], cwd=folder).returncode == -signal.SIGKILL


DIE = "os.kill(os.getpid(), signal.SIGKILL)"


def test_what_killed_writers_left_is_removed_and_that_of_living_ones_is_not(tmp_path):
    kill(f"with atomic_write(Path('a')) as (draft,): draft.write_text('half'); {DIE}", tmp_path)
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".rscc-")
    (tmp_path / ".rscc-emptied.tmp").mkdir()  # by a writer that was killed before it removed it
    with temporary_folder(tmp_path) as living, atomic_write(tmp_path / "a") as (draft,):
        draft.write_text("new")
        assert {path.name for path in tmp_path.iterdir()} == {living.name, draft.parent.name}
    assert contents(tmp_path) == {"a": "new"}


def test_folders_of_people_with_names_of_temporary_ones_stay(tmp_path):
    for name in (".rscc-mine", ".a.tmp", ".rscc-new-x.tmp", ".rscc-x.tmp"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mine").write_text("mine")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / ".rscc-lock").touch()
    (outside / "mine").write_text("mine")
    (tmp_path / ".rscc-link").symlink_to(outside)
    (tmp_path / ".rscc-mine" / ".rscc-lock").symlink_to(outside / "mine")
    (tmp_path / ".rscc-dead").mkdir()
    (tmp_path / ".rscc-dead" / ".rscc-lock").touch()
    (tmp_path / ".rscc-dead" / "0.old").symlink_to(outside)
    with atomic_write(tmp_path / "a") as (draft,):
        draft.write_text("new")
    assert [*contents(tmp_path).values()].count("mine") == 6


@pytest.mark.parametrize("since", ["", "newer"])
def test_a_folder_that_a_killed_writer_was_replacing_comes_back_unless_there_is_one(tmp_path, since):
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "content").write_text("old")
    rename = f"own = Path.replace; Path.replace = lambda a, b: own(a, b) if 'old' in str(b) else {DIE}"
    kill(f"{rename}\nwith atomic_write(Path('pages')) as (draft,): draft.mkdir()", tmp_path)
    assert not (tmp_path / "pages").exists()
    if since:
        (tmp_path / "pages").mkdir()
        (tmp_path / "pages" / "content").write_text(since)
    with temporary_folder(tmp_path):
        pass
    assert contents(tmp_path) == {"pages/content": since or "old"}


def test_several_writers_of_one_file_leave_one_of_their_texts(tmp_path):
    with ExitStack() as stack:
        for text in ("a", "b", "c"):
            (draft,) = stack.enter_context(atomic_write(tmp_path / "file"))
            draft.write_text(text)
    assert contents(tmp_path) == {"file": "a"}


def test_an_old_folder_comes_back_where_its_successor_cannot_have_its_name(tmp_path, monkeypatch):
    write(tmp_path / "folder", "old")
    own = Path.replace

    def refused(source, target):
        if target.name == "folder" and source.name == "0":
            raise OSError("no")
        return own(source, target)

    monkeypatch.setattr(Path, "replace", refused)
    with pytest.raises(OSError), atomic_write(tmp_path / "folder") as (draft,):
        write(draft, "new", "folder")
    assert contents(tmp_path) == {"folder/content": "old"}


def test_a_file_is_read_up_to_a_limit_and_never_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(2**40)
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(bytes(10**6)))
    for name in ("pipe", "zero", "sparse", "bomb.gz", ".", "none"):
        with pytest.raises(OSError):
            read_file(tmp_path / name, 1000)
    (tmp_path / "small.gz").write_bytes(gzip.compress(b"text"))
    assert read_file(tmp_path / "small.gz", 4) == b"text"


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1e400}',
        f"[{'9' * 400}.0]",
        "[-1E+999]",
        f"[{'1' * 250}e99]",
        f"[{'{},' * 3_500_001}{{}}]",
        f"[{'1,' * 24_000_001}1]",
    ],
    ids=["1e400", "digits", "negative", "both", "objects", "values"],
)
def test_json_of_infinite_numbers_or_millions_of_values_is_refused(text):
    with pytest.raises(ValueError):
        parsed_json(text)


def test_numbers_that_only_look_infinite_are_read():
    assert parsed_json('["1e400", 1e-400, 1e300]') == ["1e400", 0.0, 1e300]


@pytest.mark.parametrize("as_bytes", [False, True])
@pytest.mark.parametrize(
    "text", [r'["\ud800"]', r'{"\uDFFF": 1}', r'["\udc00\ud800"]', "[NaN]", "[" * 100_000, "["]
)
def test_json_that_no_file_could_hold_again_is_none(text, as_bytes):
    with pytest.raises(ValueError):
        parsed_json(text.encode() if as_bytes else text)

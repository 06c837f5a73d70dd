"""A file or folder is there whole or not at all, whatever stops its writer."""

import os

import pytest

from rscc.files import atomic_write, parsed_json


def write(draft, text):
    """Write a file, or a folder with one where the name says so."""
    if "folder" in draft.name:
        draft.mkdir()
        draft /= "content"
    draft.write_text(text)


def contents(folder):
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("name", ["file", "folder"])
@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_a_writer_that_raises_midway_changes_nothing(tmp_path, name, error, alone):
    write(tmp_path / name, "old")
    before = contents(tmp_path)
    with pytest.raises(error), atomic_write(tmp_path / "first", tmp_path / name, alone=alone) as drafts:
        for draft in drafts:
            write(draft, "half")
        raise error
    assert contents(tmp_path) == before
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["file", "folder"])
def test_nothing_has_its_name_before_everything_is_written(tmp_path, name):
    write(tmp_path / name, "old")
    with atomic_write(tmp_path / "first", tmp_path / name) as drafts:
        for draft in drafts:
            write(draft, "new")
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


def test_a_first_name_that_is_missing_leaves_the_others(tmp_path):
    with pytest.raises(FileNotFoundError), atomic_write(tmp_path / "a", tmp_path / "b") as (_, second):
        second.write_text("new")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["file", "folder"])
def test_what_a_killed_writer_left_is_taken_away(tmp_path, name):
    with atomic_write(tmp_path / name, alone=True) as (leftover,):
        write(leftover, "new")
    write(leftover, "of a killed run")
    with atomic_write(tmp_path / name, alone=True) as (draft,):
        assert draft == leftover and not draft.exists()
        write(draft, "newer")
    assert set(contents(tmp_path).values()) == {"newer"}


def test_an_old_folder_comes_back_where_its_successor_cannot_have_its_name(tmp_path, monkeypatch):
    write(tmp_path / "folder", "old")
    own = os.replace

    def refused(source, target):
        if os.path.basename(target) == "folder" and os.fspath(source).endswith(".tmp"):
            raise OSError("no")
        own(source, target)

    monkeypatch.setattr(os, "replace", refused)
    with pytest.raises(OSError, match="no"), atomic_write(tmp_path / "folder") as (draft,):
        write(draft, "new")
    assert contents(tmp_path) == {"folder/content": "old"}


def test_two_writers_at_once_have_drafts_of_their_own(tmp_path):
    with atomic_write(tmp_path / "file") as (one,), atomic_write(tmp_path / "file") as (two,):
        one.write_text("one")
        two.write_text("two")
    assert contents(tmp_path) == {"file": "one"}


@pytest.mark.parametrize("as_bytes", [False, True])
@pytest.mark.parametrize(
    "text", [r'["\ud800"]', r'{"\uDFFF": 1}', r'["\udc00\ud800"]', "[NaN]", "[" * 100_000, "["]
)
def test_json_that_no_file_could_hold_again_is_none(text, as_bytes):
    with pytest.raises(ValueError):
        parsed_json(text.encode() if as_bytes else text)


def test_letters_of_two_halves_and_their_names_in_texts_are_json():
    assert parsed_json(rb'["\ud83c\udf33", "\\ud800"]') == ["\U0001f333", r"\ud800"]
    with pytest.raises(ValueError):
        parsed_json(b'["\xed\xa0\x80"]')

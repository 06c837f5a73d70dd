"""The promises of docs/faults.md and SECURITY.md are held by tests that are there."""

import re

import pytest

ENOUGH = 80


@pytest.fixture(scope="module")
def tests(repository):
    """The names of all test functions."""
    texts = (path.read_text(encoding="utf-8") for path in (repository / "tests").rglob("test_*.py"))
    return {name for text in texts for name in re.findall(r"^def (test_\w+)\(", text, re.M)}


@pytest.mark.parametrize(("page", "cells"), [("docs/faults.md", 4), ("SECURITY.md", 2)])
def test_every_promise_names_a_test(repository, tests, page, cells):
    text = (repository / page).read_text(encoding="utf-8")
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    promises = [row for row in rows if "---" not in row[0] and row[-1].strip() != "test"]
    assert promises
    for row in promises:
        assert len(row) == cells and all(cell.strip() for cell in row), row
        named = re.findall(r"`(test_\w+)`", row[-1])
        assert named and set(named) <= tests, row[-1]


def test_there_are_enough_faults_and_each_stands_once(repository):
    faults = re.findall(r"^\| (.+?) \|.*`test_", (repository / "docs/faults.md").read_text("utf-8"), re.M)
    assert len(faults) == len(set(faults)) >= ENOUGH

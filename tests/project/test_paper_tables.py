"""The tables of the papers in the docs: one form for all five, and every test that they name is there."""

import re
from collections import Counter

import pytest

from rscc.models import MODELS

HEAD = ["equation or option", "paper", "released code", "ours", "test"]
NAMED = re.compile(r"`(test_\w+\.py)::(test_\w+)`")


@pytest.fixture(scope="module")
def tests_by_file(repository) -> dict[str, set[str]]:
    """Names of the test functions by the name of their file."""
    files = list((repository / "tests").rglob("test_*.py"))
    assert [name for name, count in Counter(file.name for file in files).items() if count > 1] == []
    return {
        file.name: set(re.findall(r"^def (test_\w+)\(", file.read_text(encoding="utf-8"), re.M))
        for file in files
    }


def tables(text: str) -> dict[str, list[list[str]]]:
    """The rows of the tables with our head, by the title above them."""
    found = {}
    for title, section in re.findall(r"^### (.+)\n\n((?:\|.+\n)+)", text, re.M):
        head, _, *rows = ([cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines())
        if head == HEAD:
            found[title] = rows
    return found


def test_every_paper_has_a_table_and_every_row_names_tests_that_exist(repository, tests_by_file) -> None:
    by_paper = tables((repository / "docs" / "models.md").read_text(encoding="utf-8"))
    assert len(by_paper) == len(MODELS)
    for paper, rows in by_paper.items():
        assert len(rows) > 10, paper
        for row in rows:
            assert len(row) == len(HEAD) and all(row), f"{paper}: {row[0]}: an empty cell"
            assert "undeclared" not in " ".join(row)
            named = NAMED.findall(row[-1])
            assert named, f"{paper}: {row[0]}: no test"
            lost = [name for file, name in named if name not in tests_by_file.get(file, ())]
            assert lost == [], f"{paper}: {row[0]}"
        assert any("caption loss" in row[0] and "mean" in row[3] for row in rows), paper
        assert any(row[0] == "decoding" for row in rows), paper


def test_the_tests_that_other_pages_name_exist(repository, tests_by_file) -> None:
    pages = [*(repository / "docs").glob("*.md"), *repository.glob("*.md")]
    named = [(page.name, *one) for page in pages for one in NAMED.findall(page.read_text(encoding="utf-8"))]
    assert [one for one in named if one[2] not in tests_by_file.get(one[1], ())] == []

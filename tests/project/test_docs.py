"""The pages hang together, and what is generated is current."""

import importlib
import re

import pytest
import typer

from workflows.cli.commands import app

LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)")


def pages(repository):
    return [*sorted(repository.glob("*.md")), *sorted((repository / "docs").rglob("*.md"))]


@pytest.fixture
def generator(repository, monkeypatch):
    """Import one of the scripts of docs/."""
    monkeypatch.syspath_prepend(str(repository / "docs"))
    return importlib.import_module


def test_every_relative_link_leads_to_a_file_and_a_heading(repository):
    broken = []
    for page in pages(repository):
        for target, anchor in LINK.findall(page.read_text(encoding="utf-8")):
            file = page.parent / target if target else page
            if target.startswith(("http://", "https://")):
                continue
            if not file.exists() or (anchor and anchor not in anchors(file)):
                broken.append(f"{page.name}: {target}#{anchor}")
    assert broken == []


def anchors(file):
    titles = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_the_option_tables_are_those_of_the_commands(repository, generator):
    make_command = generator("make_command")
    text = make_command.PAGE.read_text(encoding="utf-8")
    listed = {block[1] for block in make_command.BLOCK.findall(text)}
    assert listed == {*typer.main.get_command(app).commands} - {"models"}
    assert make_command.page(text) == text, "run python docs/make_command.py"

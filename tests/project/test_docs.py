"""What the pages promise is there: the files they link to, the commands and options they name."""

import ast
import importlib
import re
import shlex
import subprocess

import pytest
import typer

from workflows.cli.commands import app

LINK = re.compile(r"\]\(([^)#\s]+)(?:#([^)\s]+))?\)")
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "docs")


def pages(repository):
    for name in PAGES:
        path = repository / name
        yield from sorted(path.rglob("*.md")) if path.is_dir() else [path]


def test_every_relative_link_leads_somewhere(repository):
    broken = []
    for page in pages(repository):
        for target, anchor in LINK.findall(page.read_text(encoding="utf-8")):
            if target.startswith(("http://", "https://")):
                continue
            file = page.parent / target
            if not file.exists() or (anchor and anchor not in _anchors(file)):
                broken.append(f"{page.name}: {target}#{anchor}")
    assert broken == []


def test_the_lines_of_python_in_the_readme_name_real_things(repository):
    text = (repository / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.S)
    tree = ast.parse(code)
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    assert imports
    for node in imports:
        listed = importlib.import_module(node.module).__all__
        assert {alias.name for alias in node.names} <= set(listed)


def test_every_command_line_of_the_pages_has_real_options(repository):
    commands = typer.main.get_command(app).commands
    lines = [
        (page.name, shlex.split(line.split("#")[0].split("   ")[0]))
        for page in pages(repository)
        for block in re.findall(r"```\w*\n(.*?)```", page.read_text(encoding="utf-8"), re.S)
        for line in block.replace("\\\n", " ").splitlines()
        if line.startswith("rscc ")
    ]
    assert len(lines) > 20
    for page, (_, name, *words) in lines:
        if name.startswith("-"):
            continue
        options = {option for one in commands[name].params for option in (*one.opts, *one.secondary_opts)}
        used = {word for word in words if re.match(r"--?[a-z]", word)}
        assert used <= options | {"--help"}, f"{page}: rscc {name}: {used - options}"


def test_the_option_tables_are_those_of_the_commands(repository, monkeypatch):
    monkeypatch.syspath_prepend(str(repository / "docs"))
    make_command = importlib.import_module("make_command")
    text = (repository / "docs" / "command.md").read_text(encoding="utf-8")
    listed = {block[1] for block in make_command.BLOCK.findall(text)}
    assert listed == {*typer.main.get_command(app).commands} - {"models"}
    assert make_command.page(text) == text, "run python docs/make_command.py"


def test_every_page_is_in_the_menu_of_the_site_and_nothing_else(repository):
    menu = (repository / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    listed = re.findall(r"^ +- .+: (\S+\.md)$", menu, re.M)
    assert len(listed) == len(set(listed))
    assert set(listed) == {page.name for page in (repository / "docs").rglob("*.md")}
    assert listed[0] == "index.md"


def test_links_that_leave_the_site_become_their_text_and_others_stay(repository, monkeypatch):
    monkeypatch.syspath_prepend(str(repository / "docs"))
    on_page_markdown = importlib.import_module("site_hooks").on_page_markdown
    kept = "[a](report.md#formats) ![b](images/page.webp) [c](https://x.example/y/) [d](#here)"
    assert on_page_markdown(kept) == kept
    assert on_page_markdown("see [`e.py`](../rscc/e.py) and [logs](logs/), [f](../a.md#b)") == (
        "see `e.py` and logs, f"
    )
    for page in (repository / "docs").glob("*.md"):
        for target, _ in LINK.findall(on_page_markdown(page.read_text(encoding="utf-8"))):
            inside = (page.parent / target).resolve().is_relative_to(repository / "docs")
            assert target.startswith(("http://", "https://")) or inside, f"{page.name}: {target}"


@pytest.mark.parametrize("goal", ["demo", "test", "quick", "lint", "format", "install", "docs", "clean"])
def test_make_knows_the_goals_that_its_help_and_the_pages_name(repository, goal):
    words = ["make", "--dry-run", goal]
    done = subprocess.run(words, cwd=repository, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_goals_in_the_pages_are_known(repository):
    makefile = (repository / "Makefile").read_text(encoding="utf-8")
    known = set(re.search(r"^\.PHONY: (.+)$", makefile, re.M)[1].split())
    for page in pages(repository):
        for goals in re.findall(r"`(?:\w+=\S+ )?make ([a-z ]+)`", page.read_text(encoding="utf-8")):
            assert set(goals.split()) <= known, f"{page.name}: make {goals}"


def _anchors(file):
    titles = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}

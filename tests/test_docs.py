"""What the pages promise is there: the files they link to, the commands and options they name."""

import ast
import re
import shlex
import subprocess

import pytest

LINK = re.compile(r"\]\(([^)#\s]+)(?:#([^)\s]+))?\)")
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs")


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
        public = ast.parse((repository / node.module / "__init__.py").read_text(encoding="utf-8"))
        (listed,) = [
            ast.literal_eval(assign.value)
            for assign in public.body
            if isinstance(assign, ast.Assign) and ast.unparse(assign.targets[0]) == "__all__"
        ]
        assert {alias.name for alias in node.names} <= set(listed)


def test_every_command_line_of_the_pages_has_real_options(repository):
    files = sorted((repository / "rscc").glob("cli*.py"))
    source = "\n\n".join(
        re.sub(r"^from __future__.*$", "", f.read_text(encoding="utf-8"), flags=re.M) for f in files
    )
    options = set(re.findall(r'"(--?[a-z][a-z-]*)"', source)) | {"--help"}
    options |= {"--" + name.replace("_", "-") for name in _parameters(source)}
    for page in pages(repository):
        for block in re.findall(r"```\n(.*?)```", page.read_text(encoding="utf-8"), re.S):
            for line in block.replace("\\\n", " ").splitlines():
                if line.startswith("rscc "):
                    words = shlex.split(line.split("#")[0].split("   ")[0])
                    used = {word for word in words if word.startswith("-")}
                    assert used <= options, f"{page.name}: {line}: {used - options}"


@pytest.mark.parametrize("goal", ["demo", "test", "lint", "format", "install", "clean"])
def test_make_knows_the_goals_that_its_help_and_the_pages_name(repository, goal):
    done = subprocess.run(
        ["make", "--dry-run", goal], cwd=repository, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_goals_in_the_pages_are_known(repository):
    makefile = (repository / "Makefile").read_text(encoding="utf-8")
    known = set(re.search(r"^\.PHONY: (.+)$", makefile, re.M)[1].split())
    for page in pages(repository):
        for goals in re.findall(r"`(?:\w+=\S+ )?make ([a-z ]+)`", page.read_text(encoding="utf-8")):
            assert set(goals.split()) <= known, f"{page.name}: make {goals}"


def _parameters(source):
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            yield from (argument.arg for argument in node.args.args)


def _anchors(file):
    titles = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}

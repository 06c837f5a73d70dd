"""Holds the arrows between the packages: who may know whom."""

import ast
from collections.abc import Iterator

import pytest

FORBIDDEN = {
    "tiling": {"torch", "torchvision", "timm", "rscc", "workflows"},
    "rscc": {"tiling", "workflows", "rasterio", "geopandas"},
    "workflows": set(),
}
# The files of rscc that may know the other packages, and only while a command runs.
COMMANDS = {
    "rscc/cli.py",
    "rscc/cli_archive_texts.py",
    "rscc/cli_batch.py",
    "rscc/cli_caption.py",
    "rscc/cli_evaluation.py",
    "rscc/cli_explain.py",
    "rscc/cli_inspect.py",
    "rscc/cli_medium.py",
    "rscc/cli_merge.py",
    "rscc/cli_options.py",
    "rscc/cli_pairs.py",
    "rscc/cli_status.py",
    "rscc/cli_training.py",
}
ALLOWED_IN_COMMANDS = {"tiling", "workflows"}
HEAVY = {
    "torch", "torchvision", "timm", "open_clip", "spacy", "transformers", "torchgeo",
    "numpy", "rasterio", "geopandas", "shapely", "pyproj", "scipy", "pandas", "tiling", "workflows",
}  # fmt: skip


def imports_of(source: str) -> Iterator[tuple[str, int, bool]]:
    """Yield (top-level package, line, whether importing the file leaves it alone).

    That is so inside a function, and under ``if TYPE_CHECKING``, which only the type checker reads.
    """

    def visit(node: ast.AST, inside: bool) -> Iterator[tuple[str, int, bool]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                for alias in child.names:
                    yield alias.name.split(".")[0], child.lineno, inside
            elif isinstance(child, ast.ImportFrom) and child.level == 0 and child.module:
                yield child.module.split(".")[0], child.lineno, inside
            elif _is_dynamic_import(child):
                yield child.args[0].value.split(".")[0], child.lineno, inside
            later = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            later = later or (isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING")
            yield from visit(child, inside or later)

    yield from visit(ast.parse(source), False)


def _is_dynamic_import(node: ast.AST) -> bool:
    if not (isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant)):
        return False
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    return name in {"import_module", "__import__"} and isinstance(node.args[0].value, str)


def breaches(package: str, relative: str, source: str) -> list[str]:
    found = []
    for name, line, inside in imports_of(source):
        allowed = relative in COMMANDS and inside and name in ALLOWED_IN_COMMANDS
        if name in FORBIDDEN[package] and not allowed:
            found.append(f"{relative}:{line} imports {name}")
    return found


@pytest.mark.parametrize("package", FORBIDDEN)
def test_no_package_imports_what_it_must_not_know(package, repository):
    files = sorted((repository / package).rglob("*.py"))
    assert files
    found = []
    for file in files:
        relative = file.relative_to(repository).as_posix()
        found += breaches(package, relative, file.read_text(encoding="utf-8"))
    assert found == []


@pytest.mark.parametrize(
    ("package", "file", "source", "expected"),
    [
        ("tiling", "tiling/pair.py", "import torch", ["tiling/pair.py:1 imports torch"]),
        ("tiling", "tiling/pair.py", "from rscc.errors import RsccError", ["tiling/pair.py:1 imports rscc"]),
        ("tiling", "tiling/pair.py", "from . import scene\nimport rasterio", []),
        ("rscc", "rscc/train.py", "def f():\n    import tiling", ["rscc/train.py:2 imports tiling"]),
        ("rscc", "rscc/train.py", "import rasterio.windows", ["rscc/train.py:1 imports rasterio"]),
        ("rscc", "rscc/cli.py", "def f():\n    from workflows import scene", []),
        ("rscc", "rscc/cli.py", "import workflows", ["rscc/cli.py:1 imports workflows"]),
        ("rscc", "rscc/cli.py", "if TYPE_CHECKING:\n    import workflows", []),
        ("rscc", "rscc/a.py", "if TYPE_CHECKING:\n    import tiling", ["rscc/a.py:2 imports tiling"]),
        ("rscc", "rscc/cli.py", "def f():\n    import rasterio", ["rscc/cli.py:2 imports rasterio"]),
        ("rscc", "rscc/a.py", "importlib.import_module('tiling.grid')", ["rscc/a.py:1 imports tiling"]),
    ],
)
def test_the_rule_itself(package, file, source, expected):
    assert breaches(package, file, source) == expected


def test_nothing_but_the_command_knows_workflows(repository):
    users = [
        file.relative_to(repository).as_posix()
        for package in ("rscc", "tiling")
        for file in sorted((repository / package).rglob("*.py"))
        if any(name == "workflows" for name, _, _ in imports_of(file.read_text(encoding="utf-8")))
    ]
    assert set(users) <= COMMANDS


def test_help_loads_no_heavy_module(run_python):
    loaded = run_python(
        "import contextlib, io, json, sys\n"
        "sys.argv = ['rscc', '--help']\n"
        "from rscc.cli import main\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n"
        "    main()\n"
        "print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))\n"
    )
    assert "rscc" in loaded and "typer" in loaded
    assert sorted(HEAVY & set(loaded)) == []


def test_help_is_quick(run_python):
    """0.3 s of processor time on the build machine; three tries, because others use the machine too."""
    took = min(_help_seconds(run_python) for _ in range(3))
    assert took < 0.6


def _help_seconds(run_python) -> float:
    seconds = run_python(
        "import time\n"
        "import contextlib, io, json, sys\n"
        "sys.argv = ['rscc', '--help']\n"
        "from rscc.cli import main\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n"
        "    main()\n"
        "print(json.dumps(time.process_time()))\n"
    )
    return float(seconds)

"""Arrows between the rooms: a room imports only rooms below it, and no circle of files exists."""

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

# What a package must not import, anywhere and in any form.
FORBIDDEN = {
    "tiling": {"torch", "torchvision", "timm", "rscc", "workflows"},
    "rscc": {"tiling", "workflows", "rasterio", "geopandas"},
    "workflows": {"tests", "examples", "benchmarks"},
}
# The rooms from the top down; rooms on one line form one level. A file belongs to the longest name listed
# here that is a prefix of its path, so an unlisted file or folder belongs to the lowest room.
ROOMS = {
    "workflows": """
        workflows/cli
        workflows/monitor workflows/monitor/outputs
        workflows/archive workflows/archive/workers workflows/archive/layers
        workflows/scene
        workflows/pairs
        workflows/report workflows/report/formats workflows/report/page workflows/report/qgis
        workflows
    """,
    "rscc": """
        rscc/data/torchgeo
        rscc/training
        rscc/evaluation
        rscc/trunk_memory
        rscc/captioner
        rscc/model_folder rscc/folders
        rscc/data/synthesis
        rscc/data/benchmarks
        rscc/data
        rscc/models
        rscc/facts rscc/model_card
        rscc/models/shared
        rscc/models/trunks
        rscc/text
        rscc
    """,
}
LEVELS = {
    room: level
    for rooms in ROOMS.values()
    for level, line in enumerate(rooms.split("\n"))
    for room in line.split()
}
# They hand over public names lazily, whichever room these are in.
PUBLIC = {"rscc/__init__", "rscc/__main__", "workflows/__init__", "tiling/__init__"}


@cache
def graph_of(root: Path) -> dict[str, set[str]]:
    """Return file -> files of the three packages that it imports anywhere; names without ``.py``."""
    files = {
        path.relative_to(root).with_suffix("").as_posix(): path
        for package in FORBIDDEN
        for path in (root / package).rglob("*.py")
    }

    def file_of(module: str) -> str | None:
        path = module.replace(".", "/")
        folder = path.rpartition("/")[0]
        names = (path, f"{path}/__init__", folder, f"{folder}/__init__")
        return next((name for name in names if name in files), None)

    targets = {name: {file_of(module) for module in imports_of(path)} for name, path in files.items()}
    return {name: {target for target in found if target} - {name} for name, found in targets.items()}


@cache
def imports_of(file: Path) -> list[str]:
    """Return ``module`` or ``module.name`` of every import of a file and of the stub beside it."""
    return list(_imports(file))


def _imports(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
            yield from (arg.value for arg in node.args[:1] if isinstance(arg, ast.Constant))
    if (stub := file.with_suffix(".pyi")).is_file():
        for node in ast.walk(ast.parse(stub.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                yield node.module if node.level == 0 else f"{file.parent.name}.{node.module}"


def room_of(file: str) -> str | None:
    """Return the longest name of a room that leads to a file."""
    names = (file.rsplit("/", count)[0] if count else file for count in range(file.count("/") + 1))
    return next((name for name in names if name in LEVELS), None)


@pytest.mark.parametrize("package", FORBIDDEN)
def test_no_package_imports_what_it_must_not_know(package, repository):
    wrong = [
        f"{file.relative_to(repository)} imports {module}"
        for file in (repository / package).rglob("*.py")
        if file.relative_to(repository).with_suffix("").as_posix() not in PUBLIC
        for module in imports_of(file)
        if module.split(".")[0] in FORBIDDEN[package]
    ]
    assert wrong == []


def test_every_arrow_points_down(repository):
    wrong = [
        f"{file} ({room}) -> {target}"
        for file, targets in sorted(graph_of(repository).items())
        if file not in PUBLIC and (room := room_of(file))
        for target in sorted(targets)
        if target.split("/")[0] == file.split("/")[0] and target not in PUBLIC
        if (lower := room_of(target)) != room and LEVELS[lower] < LEVELS[room]
    ]
    assert wrong == []


def test_no_circle_of_files_exists(repository):
    # What a package hands over lazily is no import of that package: nothing is loaded until it is used.
    graph = {file: targets - PUBLIC for file, targets in graph_of(repository).items() if file not in PUBLIC}
    TopologicalSorter(graph).prepare()  # its CycleError names the files of the circle

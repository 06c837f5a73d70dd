"""Holds the arrows of the house: which room may know which, no circle, and a command that starts light."""

import ast
import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from page_reports import made_report, square
from scene_pairs import make_pair

# What a whole package must not import, anywhere and in any form.
FORBIDDEN = {
    "tiling": {"torch", "torchvision", "timm", "rscc", "workflows"},
    "rscc": {"tiling", "workflows", "rasterio", "geopandas"},
    "workflows": {"tests", "examples", "benchmarks"},
}
# The rooms of each house from the top down, and what each may know of the same house. The files that lie in
# rscc/ itself are rooms of their own.
RSCC = {
    "rscc/training": {
        "rscc/evaluation",
        "rscc/data/benchmarks",
        "rscc/models",
        "rscc/data",
        "rscc/inference",
    },
    "rscc/evaluation": {"rscc/captioner", "rscc/data/benchmarks"},
    "rscc/captioner": {"rscc/model_folder", "rscc/devices"},
    "rscc/model_folder": {"rscc/inference", "rscc/models", "rscc/shipped"},
    "rscc/models": {"rscc/models/shared"},
    "rscc/inference": {"rscc/models/shared", "rscc/stored_weights", "rscc/land_cover"},
    "rscc/data/synthesis": {"rscc/data/benchmarks"},
    "rscc/data/benchmarks": {"rscc/data"},
    "rscc/data": {"rscc/models/shared", "rscc/images", "rscc/land_cover"},
    "rscc/models/shared": {"rscc/text"},
    "rscc/text": {"rscc/config", "rscc/structures", "rscc/errors"},
    "rscc/config": {"rscc/settings"},
    "rscc/settings": {"rscc/errors"},
    "rscc/devices": {"rscc/errors"},
    **{f"rscc/{name}": set() for name in ("markdown", "structures", "images", "torchvision_compat")},
    **{
        f"rscc/{name}": set()
        for name in (
            "errors",
            "files",
            "freed_memory",
            "land_cover",
            "sequences",
            "shipped",
            "stored_weights",
        )
    },
}
WORKFLOWS = {
    "workflows/cli": {"workflows/archive", "workflows/page", "workflows/scene", "workflows/pairs"},
    "workflows/page": {"workflows/inspection"},
    "workflows/archive": {"workflows/layers", "workflows/engines", "workflows/store", "workflows/inspection"},
    "workflows/inspection": {"workflows/scene"},
    "workflows/engines": {"workflows/scene"},
    "workflows/layers": {"workflows/store"},
    "workflows/store": {"workflows/pairs"},
    "workflows/scene": {"workflows/store"},
    "workflows/pairs": {"workflows/report"},
    "workflows/report": {"workflows"},
    "workflows": set(),
}
EVERYONE_MAY = {"rscc/markdown", "rscc/errors", "rscc/files", "rscc/freed_memory", "rscc/sequences"}
HEAVY = {
    "torch", "torchvision", "timm", "open_clip", "spacy", "transformers", "torchgeo",
    "numpy", "rasterio", "geopandas", "shapely", "pyproj", "scipy", "pandas", "tiling",
}  # fmt: skip


def imports_of(source: str) -> Iterator[tuple[str, int, bool]]:
    """Yield (module or module.name, line, whether importing the file leaves it alone).

    That is so inside a function, and under ``if TYPE_CHECKING``, which only the type checker reads.
    """

    def visit(node: ast.AST, inside: bool) -> Iterator[tuple[str, int, bool]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                for alias in child.names:
                    yield alias.name, child.lineno, inside
            elif isinstance(child, ast.ImportFrom) and child.level == 0 and child.module:
                for alias in child.names:
                    yield f"{child.module}.{alias.name}", child.lineno, inside
            elif _is_dynamic_import(child):
                yield child.args[0].value, child.lineno, inside
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
    names = {(name.split(".")[0], line) for name, line, _ in imports_of(source)}
    return [f"{relative}:{line} imports {name}" for name, line in sorted(names) if name in FORBIDDEN[package]]


@pytest.mark.parametrize("package", FORBIDDEN)
def test_no_package_imports_what_it_must_not_know(package, repository):
    files = sorted((repository / package).rglob("*.py"))
    assert files
    for file in files:
        relative = file.relative_to(repository).as_posix()
        assert breaches(package, relative, file.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("package", "file", "source", "expected"),
    [
        ("tiling", "tiling/pair.py", "import torch", ["tiling/pair.py:1 imports torch"]),
        ("tiling", "tiling/pair.py", "from rscc.errors import RsccError", ["tiling/pair.py:1 imports rscc"]),
        ("tiling", "tiling/pair.py", "from . import scene\nimport rasterio", []),
        ("rscc", "rscc/a.py", "def f():\n    import tiling", ["rscc/a.py:2 imports tiling"]),
        ("rscc", "rscc/a.py", "import rasterio.windows", ["rscc/a.py:1 imports rasterio"]),
        ("rscc", "rscc/__main__.py", "import workflows", ["rscc/__main__.py:1 imports workflows"]),
        ("rscc", "rscc/a.py", "if TYPE_CHECKING:\n    import tiling", ["rscc/a.py:2 imports tiling"]),
        ("rscc", "rscc/a.py", "importlib.import_module('tiling.grid')", ["rscc/a.py:1 imports tiling"]),
        ("workflows", "workflows/a.py", "from tests import b", ["workflows/a.py:1 imports tests"]),
    ],
)
def test_the_rule_itself(package, file, source, expected):
    assert breaches(package, file, source) == expected


@cache
def graph_of(root: Path) -> dict[str, set[str]]:
    """Return file -> files that it imports, anywhere in it, of the three packages; names without ``.py``."""
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

    graph: dict[str, set[str]] = {}
    for name, path in files.items():
        modules = [module for module, _, _ in imports_of(path.read_text(encoding="utf-8"))]
        if (public := path.with_suffix(".pyi")).is_file():  # what the package brings when it is asked
            body = ast.parse(public.read_text(encoding="utf-8")).body
            modules += [f"{path.parent.name}.{one.module}" for one in body if isinstance(one, ast.ImportFrom)]
        targets = set(map(file_of, modules))
        graph[name] = {target for target in targets if target is not None} - {name}
    return graph


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Return the groups of files each of which can be reached from each other one."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            new = graph[waiting.pop()] - seen
            seen |= new
            waiting += new
        return seen

    reach = {name: reached(name) for name in graph}
    groups = {
        tuple(sorted(other for other in reach[name] if name in reach[other]))
        for name in graph
        if name in reach[name]
    }
    return sorted(map(list, groups))


def room_of(file: str) -> str:
    folder = file.rpartition("/")[0]
    return file if folder == "rscc" else folder


def below(rooms: dict[str, set[str]], room: str) -> set[str]:
    """Return all rooms that an arrow, or several in a row, lead to."""
    return set().union(*(({lower} | below(rooms, lower)) for lower in rooms[room]))


def upward(graph: dict[str, set[str]]) -> list[str]:
    """Return the imports between rooms of one house that no arrow allows."""
    wrong = []
    for rooms in (RSCC, WORKFLOWS):
        allowed = {room: below(rooms, room) | {room} | EVERYONE_MAY for room in rooms}
        for file, targets in sorted(graph.items()):
            if room_of(file) not in rooms or (file.endswith("__init__") and file.count("/") == 1):
                continue
            for target in sorted(targets):
                room = room_of(target)
                if room in rooms and room not in allowed[room_of(file)]:
                    wrong.append(f"{file} -> {target}")
    return wrong


@pytest.mark.slow
def test_every_room_is_known(repository):
    rooms = {room_of(file) for file in graph_of(repository) if not file.startswith("tiling")}
    assert rooms - {"rscc/__init__", "rscc/__main__"} == {*RSCC, *WORKFLOWS}


@pytest.mark.slow
def test_every_arrow_points_down_and_no_file_imports_itself_by_way_of_others(repository):
    graph = graph_of(repository)
    assert upward(graph) == []
    assert circles(graph) == []


def test_a_circle_and_an_arrow_up_are_found(tmp_path):
    for name, text in {
        "rscc/text/a.py": "from rscc.text import b",
        "rscc/text/b.py": "def f():\n    from rscc.training.c import g",
        "rscc/training/c.py": "import rscc.text.a",
        "workflows/report/d.py": "if TYPE_CHECKING:\n    from workflows.scene.e import h",
        "workflows/scene/e.py": "import rscc",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    graph = graph_of(tmp_path)
    assert circles(graph) == [["rscc/text/a", "rscc/text/b", "rscc/training/c"]]
    assert upward(graph) == ["rscc/text/b -> rscc/training/c", "workflows/report/d -> workflows/scene/e"]


# What a run of `rscc caption` needs and what only other formats, other trunks and other commands need.
NEEDED = {"torch", "safetensors", "numpy", "rasterio", "pyproj", "shapely", "tiling", "rscc", "workflows"}
NOT_NEEDED = {
    *(
        "torchvision",
        "timm",
        "torch._dynamo",
        "torch.onnx",
        "sympy",
        "open_clip",
        "spacy",
        "transformers",
        "peft",
    ),
    *(
        "geopandas",
        "pandas",
        "pyogrio",
        "pyarrow",
        "sklearn",
        "pystac",
        "matplotlib",
        "PIL",
        "dask",
        "torchgeo",
    ),
    *(
        "rscc.training",
        "rscc.evaluation",
        "rscc.data",
        "workflows.archive",
        "workflows.page",
        "workflows.layers",
    ),
}


def loaded_by(run_python: Callable[..., list[str]], *commands: list[object]) -> set[str]:
    """Run commands in one fresh interpreter and return the names of all modules that are there then."""
    words = [[str(word) for word in command] for command in commands]
    return set(
        run_python(
            "import contextlib, io, json, sys\n"
            "from workflows.cli.app import main\n"
            f"for words in {words!r}:\n"
            "    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n"
            "        main(words)\n"
            "print(json.dumps(sorted(sys.modules)))\n"
        )
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "spots"), [("rscc-base", []), ("rscc-base", [(20, 20, 60, 60, 240)]), ("rscc-small", [])]
)
def test_a_caption_loads_what_it_needs_and_no_more(model, spots, tmp_path, run_python):
    pair, report = make_pair(tmp_path, spots, size=(128, 128)), tmp_path / "o.geojson"
    words = ["caption", pair.before, pair.after, "--output", report, "--quiet", "--model", model]
    loaded = loaded_by(run_python, words)
    assert bool(json.loads(report.read_text())["features"]) == bool(spots)
    assert sorted(NEEDED - loaded) == []
    assert sorted(NOT_NEEDED & loaded) == []


def test_help_loads_no_heavy_module(run_python):
    loaded = {name.split(".")[0] for name in loaded_by(run_python, ["--help"])}
    assert "workflows" in loaded and "typer" in loaded
    assert sorted(HEAVY & loaded) == []


def test_commands_that_look_at_no_pixel_load_nothing_that_does(tmp_path, run_python):
    report, other, project = (tmp_path / name for name in ("o.geojson", "p.geojson", "p.qgz"))
    made_report(make_pair(tmp_path, []), [square(1, 5, 5, 20)]).write(report)
    loaded = loaded_by(run_python, ["convert", report, other], ["qgis", report, "--output", project])
    assert other.is_file() and project.is_file()
    assert sorted({"torch", "scipy", "skimage", "pandas", "pyogrio", "sklearn", "PIL"} & loaded) == []


@pytest.mark.slow
def test_who_leads_the_workers_of_an_archive_loads_no_network(tmp_path, run_python):
    """Its workers load torch, two seconds and 200 MB; it has no use for that itself."""
    pair = make_pair(tmp_path, [(20, 20, 60, 60, 240)], size=(128, 128))
    table, out, page = tmp_path / "pairs.csv", tmp_path / "out", tmp_path / "page.html"
    table.write_text(f"before,after\n{pair.before},{pair.after}\n")
    words = ["batch", table, "--out", out, "--workers", "1", "--quiet", "--model", "rscc-small"]
    loaded = loaded_by(run_python, words)
    assert (out / "changes.gpkg").is_file()
    assert "workflows.archive.run" in loaded
    assert sorted({"torch", "rscc.captioner", "scipy", "skimage"} & loaded) == []
    # Where there is nothing to do no layer is written either, and none is for the state.
    loaded = loaded_by(run_python, words, ["status", out, "--html", page])
    assert page.is_file()
    assert sorted({"torch", "scipy", "pandas", "pyogrio"} & loaded) == []

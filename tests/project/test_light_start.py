"""What a command loads: ``--help`` nothing heavy, and each other command only what it uses."""

import json
from collections.abc import Callable

import pytest
from pages import made_report, square
from scene_pairs import make_pair

HEAVY = {
    "torch", "torchvision", "timm", "open_clip", "spacy", "transformers", "torchgeo",
    "numpy", "rasterio", "geopandas", "shapely", "pyproj", "scipy", "pandas", "tiling",
}  # fmt: skip
# What only other formats, other trunks and other commands need than `rscc caption`.
NOT_NEEDED = {
    "torchvision", "timm", "torch._dynamo", "torch.onnx", "sympy", "open_clip", "spacy", "transformers",
    "peft", "geopandas", "pandas", "pyogrio", "pyarrow", "sklearn", "pystac", "matplotlib", "PIL", "dask",
    "torchgeo", "rscc.training", "rscc.evaluation", "rscc.data", "workflows.archive",
}  # fmt: skip


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


def test_help_loads_no_heavy_module(run_python):
    loaded = {name.split(".")[0] for name in loaded_by(run_python, ["--help"])}
    assert "typer" in loaded
    assert sorted(HEAVY & loaded) == []


@pytest.mark.slow
def test_caption_loads_no_module_that_it_does_not_use(tmp_path, run_python):
    pair, report = make_pair(tmp_path, [(30, 30, 30, 50, 240)], size=(128, 128)), tmp_path / "o.geojson"
    loaded = loaded_by(run_python, ["caption", pair.before, pair.after, "--output", report, "--quiet"])
    assert json.loads(report.read_text())["features"]
    assert sorted(NOT_NEEDED & loaded) == []


@pytest.mark.slow
def test_commands_that_read_no_pixel_load_no_network(tmp_path, run_python):
    report, other, project = (tmp_path / name for name in ("o.geojson", "p.geojson", "p.qgz"))
    made_report(make_pair(tmp_path, []), [square(1, 5, 5, 20)]).write(report)
    loaded = loaded_by(run_python, ["convert", report, other], ["qgis", report, "--output", project])
    assert other.is_file() and project.is_file()
    assert sorted({"torch", "scipy", "skimage", "sklearn"} & loaded) == []


@pytest.mark.slow
def test_the_process_that_leads_the_workers_of_an_archive_loads_no_network(tmp_path, run_python):
    pair = make_pair(tmp_path, [(30, 30, 30, 50, 240)], size=(128, 128))
    table, out = tmp_path / "pairs.csv", tmp_path / "out"
    table.write_text(f"before,after\n{pair.before},{pair.after}\n")
    words = ["batch", table, "--out", out, "--workers", "1", "--quiet", "--model", "rscc-small"]
    loaded = loaded_by(run_python, words, ["status", out])
    assert (out / "changes.gpkg").is_file()
    assert sorted({"torch", "rscc.captioner"} & loaded) == []

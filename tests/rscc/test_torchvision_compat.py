import importlib.util
import sys
from pathlib import Path

import pytest

from rscc import torchvision_compat
from rscc.torchvision_compat import TorchvisionFinder, declare_missing_operators, install

COMPILED_LIBRARY_WORKS = """
import json, sys, tempfile, pathlib
folder = pathlib.Path(tempfile.mkdtemp())
package = folder / "torchvision"
package.mkdir()
(package / "__init__.py").write_text("import torch\\nhas_nms = hasattr(torch.ops.torchvision, 'nms')\\n")
import importlib.machinery
(package / ("_C" + importlib.machinery.EXTENSION_SUFFIXES[0])).write_bytes(b"")
sys.path.insert(0, str(folder))
import rscc
import torch
loaded = []
def load_library(path):
    loaded.append(pathlib.Path(path).parent == package)
    {load}
torch.ops.load_library = load_library
import torchvision
print(json.dumps({{
    "loaded": loaded,
    "has_nms": torchvision.has_nms,
    "loader": type(torchvision.__loader__).__name__,
    "spec_loader": type(torchvision.__spec__.loader).__name__,
}}))
"""


def test_importing_rscc_imports_no_torch(run_python):
    heavy = run_python(
        "import json, sys, rscc\n"
        "print(json.dumps([n for n in ('torch', 'torchvision', 'numpy', 'rasterio') if n in sys.modules]))"
    )
    assert heavy == []


@pytest.mark.slow
def test_timm_and_open_clip_import_after_rscc(run_python):
    names = run_python(
        "import json, rscc, timm, torchvision\n"
        "from torchvision.transforms import v2\n"
        "print(json.dumps([timm.__name__, type(torchvision.__loader__).__name__, v2.Resize.__name__]))"
    )
    assert names == ["timm", "SourceFileLoader", "Resize"]


@pytest.mark.slow
def test_nothing_is_declared_when_the_compiled_library_loads(run_python):
    seen = run_python(COMPILED_LIBRARY_WORKS.format(load="pass"))
    assert seen == {
        "loaded": [True],
        "has_nms": False,
        "loader": "SourceFileLoader",
        "spec_loader": "SourceFileLoader",
    }


@pytest.mark.slow
@pytest.mark.parametrize("failure", ["OSError('undefined symbol')", "ImportError('no such library')"])
def test_operators_are_declared_before_torchvision_runs_when_its_library_does_not_load(run_python, failure):
    seen = run_python(COMPILED_LIBRARY_WORKS.format(load=f"raise {failure}"))
    assert seen["loaded"] == [True]
    assert seen["has_nms"]


@pytest.mark.slow
def test_a_broken_library_of_another_kind_is_not_hidden(run_python):
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        run_python(COMPILED_LIBRARY_WORKS.format(load="1 / 0"))


@pytest.mark.slow
def test_a_package_without_a_compiled_library_gets_both_operators_once(run_python):
    seen = run_python(
        "import json, pathlib, tempfile\n"
        "from rscc.torchvision_compat import declare_missing_operators\n"
        "folder = pathlib.Path(tempfile.mkdtemp())\n"
        "first, second = declare_missing_operators(folder), declare_missing_operators(folder)\n"
        "import torch\n"
        "try:\n"
        "    torch.ops.torchvision.nms(torch.zeros(1, 4), torch.zeros(1), 0.5)\n"
        "except NotImplementedError as error:\n"
        "    print(json.dumps([first, second, 'torchvision::nms' in str(error)]))\n"
    )
    assert seen == [["nms", "qnms"], [], True]


def test_every_other_module_is_left_to_the_other_finders_and_a_missing_torchvision_missing(monkeypatch):
    finder = TorchvisionFinder()
    assert finder.find_spec("torch", None) is None
    assert finder.find_spec("torchvision.ops", ["somewhere"]) is None
    monkeypatch.setattr(sys, "meta_path", [TorchvisionFinder()])
    assert finder.find_spec("torchvision", None) is None


def test_the_spec_still_names_the_real_file(tmp_path, monkeypatch):
    package = tmp_path / "torchvision"
    package.mkdir()
    source = package / "__init__.py"
    source.write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "torchvision", raising=False)
    monkeypatch.setattr(sys, "meta_path", [TorchvisionFinder(), *_without_ours()])
    spec = importlib.util.find_spec("torchvision")
    assert spec is not None and spec.loader is not None
    assert Path(spec.loader.get_filename("torchvision")) == source


def test_installing_twice_leaves_one_finder(monkeypatch):
    monkeypatch.setattr(sys, "meta_path", _without_ours())
    monkeypatch.delitem(sys.modules, "torchvision", raising=False)
    install()
    install()
    assert sum(isinstance(finder, TorchvisionFinder) for finder in sys.meta_path) == 1


def test_the_finder_is_in_place_after_importing_the_package():
    assert torchvision_compat.PACKAGE == "torchvision"
    assert callable(declare_missing_operators)
    assert any(isinstance(finder, TorchvisionFinder) for finder in sys.meta_path)


def _without_ours():
    return [finder for finder in sys.meta_path if not isinstance(finder, TorchvisionFinder)]

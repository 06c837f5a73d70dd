import pytest

pytestmark = pytest.mark.slow

# A torchvision whose compiled library is empty, and what becomes of ``load`` in the place of loading it.
WITH_LIBRARY = """
import importlib.machinery, json, pathlib, sys, tempfile
folder = pathlib.Path(tempfile.mkdtemp())
package = folder / "torchvision"
package.mkdir()
(package / "__init__.py").write_text("import torch\\nhas_nms = hasattr(torch.ops.torchvision, 'nms')\\n")
(package / ("_C" + importlib.machinery.EXTENSION_SUFFIXES[0])).write_bytes(b"")
sys.path.insert(0, str(folder))
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
WITHOUT_LIBRARY = """
import json, pathlib, tempfile
from rscc.torchvision_compat import declare_missing_operators
folder = pathlib.Path(tempfile.mkdtemp())
first, second = declare_missing_operators(folder), declare_missing_operators(folder)
import torch
try:
    torch.ops.torchvision.nms(torch.zeros(1, 4), torch.zeros(1), 0.5)
except NotImplementedError as error:
    print(json.dumps([first, second, "torchvision::nms" in str(error)]))
"""
CASES = {
    "loads": WITH_LIBRARY.format(load="pass"),
    "undefined symbol": WITH_LIBRARY.format(load="raise OSError('undefined symbol')"),
    "no such library": WITH_LIBRARY.format(load="raise ImportError('no such library')"),
    "broken": WITH_LIBRARY.format(load="1 / 0"),
    "none": WITHOUT_LIBRARY,
}
# Each case in a fork of a process that has imported rscc and torch, and not yet torchvision.
ALL_CASES = f"""
import json, os, sys
import rscc, torch
assert "torchvision" not in sys.modules
told = {{}}
for name, code in {CASES!r}.items():
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.dup2(writing, 1)
        try:
            exec(code, {{}})
        except Exception as error:
            print(json.dumps(type(error).__name__))
        sys.stdout.flush()
        os._exit(0)
    os.close(writing)
    with open(reading) as pipe:
        told[name] = json.load(pipe)
    os.wait()
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def told(run_python):
    """What each case printed, or the name of the error that it ended with."""
    return run_python(ALL_CASES)


def test_nothing_is_declared_when_the_compiled_library_loads(told):
    assert told["loads"] == {
        "loaded": [True],
        "has_nms": False,
        "loader": "SourceFileLoader",
        "spec_loader": "SourceFileLoader",
    }


@pytest.mark.parametrize("failure", ["undefined symbol", "no such library"])
def test_operators_are_declared_before_torchvision_runs_when_its_library_does_not_load(told, failure):
    assert told[failure]["loaded"] == [True]
    assert told[failure]["has_nms"]

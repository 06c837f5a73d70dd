import importlib
import re
import tomllib

import pytest

import rscc

PACKAGES = ("rscc", "tiling", "workflows")


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_exists_and_is_listed_once(package):
    module = importlib.import_module(package)
    names = list(module.__all__)
    assert len(names) == len(set(names))
    for name in names:
        assert getattr(module, name) is not None
        assert name in dir(module)


def test_public_things_have_docstrings_and_others_are_attribute_errors():
    for name in rscc.__all__:
        assert getattr(rscc, name).__doc__, name
    with pytest.raises(AttributeError, match="captioneer"):
        rscc.captioneer  # noqa: B018


def test_the_version_is_that_of_the_project_file_and_known_to_the_changelog(repository):
    project = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert rscc.__version__ == project["version"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", rscc.__version__)
    assert f"## {rscc.__version__}" in (repository / "CHANGELOG.md").read_text(encoding="utf-8")

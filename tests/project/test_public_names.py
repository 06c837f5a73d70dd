"""Every public name exists and is documented; the version is the same everywhere."""

import importlib
import tomllib

import pytest

import rscc


@pytest.mark.parametrize("package", ["rscc", "tiling", "workflows"])
def test_every_public_name_exists_and_is_listed_once(package):
    module = importlib.import_module(package)
    names = list(module.__all__)
    assert len(names) == len(set(names))
    assert set(names) <= set(dir(module))
    for name in names:
        assert getattr(module, name).__doc__, name


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError):
        rscc.captioneer  # noqa: B018


def test_the_version_is_that_of_the_project_file_and_of_the_changelog(repository):
    project = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert rscc.__version__ == project["version"]
    assert f"## {rscc.__version__}" in (repository / "CHANGELOG.md").read_text(encoding="utf-8")

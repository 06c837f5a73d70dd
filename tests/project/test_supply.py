"""What an installation brings along: pinned by hashes, under licences that fit, built and run by a test."""

from __future__ import annotations

import importlib
import json
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from scene_pairs import make_pair

PINNED = re.compile(r"^([a-z0-9][a-z0-9.-]*)==(\S+)((?: ;.*)?) \\$", re.M)
# Licence families that may be used with Apache-2.0 code.
FITTING = (
    "Apache", "MIT", "BSD", "ISC", "MPL", "Mozilla", "PSF", "Python Software Foundation", "Zlib", "CC0",
    "BSL-1.0", "0BSD", "CNRI-Python", "LLVM-exception",
)  # fmt: skip


@pytest.fixture(scope="module")
def lock(repository):
    return (repository / "requirements" / "lock.txt").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def licences(repository):
    """Package -> licence, from the table of docs/licences.md."""
    text = (repository / "docs" / "licences.md").read_text(encoding="utf-8").partition("## Packages")[2]
    rows = re.findall(r"^\| [a-z]+ \| (.+?) \| (.+?) \|$", text, re.M)
    return {name: licence for licence, names in rows for name in names.split(", ")}


def test_the_lock_pins_every_package_by_hashes_and_names_no_host(lock):
    pins = PINNED.findall(lock)
    assert len(pins) > 40
    for entry in re.split(r"\n(?=[a-z0-9])", lock)[1:]:
        assert re.search(r"--hash=sha256:[0-9a-f]{64}\b", entry), entry.partition("\n")[0]
    assert len(re.findall(r"^[a-z0-9]", lock, re.M)) == len(pins), "a line that pins nothing"
    assert not re.search(r"://|--(extra-)?index-url|--find-links|--trusted-host|@ ", lock)
    assert not [name for name, pin, _ in pins if "+" in pin], "a local build"


def test_the_lock_fits_the_project_file(lock, repository):
    project = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pins = {name: pin for name, pin, _ in PINNED.findall(lock)}
    for need in map(Requirement, project["dependencies"]):
        pin = pins[canonicalize_name(need.name)]
        assert need.specifier.contains(pin), f"{need} is locked at {pin}; run make lock"


@pytest.mark.slow
def test_the_page_of_licences_is_current(repository, licences, monkeypatch):
    monkeypatch.syspath_prepend(str(repository / "docs"))
    make_licences = importlib.import_module("make_licences")
    needed = make_licences.needed_by()
    assert len(needed) > 100
    assert set(needed) <= set(licences), "run python docs/make_licences.py"
    for name in needed:
        with suppress(PackageNotFoundError):  # of an extra that this environment lacks
            assert licences[name] == make_licences.licence_of(name), f"{name}: run docs/make_licences.py"


def test_every_licence_is_compatible_with_apache_2(licences):
    assert len(licences) > 100
    for name, licence in licences.items():
        for part in re.split(r" AND | OR | WITH |, ", licence):
            assert any(word in part for word in FITTING), f"{name}: {licence}"
        assert not re.search(r"\bA?L?GPL|Affero", licence), f"{name}: {licence}"


@pytest.fixture(scope="module")
def built(repository, tmp_path_factory):
    """A source archive of the tracked files, and the wheel that is built from that archive."""
    folder = tmp_path_factory.mktemp("built")
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=repository, capture_output=True, text=True, check=False
    )
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    for name in filter(None, listed.stdout.split("\0")):
        if (repository / name).is_file() and not name.startswith(("tests/", "docs/", "benchmarks/")):
            target = folder / "source" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(repository / name, target)
    sdist = _build(folder / "source", "sdist", folder / "dist")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    (unpacked,) = (folder / "unpacked").iterdir()
    return sdist, _build(unpacked, "wheel", folder / "dist")


def _build(source: Path, kind: str, target: Path) -> Path:
    target.mkdir(exist_ok=True)
    code = f"from setuptools import build_meta as b; print(b.build_{kind}({str(target)!r}))"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], cwd=source, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return target / done.stdout.splitlines()[-1]


@pytest.mark.slow
def test_the_wheel_holds_the_packages_their_data_and_the_licence_and_nothing_else(built, repository):
    _, wheel = built
    names = set(zipfile.ZipFile(wheel).namelist())
    info = f"rscc-{version('rscc')}.dist-info"
    assert {name.split("/")[0] for name in names} == {"rscc", "tiling", "workflows", info}
    assert f"{info}/licenses/LICENSE" in names
    for package in ("rscc", "tiling", "workflows"):
        listed = subprocess.run(
            ["git", "ls-files", package], cwd=repository, capture_output=True, text=True, check=True
        )
        assert set(listed.stdout.split()) <= names


@pytest.mark.slow
def test_the_wheel_installs_into_an_empty_environment_and_captions_there(built, lock, tmp_path):
    _, wheel = built
    place = tmp_path / "installed"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
    python = place / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", "--quiet"]
    subprocess.run([*pip, "--no-cache-dir", wheel], check=True, capture_output=True)
    # This environment lends what the base install consists of: nothing of an extra, and not the source tree.
    (site,) = (place / "lib").glob("python*/site-packages")
    for name, *_ in PINNED.findall(lock):
        with suppress(PackageNotFoundError):
            for part in {file.parts[0] for file in distribution(name).files or ()} - {"..", "__pycache__"}:
                if not (site / part).exists():
                    (site / part).symlink_to(Path(sysconfig.get_paths()["purelib"], part))
    make_pair(tmp_path, [(40, 50, 30, 50, 240)])
    environment = {"PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1", "HOME": str(tmp_path)}

    def run(*words):
        return subprocess.run(
            words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )

    where = run(
        python, "-c", "import rscc, tiling, workflows as w; print(rscc.__file__, tiling.__file__, w.__file__)"
    )
    assert where.stdout.count(str(site)) == 3, where.stderr
    rscc = place / "bin" / "rscc"
    assert run(rscc, "--version").stdout == f"rscc {version('rscc')}\n"
    done = run(rscc, "caption", "before.tif", "after.tif", "--model", "rscc-small", "-o", "out.geojson")
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "out.geojson").read_text())["rscc"]["model"]["name"] == "rscc-small"
    verified = run(rscc, "verify", "out.geojson")
    assert (verified.returncode, verified.stderr) == (0, "")

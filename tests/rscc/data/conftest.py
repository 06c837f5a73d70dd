"""Small data sets and a small trunk for the tests of readers, caches and sources."""

import shutil

import pytest
from datasets import WRITERS, write_levir_cc
from tiny_models import randomise, tiny_backbone
from training_runs import quick_config

from rscc.data.benchmarks.levir_cc import LevirCC
from rscc.data.caches import PairCache
from rscc.data.pairs import FLIPS
from rscc.data.trunk_maps import store_trunk_maps


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return write_levir_cc(tmp_path_factory.mktemp("levir_cc"))


@pytest.fixture(scope="module")
def records(root):
    """The eight training pairs of the data set."""
    return LevirCC(root, "train")


@pytest.fixture
def copied_root(root, tmp_path):
    """A copy that a test may break."""
    return shutil.copytree(root, tmp_path / "levir_cc")


@pytest.fixture(scope="module")
def trunk():
    trunk = tiny_backbone().eval()
    randomise(trunk, 4)
    return trunk


@pytest.fixture
def build(trunk, tmp_path):
    """Builds a cache of features of some records in ``tmp_path``."""

    def built(records, size=64, flips=FLIPS, **how) -> PairCache:
        config = quick_config(size=size)
        return PairCache(*store_trunk_maps(trunk, records, tmp_path, config, flips=flips, **how), flips=flips)

    return built


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """One fixture of each data set, by name."""
    folder = tmp_path_factory.mktemp("benchmarks")
    return {name: write(folder / name) for name, write in WRITERS.items()}


@pytest.fixture
def copied(written, tmp_path):
    """Gives a copy of a fixture that a test may break."""
    return lambda name: shutil.copytree(written[name], tmp_path / name)

"""A small data set for trainings."""

from pathlib import Path

import pytest
from datasets import write_levir_cc


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return write_levir_cc(tmp_path_factory.mktemp("levir_cc"), train=7)

"""A few damaged folders of every kind through the whole command."""

from __future__ import annotations

import os

import pytest
from fuzz_files import fuzz

COUNT = int(os.environ.get("RSCC_FUZZ_FILES", "96"))


@pytest.mark.slow
def test_the_command_on_damaged_folders(tmp_path):
    summary = fuzz(tmp_path, range(COUNT), seed=7)
    assert summary.cases == COUNT
    assert summary.problems == {}, summary.examples
    # Damage is noticed, and not everything is noticed as damage.
    codes = {code for counts in summary.codes.values() for code in counts}
    assert {"0", "2"} <= codes

"""Fixtures for every test, and a last line on what was not tested for want of data."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

# A deadline is a timed assertion: it fails where the machine is busy, not where the code is wrong.
settings.register_profile("rscc", deadline=None)
settings.load_profile("rscc")

REPOSITORY = Path(__file__).resolve().parents[1]
SHARED_DATA = REPOSITORY.parent / "shared"
NO_SHARED_DATA = f"no shared data: the folder '{SHARED_DATA.name}' is not beside the repository"


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the source tree."""
    return REPOSITORY


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder with real scenes, pairs and weights beside the repository; skips where it is absent."""
    if not (SHARED_DATA / "data").is_dir():
        pytest.skip(NO_SHARED_DATA)
    return SHARED_DATA


@pytest.fixture(scope="session")
def run_python() -> Callable[..., object]:
    """Run code in a fresh interpreter and return what it printed as JSON.

    Whether an import happens can only be seen in a process that has imported nothing yet.
    """

    def run(code: str, *, warnings_are_errors: bool = False) -> object:
        options = ["-W", "error"] if warnings_are_errors else []
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [sys.executable, *options, "-c", code],
            capture_output=True,
            text=True,
            env=environment,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many tests could not run because the shared data are absent."""
    skipped = terminalreporter.stats.get("skipped", [])
    count = sum(NO_SHARED_DATA in str(report.longrepr) for report in skipped)
    if count:
        terminalreporter.write_line(f"{count} tests were skipped: {NO_SHARED_DATA}")

"""Fixtures for every test, and a last line on what was not tested for want of data."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from rscc.evaluation.metrics import CaptionScorer

# A deadline is a timed assertion: it fails where the machine is busy, not where the code is wrong.
settings.register_profile("rscc", deadline=None, max_examples=20)
settings.load_profile("rscc")

REPOSITORY = Path(__file__).resolve().parents[1]
SHARED_DATA = REPOSITORY.parent / "shared"
# As many slow tests as one that kills processes again and again, or goes from end to end, takes the time of.
LONG = 10
NO_SHARED_DATA = f"no shared data: the folder '{SHARED_DATA.name}' is not beside the repository"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a longer run kill more often."""
    parser.addoption("--kill-cycles", type=int, default=3, help="how often each kill test kills (3)")


def pytest_configure() -> None:
    """Hear Ctrl-C, and let child processes hear it, even where a shell in the background ignores it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest, where files are shared out: by their slow tests."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        weights = Counter(item.path for item in items if item.get_closest_marker("slow"))
        for item in items:
            is_long = item.get_closest_marker("kills") or item.path.parent.name == "e2e"
            weights[item.path] += LONG if is_long else 0
        items.sort(key=lambda item: (-weights[item.path], item.path))


@pytest.fixture(scope="session")
def kill_cycles(request: pytest.FixtureRequest) -> int:
    """How many times each kill test kills."""
    return request.config.getoption("--kill-cycles")


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the source tree."""
    return REPOSITORY


@pytest.fixture(scope="session")
def child_environment() -> dict[str, str]:
    """The environment of a process that imports the product and the helpers of the tests."""
    paths = (REPOSITORY, REPOSITORY / "tests" / "support")
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}


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


@pytest.fixture(scope="session")
def java_scorer() -> Iterator[CaptionScorer]:
    """One scorer with Java, so that METEOR starts once; skips where there is no Java."""
    if shutil.which("java") is None:
        pytest.skip("no Java for METEOR")
    from rscc.evaluation.metrics import CaptionScorer

    with CaptionScorer() as scorer:
        yield scorer


@pytest.fixture
def tiny_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trunk named "tiny", small enough to be trained by tests."""
    from tiny_models import tiny_backbone

    from rscc.models import backbones

    monkeypatch.setitem(backbones.BACKBONES, "tiny", tiny_backbone)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many tests could not run because the shared data are absent."""
    skipped = terminalreporter.stats.get("skipped", [])
    count = sum(NO_SHARED_DATA in str(report.longrepr) for report in skipped)
    if count:
        terminalreporter.write_line(f"{count} tests were skipped: {NO_SHARED_DATA}")

"""Fixtures for every test, and a last line on what was not tested for want of data."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from rscc.evaluation.metrics import CaptionScorer

# A deadline is a timed assertion: it fails where the machine is busy, not where the code is wrong.
settings.register_profile("rscc", deadline=None)
settings.load_profile("rscc")

REPOSITORY = Path(__file__).resolve().parents[1]
SHARED_DATA = REPOSITORY.parent / "shared"
# Helpers that start workers, schedulers or whole commands: the tests that use one take turns.
PROCESS_HELPERS = re.compile(r"^from (archive_commands|dask_processes) import|slow_captioner|fake_rscc", re.M)
TAKE_TURNS = "processes"
NO_SHARED_DATA = f"no shared data: the folder '{SHARED_DATA.name}' is not beside the repository"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a longer run kill more often."""
    parser.addoption("--kill-cycles", type=int, default=5, help="how often each kill test kills (5)")


def pytest_configure() -> None:
    """Hear Ctrl-C, and let child processes hear it, even where a shell in the background ignores it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Share the tests out by file, so that what a module makes is made once; those with processes take turns.

    Not by marks: the groups of pytest-xdist 3.8 have no effect with pytest 9.2.
    """
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return TAKE_TURNS if starts_processes(REPOSITORY / file) else file

    return ByFile(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest, where tests are shared out: those that take turns, then slow ones."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=lambda item: (not starts_processes(item.path), not item.get_closest_marker("slow")))


@cache
def starts_processes(file: Path) -> bool:
    """Return whether a file of tests uses one of the helpers that start processes."""
    return PROCESS_HELPERS.search(file.read_text(encoding="utf-8")) is not None


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

    from rscc.models import trunks

    monkeypatch.setitem(trunks.BACKBONES, "tiny", tiny_backbone)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many tests could not run because the shared data are absent."""
    skipped = terminalreporter.stats.get("skipped", [])
    count = sum(NO_SHARED_DATA in str(report.longrepr) for report in skipped)
    if count:
        terminalreporter.write_line(f"{count} tests were skipped: {NO_SHARED_DATA}")

from pathlib import Path

import pytest
from archive_pairs import MadeArchive, contents, make_archive
from archive_runs import run
from inline_engine import InlineEngine


@pytest.fixture
def made(tmp_path) -> MadeArchive:
    return make_archive(tmp_path, 9, each=1, breakages=("missing", "damaged"))


@pytest.fixture
def out(tmp_path) -> Path:
    return tmp_path / "out"


@pytest.fixture
def old(made, out) -> dict[str, bytes]:
    """What the archive holds once the table was run into it."""
    run(made, out, InlineEngine())
    return contents(out)

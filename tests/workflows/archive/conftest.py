import dataclasses
import shutil
from pathlib import Path

import pytest
from archive_pairs import InlineEngine, MadeArchive, contents, make_archive, run


@pytest.fixture(scope="session")
def painted(tmp_path_factory) -> MadeArchive:
    """The table and scenes that each test finds untouched, always in the same place: reports name it."""
    folder = tmp_path_factory.mktemp("painted") / "here"
    painted = make_archive(folder, 9, each=1, breakages=("missing", "damaged"))
    shutil.copytree(folder, folder.with_name("untouched"))
    return painted


def untouched(painted: MadeArchive) -> MadeArchive:
    folder = painted.table.parent
    shutil.rmtree(folder)
    shutil.copytree(folder.with_name("untouched"), folder)
    return dataclasses.replace(painted, broken=dict(painted.broken))


@pytest.fixture(scope="session")
def worked_through(painted) -> Path:
    """What the archive is once the table was run into it, to be copied."""
    out = painted.table.with_name("out")
    run(untouched(painted), out, InlineEngine())
    return out.rename(out.parent.with_name("worked_through"))


@pytest.fixture
def made(painted) -> MadeArchive:
    return untouched(painted)


@pytest.fixture
def out(made) -> Path:
    return made.table.with_name("out")


@pytest.fixture
def old(worked_through, out) -> dict[str, bytes]:
    """What the archive holds once the table was run into it."""
    shutil.copytree(worked_through, out)
    return contents(out)

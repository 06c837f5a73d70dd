"""The same archive from every engine and any number of workers, byte for byte but for times."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from archive_commands import Commands, commands, forked_cluster
from archive_pairs import BREAKAGES, MadeArchive, contents, make_archive

SOME_FAILED = 3
PAIRS, EACH = 12, 1

# Dask says so where the disk is busy, and closes what it has open when it is collected.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:Creating scratch directories"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("engines")


@pytest.fixture(scope="module")
def shell(folder) -> Iterator[Commands]:
    with commands(folder) as started:
        yield started


@pytest.fixture(scope="module")
def made(folder) -> MadeArchive:
    return make_archive(folder, PAIRS, each=EACH)


@pytest.fixture(scope="module")
def reference(folder, shell, made) -> Path:
    """The archive of one local worker."""
    out = folder / "local-1"
    assert shell.run("batch", made.table, "--out", out, "--workers", 1, "--json") == SOME_FAILED, shell.said()
    return out


def summary(out: Path) -> dict[str, dict[str, str]]:
    with (out / "summary.csv").open(newline="") as file:
        return {row["pair"]: row for row in csv.DictReader(file)}


def test_all_that_failed_is_told_with_its_reason(made, reference):
    rows = summary(reference)
    assert list(rows) == made.pairs
    failed = {pair: row for pair, row in rows.items() if row["state"] != "done"}
    assert failed.keys() == made.broken.keys() and len(failed) == 6
    for pair, row in failed.items():
        how = made.broken[pair]
        assert row["error"] == (BREAKAGES[how] or "WorkerDied")
        assert row["kind"] == ("crashed" if how == "abort" else "refused")
        named = made.after(pair) if how in ("missing", "damaged", "placeless", "apart") else made.before(pair)
        assert how == "abort" or str(named) in row["line"]
    assert {path.name for path in (reference / "pairs").iterdir()} == set(made.sound)


@pytest.fixture
def cluster() -> Iterator[str]:
    """The address of a scheduler with two workers that come back when they died."""
    with forked_cluster(2) as started:
        yield started.scheduler_address


@pytest.mark.parametrize("engine", ["local", "dask"])
def test_every_engine_gives_the_same(request, folder, shell, made, reference, engine):
    out = folder / engine
    workers = ("--workers", 2) if engine == "local" else ("--scheduler", request.getfixturevalue("cluster"))
    code = shell.run("batch", made.table, "--out", out, *workers, "--json")
    assert code == SOME_FAILED, shell.said()
    assert contents(out) == contents(reference)
    said = json.loads(shell.said().splitlines()[-1])
    assert (said["done"], said["failed"]) == (PAIRS - 6, 6)

"""How fast the ledger and the folder of an archive take what a coordinator writes; prints Markdown.

    python benchmarks/ledger_rates.py --folder runs/ledger --pairs 100000

Pairs and their scenes (files of a kilobyte, two to a pair) are generated where they are missing. All is done
by one process, as in a coordinator, on the disk that the folder is on.
"""

from __future__ import annotations

import argparse
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from stub_pairs import stub_card, write_report, write_scenes

from rscc.markdown import table
from workflows.archive.status import archive_status
from workflows.options import SceneOptions
from workflows.pairs.rows import PairRow
from workflows.pairs.table import read_pairs, write_pairs
from workflows.report.qgis import qgis_style
from workflows.store.folder import ITEM, REPORT, STYLE, ArchiveFolder
from workflows.store.identity import SceneIdentities, keyed, settings_key
from workflows.store.ledger import Ledger

T = TypeVar("T")
FETCHED = 256
HOUSES = 6


@dataclass(frozen=True)
class Rate:
    """How many of something took how many seconds."""

    what: str
    count: int
    seconds: float


def ledger_rates(folder: Path, pairs: int, installs: int) -> list[Rate]:
    """Measure a first run and a restart over so many pairs, and so many reports put into the archive."""
    rows = write_scenes(folder / "scenes", pairs)
    table_of = folder / "pairs.csv"
    write_pairs(rows, table_of)
    archive = folder / "archive"
    shutil.rmtree(archive, ignore_errors=True)
    archive.mkdir(parents=True)
    rates: list[Rate] = []

    def timed(what: str, count: int, work: Callable[[], T]) -> T:
        clock = time.perf_counter()
        result = work()
        rates.append(Rate(what, count, time.perf_counter() - clock))
        return result

    rows = timed("rows of the table read", pairs, lambda: read_pairs(table_of))
    with Ledger.open(archive) as ledger:
        timed("scenes hashed for the first time", 2 * pairs, lambda: _keep(ledger, rows))
        timed("pairs planned in a new ledger", pairs, lambda: _plan(ledger, rows))
        timed("pairs fetched, started and done", pairs, lambda: _work(ledger))
        timed("rscc status, read while the ledger is open", 20, lambda: _look(archive, 20))
        timed("counts of all states", 100, lambda: [ledger.counts() for _ in range(100)])
        timed("rows read back", pairs, lambda: sum(1 for _ in ledger.rows()))
    rows = timed("rows of the table read again", pairs, lambda: read_pairs(table_of))
    with Ledger.open(archive) as ledger:
        timed("scenes looked at again", 2 * pairs, lambda: _keep(ledger, rows))
        timed("pairs planned again, all done", pairs, lambda: _plan(ledger, rows))
    for durable in (True, False):
        taken = ArchiveFolder(folder / f"installs-{durable}", durable=durable)
        shutil.rmtree(taken.path, ignore_errors=True)
        taken.create()
        waiting = "waiting for the disk" if durable else "not waiting"
        timed(
            f"reports installed, {waiting}", installs, lambda taken=taken: _install(taken, folder, installs)
        )
    return rates


def _keys(ledger: Ledger, rows: Iterable[PairRow]) -> Iterator[tuple[PairRow, str]]:
    scenes = SceneIdentities(ledger.files(), full=False)
    return keyed(rows, scenes, settings_key(SceneOptions(), stub_card()), ledger.keep_files)


def _keep(ledger: Ledger, rows: Iterable[PairRow]) -> None:
    for _ in _keys(ledger, rows):
        pass


def _plan(ledger: Ledger, rows: Sequence[PairRow]) -> None:
    # The scenes were looked at just before; here the keys are only numbers.
    ledger.plan(((row, f"{number:032x}") for number, row in enumerate(rows)), retry_failed=False)


def _work(ledger: Ledger) -> None:
    while found := ledger.next(FETCHED):
        for row in found:
            ledger.start(row.pair, 1)
            ledger.done(
                row.pair, worker="worker-1", seconds=1.5, changes=HOUSES, area_m2=600.0, tiles=36, warnings=()
            )


def _look(archive: Path, times: int) -> None:
    for _ in range(times):
        archive_status(archive)


def _install(archive: ArchiveFolder, folder: Path, count: int) -> None:
    report = write_report(folder / "report", HOUSES).read_bytes()
    files = {REPORT: report, STYLE: qgis_style().encode(), ITEM: report[:2000]}
    for number in range(count):
        archive.install(f"pair-{number:06d}", files)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", type=Path, default=Path("runs/ledger"))
    parser.add_argument("--pairs", type=int, default=100_000)
    parser.add_argument("--installs", type=int, default=2000)
    options = parser.parse_args(arguments)
    rates = ledger_rates(options.folder, options.pairs, options.installs)
    lines = [
        [rate.what, f"{rate.count:,}", f"{rate.seconds:.2f}", f"{rate.count / rate.seconds:,.0f}"]
        for rate in rates
    ]
    print(table(["what", "how many", "seconds", "per second"], lines))


if __name__ == "__main__":
    main()

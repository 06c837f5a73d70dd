"""What an archive costs: a model fitted on finished archives, and the bill of a large one; prints Markdown.

    python benchmarks/archive_cost.py fit ARCHIVE [ARCHIVE ...]
    python benchmarks/archive_cost.py bill --tile 0.15 --change 0.12 --pair 0.3 --read 90e3 \\
        --area 1e6 --gsd 0.5 --visits 12 --core-hour 0.04

``fit`` reads from the ledgers how long the workers took over each pair and fits, without negative terms,

    seconds of a worker = pair + tile x tiles + change x changes

and looks up what scenes and reports take on the disk. Give it archives whose pairs differ in size; with one
core to a worker the seconds are core seconds, with one GPU GPU seconds. Pairs that failed are left out.
``bill`` multiplies. Areas are in km2, prices are what you pay: there is none that holds everywhere, so they
are 0 unless given, and so is what a GPU takes.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.optimize import nnls

from rscc.markdown import table
from workflows.store.folder import ArchiveFolder
from workflows.store.ledger import Ledger

GB, TB = 1e9, 1e12
HOUR, MONTHS = 3600.0, 12


@dataclass(frozen=True)
class PairCost:
    """What pairs take, each term from 0.

    Attributes:
        pair, tile, change: seconds of a worker for each.
        read: bytes of the scene files for a tile, both dates together.
        written: bytes of report folders for a pair, ``kept`` for a change, layers included; the layers of
            an archive of few changes are more than half empty.
        error: median of the relative errors of the pairs' seconds; None when nothing was fitted.
        pairs: that it was fitted on.
    """

    pair: float
    tile: float
    change: float
    read: float
    written: float
    kept: float
    error: float | None = None
    pairs: int = 0


@dataclass(frozen=True)
class Country:
    """What is watched.

    Attributes:
        area: km2, once.
        gsd: metres per pixel that the model works at.
        visits: new scenes of every place in a year; each is compared with the one before.
        side: km; the scenes are squares of this side that cover the area once.
        changes: found in a km2 at a visit.
        tile, overlap: pixels of the model's tile, and those that neighbours share.
    """

    area: float
    gsd: float
    visits: float
    side: float
    changes: float
    tile: int = 256
    overlap: int = 64

    @property
    def pairs(self) -> float:
        """Pairs in a year."""
        return self.visits * self.area / self.side**2

    @property
    def tiles_of_pair(self) -> int:
        """Tiles of one pair."""
        pixels = round(1000 * self.side / self.gsd)
        return max(1, math.ceil((pixels - self.overlap) / (self.tile - self.overlap))) ** 2

    @property
    def changes_of_pair(self) -> float:
        """Changes of one pair."""
        return self.changes * self.side**2


@dataclass(frozen=True)
class Prices:
    """What you pay, in one currency: for an hour of a worker, and for a terabyte kept for a month."""

    hour: float
    terabyte_month: float


def fit(archives: Sequence[Path]) -> PairCost:
    """Fit the model on the pairs that are done.

    Raises:
        WorkflowError: a folder is no archive.
        ValueError: fewer than three pairs are done.
    """
    terms, seconds, scenes, reports = [], [], [], []
    layers = 0
    for path in archives:
        folder = ArchiveFolder(path)
        with Ledger.reader(path) as ledger:
            for row in ledger.rows("done"):
                terms.append((1, row.tiles or 0, row.changes or 0))
                seconds.append(row.seconds or 0.0)
                scenes.append(sum(_bytes(Path(scene)) for scene in (row.before, row.after)))
                reports.append(sum(_bytes(file) for file in folder.pair_folder(row.pair).iterdir()))
        layers += sum(_bytes(layer) for layer in folder.layers)
    if len(terms) < 3:
        raise ValueError(f"{len(terms)} pairs are done in these archives; three or more are needed")
    matrix, taken = np.array(terms, float), np.array(seconds)
    found, _ = nnls(matrix, taken)
    sizes, _ = nnls(matrix[:, [0, 2]], np.array(reports, float))
    changes, tiles = matrix[:, 2].sum(), matrix[:, 1].sum()
    return PairCost(
        *(float(value) for value in found),
        read=sum(scenes) / tiles,
        written=float(sizes[0]),
        kept=float(sizes[1]) + (layers / changes if changes else 0.0),
        error=float(np.median(np.abs(matrix @ found - taken) / taken)),
        pairs=len(terms),
    )


def fit_table(cost: PairCost) -> str:
    """Return the fitted terms; the names are those of the options of ``bill``."""
    rows = [
        ["a pair", "--pair", f"{cost.pair:.3g} s"],
        ["a tile", "--tile", f"{cost.tile:.3g} s"],
        ["a change and its words", "--change", f"{cost.change:.3g} s"],
        ["files of both scenes, for a tile", "--read", f"{cost.read:.3g} bytes"],
        ["a report without changes", "--written", f"{cost.written:.3g} bytes"],
        ["a change in report and layers", "--kept", f"{cost.kept:.3g} bytes"],
    ]
    error = "" if cost.error is None else f", off by {cost.error:.0%} in the median"
    return f"{table(['what', 'option', 'takes'], rows)}\n\nFitted on {cost.pairs} pairs{error}."


def bill_table(cost: PairCost, country: Country, prices: Prices, workers: int) -> str:
    """Return what a year takes."""
    tiles, changes = country.tiles_of_pair, country.changes_of_pair
    one = cost.pair + cost.tile * tiles + cost.change * changes
    hours = country.pairs * one / HOUR
    # Both scenes of a pair are read; one of them is the later one of the pair before.
    scanned = country.pairs * tiles * cost.read
    scenes = scanned / 2
    outputs = country.pairs * (cost.written + cost.kept * changes)
    a_year = scenes + outputs
    visit = hours / country.visits / workers
    rows = [
        ["pairs", f"{country.pairs:,.0f}"],
        ["tiles of a pair", f"{tiles:,}"],
        ["tiles", f"{country.pairs * tiles:,.0f}"],
        ["changes", f"{country.pairs * changes:,.0f}"],
        ["worker time of a pair", f"{one:,.0f} s"],
        ["worker hours", f"{hours:,.0f}"],
        ["  of these for tiles, changes, the rest", ", ".join(
            f"{share / one:.0%}" for share in (cost.tile * tiles, cost.change * changes, cost.pair)
        )],
        [f"days for one visit with {workers} workers", f"{visit / 24:.1f}"],
        ["pairs finished in a second with them", f"{workers / one:.2f}"],
        ["scenes on the disk, new in a year", f"{scenes / TB:,.1f} TB"],
        ["read by the workers, every scene twice", f"{scanned / TB:,.1f} TB"],
        ["reports and layers", f"{outputs / GB:,.1f} GB"],
    ]  # fmt: skip
    if prices.hour:
        rows.append([f"workers, at {prices.hour:g} an hour", f"{hours * prices.hour:,.0f}"])
    if prices.terabyte_month:
        # Half of a year's scenes are there in the mean of that year.
        kept = a_year / TB / 2 * MONTHS * prices.terabyte_month
        rows.append([f"disk in the first year, at {prices.terabyte_month:g} a TB and month", f"{kept:,.0f}"])
    return table(["in a year", "figure"], rows)


def _bytes(file: Path) -> int:
    return file.stat().st_size if file.is_file() else 0


def main(arguments: Sequence[str] | None = None) -> None:
    """Fit, or write a bill."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    fitting = commands.add_parser("fit", help="fit the model on finished archives")
    fitting.add_argument("archives", type=Path, nargs="+")
    billing = commands.add_parser("bill", help="multiply")
    for name, default, words in (
        ("pair", 0.0, "seconds of a worker for a pair"),
        ("tile", None, "seconds of a worker for a tile"),
        ("change", 0.0, "seconds of a worker for a change"),
        ("read", 0.0, "bytes of the files of both scenes for a tile"),
        ("written", 0.0, "bytes of a report without changes"),
        ("kept", 0.0, "bytes of a change in report and layers"),
        ("area", 1e6, "km2"),
        ("gsd", 0.5, "metres per pixel"),
        ("visits", 12.0, "new scenes of every place in a year"),
        ("side", 10.0, "km; of a scene"),
        ("changes", 1.0, "found in a km2 at a visit"),
        ("hour", 0.0, "price of an hour of a worker"),
        ("terabyte-month", 0.0, "price of a terabyte kept for a month"),
    ):
        billing.add_argument(f"--{name}", type=float, default=default, required=default is None, help=words)
    billing.add_argument("--workers", type=int, default=500)
    options = parser.parse_args(arguments)
    if options.command == "fit":
        print(fit_table(fit(options.archives)))
        return
    cost = PairCost(options.pair, options.tile, options.change, options.read, options.written, options.kept)
    country = Country(options.area, options.gsd, options.visits, options.side, options.changes)
    print(bill_table(cost, country, Prices(options.hour, options.terabyte_month), options.workers))


if __name__ == "__main__":
    main()

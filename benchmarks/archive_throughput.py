"""Measure how much faster two workers are than one, with one core each; prints Markdown.

    python benchmarks/archive_throughput.py --folder runs/throughput --model rscc-small --pairs 24 --rounds 3

``python -m rscc batch`` runs generated pairs into new archives: with one worker on one core and two workers
on two, in turns. The command may use only these cores, so it shares them with its workers. Throughput
counts from the start of the first pair, with the model loaded, to the end of the last; the time of the
whole command, with start-up and layers, is shown beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from painted_pairs import CELLS, SEED, load_cells, make_pair

from rscc.evaluation.markdown import table
from workflows.pairs.rows import PairRow
from workflows.pairs.table import write_pairs

SIDES = (512, 1024, 1536)


@dataclass(frozen=True)
class Run:
    """One run of the command.

    Attributes:
        workers: number of workers and cores.
        pairs, tiles, changes: of the archive.
        working: seconds from the start of the first pair to the end of the last.
        whole: seconds of the command.
        archive: its folder.
    """

    workers: int
    pairs: int
    tiles: int
    changes: int
    working: float
    whole: float
    archive: Path

    @property
    def rate(self) -> float:
        """Tiles per second."""
        return self.tiles / self.working


def write_archive(folder: Path, pairs: int, sides: Sequence[int]) -> Path:
    """Return a table of generated pairs whose sides, in pixels, alternate; missing pairs are made."""
    rows = []
    for number in range(pairs):
        side = sides[number % len(sides)]
        place = folder / "scenes" / f"{side}-{number:03d}"
        files = [place / f"{date}_{side}.tif" for date in ("before", "after")]
        if not all(file.exists() for file in files):
            cells = load_cells(folder / f"cells_{SEED}_{CELLS}.npz", SEED, CELLS)
            make_pair(place, side, cells=cells, seed=SEED + number)
        rows.append(PairRow(f"{side}-{number:03d}", str(files[0]), str(files[1])))
    path = folder / "pairs.csv"
    write_pairs(rows, path)
    return path


def run_batch(pairs: Path, archive: Path, cores: Sequence[int], options: Sequence[str]) -> Run:
    """Run a table with one worker on each of ``cores``.

    Raises:
        RuntimeError: the command failed, or a pair did.
    """
    shutil.rmtree(archive, ignore_errors=True)
    words = [
        "batch",
        str(pairs),
        "--out",
        str(archive),
        "--workers",
        str(len(cores)),
        "--device",
        "cpu",
        "-q",
    ]
    clock = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-m", "rscc", *words, *options],
        # Inherited by the workers, which take one thread for each core that they may use.
        preexec_fn=lambda: os.sched_setaffinity(0, cores),
    ) as process:
        process.wait()
    whole = time.perf_counter() - clock
    if process.returncode:
        raise RuntimeError(f"rscc {' '.join(words)} ended with {process.returncode}")
    runs, changes = [], 0
    for path in sorted((archive / "pairs").glob("*/changes.geojson")):
        report = json.loads(path.read_text(encoding="utf-8"))
        runs.append(report["rscc"])
        changes += len(report["features"])
    begun = [datetime.fromisoformat(run["started"]).timestamp() for run in runs]
    working = max(start + run["seconds"] for start, run in zip(begun, runs, strict=True)) - min(begun)
    tiles = sum(run["tiling"]["tiles"] for run in runs)
    return Run(len(cores), len(runs), tiles, changes, working, whole, archive)


def compare(pairs: Path, folder: Path, rounds: int, options: Sequence[str]) -> list[Run]:
    """Run with one core and with two, ``rounds`` times, in alternating order.

    Raises:
        RuntimeError: this process may use a single core only.
    """
    cores = sorted(os.sched_getaffinity(0))[:2]
    if len(cores) < 2:
        raise RuntimeError("two cores are needed to compare two workers with one")
    runs = []
    for number in range(rounds):
        for count in (1, 2) if number % 2 == 0 else (2, 1):
            # A single worker alternates between the two cores.
            mine = cores if count == 2 else [cores[number % 2]]
            runs.append(run_batch(pairs, folder / f"archive-{number}-{count}", mine, options))
            print(runs[-1], file=sys.stderr, flush=True)
    return runs


def ratios(runs: Sequence[Run]) -> list[float]:
    """Return the throughput of two workers relative to one, by round."""
    one, two = ([run.rate for run in runs if run.workers == count] for count in (1, 2))
    return [double / single for single, double in zip(one, two, strict=True)]


def runs_table(runs: Sequence[Run]) -> str:
    """Return a row for every run, and the ratios."""
    head = [
        "workers and cores",
        "pairs",
        "tiles",
        "changes",
        "working, s",
        "command, s",
        "tiles/s",
        "tiles/s a core",
    ]
    lines = [
        [
            str(run.workers),
            str(run.pairs),
            str(run.tiles),
            str(run.changes),
            f"{run.working:.1f}",
            f"{run.whole:.1f}",
            f"{run.rate:.1f}",
            f"{run.rate / run.workers:.1f}",
        ]
        for run in runs
    ]
    found = ratios(runs)
    each = ", ".join(f"{ratio:.2f}" for ratio in found)
    return f"{table(head, lines)}\n\nTwo workers over one: {statistics.median(found):.2f} (median of {each})"


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", type=Path, default=Path("runs/throughput"))
    parser.add_argument("--model", default="rscc-small")
    parser.add_argument("--pairs", type=int, default=24)
    parser.add_argument(
        "--side", type=int, nargs="+", default=SIDES, help="of the scenes in pixels, in turns"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--option", action="append", default=[], help="further word for rscc batch")
    options = parser.parse_args(arguments)
    pairs = write_archive(options.folder, options.pairs, options.side)
    words = ["--model", options.model, *options.option]
    print(runs_table(compare(pairs, options.folder, options.rounds, words)))


if __name__ == "__main__":
    main()

"""Memory and time of the ``rscc caption`` command; prints Markdown.

    python benchmarks/command_cost.py memory --folder runs/large --side 4000 12000 24000

``memory`` captions generated pairs of several sizes on the CPU, each in a process of its own, and records the
peak of its resident memory.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rasterio
from painted_pairs import large_pairs

from rscc.evaluation.markdown import table

SIDES = (4000, 12_000, 24_000)
MIB = 2**20


@dataclass(frozen=True)
class Pair:
    """Two scenes on one grid, and their number of pixels."""

    before: Path
    after: Path
    pixels: int

    @classmethod
    def of(cls, before: Path, after: Path) -> Pair:
        """Read the size from the header of ``before``."""
        with rasterio.open(before) as file:
            return cls(before.resolve(), after.resolve(), file.width * file.height)


@dataclass(frozen=True)
class Cost:
    """What a process used: seconds of the clock, seconds of all cores, and peak memory in bytes."""

    seconds: float
    processor: float
    peak: int
    printed: str


@dataclass(frozen=True)
class SizeCost:
    """Cost of the command for a pair of ``side`` x ``side`` pixels."""

    side: int
    tiles: int
    changes: int
    seconds: float
    peak: int


def caption_words(pair: Pair, output: Path, options: Sequence[str] = ()) -> list[str]:
    """Return the arguments of ``rscc`` that caption a pair and print the run as JSON."""
    written = ["-o", str(output.resolve()), "--overwrite", "-q", "--json"]
    return ["caption", str(pair.before), str(pair.after), *written, *options]


def in_process(
    pair: Pair, output: Path, factory: Callable[[str, str], Any], options: Sequence[str] = ()
) -> dict[str, Any]:
    """Run ``rscc caption`` in this process; return its JSON.

    Args:
        pair: the scenes.
        output: path of the report.
        factory: returns the captioner for (model, device).
        options: further arguments of the command.

    Raises:
        RuntimeError: it failed.
    """
    from workflows.cli.app import main

    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            main(caption_words(pair, output, options), captioner_factory=factory)
    except SystemExit as end:
        if end.code:
            raise RuntimeError(f"rscc caption ended with {end.code}") from end
    result: dict[str, Any] = json.loads(printed.getvalue())
    return result


def cost_of(command: Sequence[str]) -> Cost:
    """Run a command and measure its process.

    Raises:
        RuntimeError: it failed.
    """
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout as output:
        printed = output.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    seconds = time.perf_counter() - began
    return Cost(seconds, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024, printed)


def costs_by_size(folder: Path, sides: Sequence[int], options: Sequence[str] = ()) -> list[SizeCost]:
    """Measure the command on a generated pair of each size."""
    costs = []
    for pair in large_pairs(folder, sides):
        words = caption_words(Pair.of(pair.before, pair.after), folder / f"changes_{pair.side}.geojson")
        cost = cost_of([sys.executable, "-m", "rscc", *words, "--device", "cpu", *options])
        run = json.loads(cost.printed)
        tiles = run["run"]["tiling"]["tiles"]
        costs.append(SizeCost(pair.side, tiles, run["changes"], cost.seconds, cost.peak))
        print(costs[-1], file=sys.stderr, flush=True)
    return costs


def memory_table(costs: Sequence[SizeCost]) -> str:
    """Return a row for each size; the last column compares the peak with that of the first size."""
    rows = [
        [
            f"{cost.side} x {cost.side}",
            str(cost.tiles),
            str(cost.changes),
            f"{cost.seconds:.0f}",
            f"{cost.side**2 / 1e6 / cost.seconds:.2f}",
            f"{cost.peak / MIB:.0f}",
            f"{100 * (cost.peak / costs[0].peak - 1):+.1f} %",
        ]
        for cost in costs
    ]
    return table(["pixels", "tiles", "changes", "seconds", "Mpx/s", "peak, MiB", "relative to first"], rows)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    memory = commands.add_parser("memory")
    memory.add_argument("--folder", type=Path, default=Path("runs/large"))
    memory.add_argument("--side", type=int, nargs="+", default=SIDES, help="sides in pixels")
    memory.add_argument("--option", action="append", default=[], help="further word for rscc caption")
    options = parser.parse_args()
    print(memory_table(costs_by_size(options.folder, options.side, options.option)))


if __name__ == "__main__":
    main()

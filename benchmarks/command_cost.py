"""Memory and time of the ``rscc caption`` command; prints Markdown.

    python benchmarks/command_cost.py memory --folder runs/large --side 4000 12000 24000 [--json FILE]
    OMP_NUM_THREADS=1 python benchmarks/command_cost.py start BEFORE AFTER [--rounds 5]

``memory`` captions generated pairs of several sizes on the CPU, each in a process of its own, and records the
peak of its resident memory. From three sizes on it also fits a straight line to the seconds by area: the
residuals show how linear the cost is.
``start`` splits a short run into the interpreter, the imports, the model and the rest. Each part is a process
that does everything up to that point; the table shows medians of the differences.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from painted_pairs import large_pairs
from timing import Pair, caption_words, write_json

from rscc.evaluation.markdown import table

SIDES = (4000, 12_000, 24_000)
MIB = 2**20


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


def fitted_line(costs: Sequence[SizeCost]) -> str:
    """Fit seconds = start + slope x megapixels, minimising relative errors; return it with its residuals."""
    area = np.array([cost.side**2 / 1e6 for cost in costs])
    seconds = np.array([cost.seconds for cost in costs])
    terms = np.stack([np.ones_like(area), area], axis=1) / seconds[:, None]
    (start, slope), *_ = np.linalg.lstsq(terms, np.ones_like(area), rcond=None)
    residuals = 1 - terms @ (start, slope)
    shares = ", ".join(f"{cost.side}: {100 * one:+.1f} %" for cost, one in zip(costs, residuals, strict=True))
    return f"seconds = {start:.2f} + {slope:.3f} x megapixels; residual by side: {shares}"


def start_table(pair: Pair, model: str, rounds: int) -> str:
    """Time the parts of a short run, in turns; the first round only warms the file cache."""
    load = f"from rscc.captioner import Captioner; Captioner.load({model!r}, device='cpu')"
    with tempfile.TemporaryDirectory() as folder:
        words = caption_words(pair, Path(folder) / "changes.geojson")
        commands = {
            "interpreter": ["-c", "pass"],
            "imports": ["-c", "import workflows.cli.commands, workflows.scene.run, rscc.captioner"],
            "model": ["-c", f"import workflows.cli.commands, workflows.scene.run; {load}"],
            "the rest of the run": ["-m", "rscc", *words, "--device", "cpu", "--model", model],
        }
        measured = [
            [cost_of([sys.executable, *command]) for command in commands.values()] for _ in range(1 + rounds)
        ][1:]
    totals = np.median([[(c.seconds, c.processor) for c in costs] for costs in measured], axis=0)
    parts = np.diff(totals, axis=0, prepend=0)
    rows = [
        [name, f"{wall:.2f}", f"{100 * wall / totals[-1, 0]:.0f} %", f"{processor:.2f}"]
        for name, (wall, processor) in zip(
            [*commands, "whole"], [*parts.tolist(), totals[-1].tolist()], strict=True
        )
    ]
    return table(["part", "s", "share", "processor, s"], rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    memory = commands.add_parser("memory")
    memory.add_argument("--folder", type=Path, default=Path("runs/large"))
    memory.add_argument("--side", type=int, nargs="+", default=SIDES, help="sides in pixels")
    memory.add_argument("--json", type=Path, help="also write the measurements")
    memory.add_argument("--option", action="append", default=[], help="further word for rscc caption")
    start = commands.add_parser("start")
    start.add_argument("before", type=Path)
    start.add_argument("after", type=Path)
    start.add_argument("--model", default="rscc-base")
    start.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(arguments)
    if options.command == "start":
        print(start_table(Pair.of(options.before, options.after), options.model, options.rounds))
        return
    costs = costs_by_size(options.folder, options.side, options.option)
    write_json(options.json, [asdict(cost) for cost in costs])
    print(memory_table(costs))
    if len(costs) > 2:
        print(f"\n{fitted_line(costs)}")


if __name__ == "__main__":
    main()

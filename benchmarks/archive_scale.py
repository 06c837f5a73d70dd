"""Time the bookkeeping of an archive of many pairs, without any captioning; prints Markdown.

    python benchmarks/archive_scale.py --folder runs/scale --pairs 100000

The pairs are placeholder files of a few bytes. An engine in this process answers every pair at once with the
same report, so what is left is reading the table, planning, storing reports, the index and the layers. The
second run finds everything done.
"""

from __future__ import annotations

import argparse
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from painted_pairs import large_pairs

from rscc.captioner import load_captioner
from rscc.evaluation.markdown import table
from workflows import SceneOptions, caption_scene
from workflows.archive.dispatch import ArchiveOptions
from workflows.archive.run import ArchiveSummary, run_archive
from workflows.archive.workers.tasks import Outcome, Task
from workflows.pairs.rows import PairRow
from workflows.pairs.table import read_pairs, write_pairs

SITE = 100
"""Pairs per folder of scenes."""


class InstantEngine:
    """Answers every task at once; remembers when it got the first and the last."""

    name = "instant"

    def __init__(self, report: bytes) -> None:
        self._report = report
        self._waiting: list[Task] = []
        self.first = self.last = 0.0

    def wanted(self) -> int:
        """Return how many tasks it takes at a time."""
        return 500

    def submit(self, task: Task) -> None:
        """Take a task."""
        self.first = self.first or time.perf_counter()
        self._waiting.append(task)

    def wait(self, timeout: float) -> list[Outcome]:
        """Return the outcomes of all tasks."""
        done, self._waiting = self._waiting, []
        self.last = time.perf_counter()
        return [Outcome(task.pair, "done", self._report, worker="here") for task in done]

    def withdraw(self) -> list[str]:
        """Return the pairs that were not begun: none."""
        return []

    def __enter__(self) -> InstantEngine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


def write_table(folder: Path, pairs: int) -> Path:
    """Write a table of pairs of placeholder files, a hundred to a folder; missing files are made."""
    rows = []
    for number in range(pairs):
        site = folder / "scenes" / f"site-{number // SITE:05d}"
        site.mkdir(parents=True, exist_ok=True)
        files = [site / f"{number % SITE:02d}_{date}.tif" for date in ("2024-05-01", "2025-05-03")]
        for file in files:
            if not file.exists():
                file.write_text(file.name)
        before, after = map(str, files)
        rows.append(PairRow(f"{site.name}_{number % SITE:02d}", before, after, site=site.name))
    path = folder / "pairs.csv"
    write_pairs(rows, path)
    return path


def main(arguments: Sequence[str] | None = None) -> None:
    """Make an archive, run it again, and print the times."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", type=Path, default=Path("runs/scale"))
    parser.add_argument("--pairs", type=int, default=100_000)
    parser.add_argument("--model", default="rscc-small", help="of the one report that all pairs get")
    options = parser.parse_args(arguments)
    (pair,) = large_pairs(options.folder, [512])
    captioner = load_captioner(options.model, "cpu")
    engine = InstantEngine(caption_scene(pair.before, pair.after, captioner).encoded())
    pairs, archive = write_table(options.folder, options.pairs), options.folder / "archive"
    shutil.rmtree(archive, ignore_errors=True)

    def run() -> tuple[ArchiveSummary, float, float]:
        began = time.perf_counter()
        summary = run_archive(
            read_pairs(pairs), archive, captioner.card, lambda: engine, SceneOptions(), ArchiveOptions()
        )
        return summary, began, time.perf_counter()

    summary, began, ended = run()
    again, second_began, second_ended = run()
    assert (summary.done, again.skipped_as_done) == (options.pairs, options.pairs)
    working = engine.last - engine.first
    rows = [
        ["table read and planned", f"{engine.first - began:.1f} s"],
        ["pairs stored", f"{working:.1f} s, {options.pairs / working:,.0f} pairs/s"],
        ["layers written", f"{ended - engine.last:.1f} s"],
        ["run again, all done", f"{second_ended - second_began:.1f} s"],
    ]
    print(table([f"{options.pairs:,} pairs", "time"], rows))


if __name__ == "__main__":
    main()

"""How an archive grows: a real coordinator and scheduler, and workers that only wait; prints Markdown.

    python benchmarks/archive_scale.py run      --folder runs/scale --pairs 100000 --workers 500
    python benchmarks/archive_scale.py saturate --folder runs/scale --pairs 5000 --workers 500
    python benchmarks/archive_scale.py restart  --folder runs/scale --pairs 100000

``run`` works through generated pairs whose captioning is replaced by waiting. Some pairs are refused, some
attempts fail, two pairs take their worker's process with them, and every half minute a machine with all its
workers is killed and another one comes. When 99 percent are done, the coordinator is killed and started
again: the seconds until it hands out the first pair are those of a restart.
``saturate`` lets the pairs take no time at all: what is left is what the coordinator and the scheduler do.
``restart`` makes an archive that is 99 percent done without working through it, and starts a coordinator.

Seconds of a core are those of the process itself, so other work on the machine lengthens the run and hardly
these.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from stub_archive import make_finished
from stub_cluster import StubCluster, Use, use_of
from stub_pairs import StubPlan, write_report, write_scenes
from watched import Settings

from rscc.markdown import table
from workflows.errors import WorkflowError
from workflows.pairs.table import write_pairs
from workflows.store.ledger import Ledger
from workflows.store.ledger_rows import Counts

MIB = 2**20
LOOK = 1.0
PATIENCE = 7200.0


@dataclass(frozen=True)
class Load:
    """What is simulated.

    Attributes:
        pairs: in the table.
        workers: in all, spread over ``machines`` processes.
        houses: changes in the report of every pair.
        plan: how the pairs behave.
        lose_every: seconds after which a machine is killed and replaced; 0: never.
        kill_at: share of the pairs done at which the coordinator is killed and started again; 1: never.
    """

    pairs: int
    workers: int
    machines: int
    houses: int
    plan: StubPlan
    lose_every: float = 0.0
    kill_at: float = 1.0


@dataclass(frozen=True)
class Measured:
    """What came of a load.

    Attributes:
        counts: of the ledger at the end.
        runs: what each coordinator noted, see :mod:`watched`.
        lost: workers that were killed.
        scheduler: what the scheduler's process took.
        seconds: from the first start of a coordinator to the end of the last.
    """

    counts: Counts
    runs: tuple[dict[str, Any], ...]
    lost: int
    scheduler: Use
    seconds: float


def restart(folder: Path, pairs: int, done: float, report: Path) -> dict[str, Any]:
    """Start a coordinator on an archive of which a share is done; return what it noted.

    Raises:
        RuntimeError: it failed.
    """
    rows = write_scenes(folder / "scenes", pairs)
    table_of = folder / "pairs.csv"
    write_pairs(rows, table_of)
    archive = folder / f"archive-{time.time_ns()}"
    make_finished(archive, rows, done, report)
    load = Load(pairs, workers=8, machines=1, houses=0, plan=StubPlan(str(report), 0.01))
    environment = load.plan.environment()
    with StubCluster(
        folder / "cluster", workers=8, machines=1, setup="stub_pairs:install", environment=environment
    ) as cluster:
        cluster.wait_until_there()
        watch = _Watch(cluster, archive, load, random.Random(1))
        with _coordinator(folder, table_of, archive, cluster, 1) as process:
            watch.until(process, None)
    return _notes(folder, 1)


def restart_table(pairs: int, done: float, notes: dict[str, Any]) -> str:
    """Return how long a restart took, and with how much memory."""
    counts = notes["summary"]
    lines = [
        ["pairs, of these done before", f"{pairs:,}, {counts['skipped_as_done']:,} ({done:.1%})"],
        *_moments(notes),
        ["coordinator, most memory when work began", f"{notes['peak_at']['work began'] / MIB:.0f} MiB"],
        ["coordinator, most memory with the layers", f"{notes['peak'] / MIB:.0f} MiB"],
        ["core time until work began", f"{notes['cpu_at']['work began']:.1f} s"],
        ["core time of the layers", f"{notes['cpu'] - notes['cpu_at']['pairs finished']:.0f} s"],
    ]
    return table(["what", "figure"], lines)


def _moments(notes: dict[str, Any]) -> list[list[str]]:
    moments = notes["moments"]
    return [
        ["libraries loaded after", f"{moments['imported']:.1f} s"],
        ["table read after", f"{moments['table read']:.1f} s"],
        ["plan made, workers reached after", f"{moments['engine ready']:.1f} s"],
        ["first pair handed out after", f"{moments['work began']:.1f} s"],
        ["layers made in", f"{moments['finished'] - moments['pairs finished']:.0f} s"],
    ]


def simulate(folder: Path, load: Load, seed: int = 1) -> Measured:
    """Run a load in a new archive below ``folder``.

    Raises:
        RuntimeError: a coordinator failed, or took longer than two hours.
    """
    rows = write_scenes(folder / "scenes", load.pairs)
    pairs = folder / "pairs.csv"
    write_pairs(rows, pairs)
    archive = folder / f"archive-{time.time_ns()}"
    chance = random.Random(seed)
    with StubCluster(
        folder / "cluster",
        workers=load.workers,
        machines=load.machines,
        setup="stub_pairs:install",
        environment=load.plan.environment(),
    ) as cluster:
        cluster.wait_until_there()
        before, clock = use_of(cluster.scheduler_pid), time.monotonic()
        watch = _Watch(cluster, archive, load, chance)
        runs = []
        if load.kill_at < 1:
            with _coordinator(folder, pairs, archive, cluster, 1) as process:
                watch.until(process, round(load.kill_at * load.pairs))
                process.kill()
            runs.append(_notes(folder, 1))
        with _coordinator(folder, pairs, archive, cluster, len(runs) + 1) as process:
            watch.until(process, None)
        runs.append(_notes(folder, len(runs) + 1))
        after = use_of(cluster.scheduler_pid)
        with Ledger.reader(archive) as ledger:
            counts = ledger.counts()
        taken = Use(after.cpu - before.cpu, after.peak)
        return Measured(counts, tuple(runs), watch.lost, taken, time.monotonic() - clock)


class _Watch:
    """Looks after a coordinator and its cluster: machines are lost, dead ones replaced."""

    def __init__(self, cluster: StubCluster, archive: Path, load: Load, chance: random.Random) -> None:
        self._cluster, self._archive, self._load, self._chance = cluster, archive, load, chance
        self._next = time.monotonic() + load.lose_every
        self.lost = 0

    def until(self, process: subprocess.Popen[bytes], done: int | None) -> None:
        """Return when so many pairs are finished, or, with None, when the coordinator has ended well."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if process.poll() is not None:
                if process.returncode or done is not None:
                    raise RuntimeError(f"the coordinator ended with {process.returncode}; see its log")
                return
            if done is not None and self._finished() >= done:
                return
            self.lost += self._cluster.revive()
            if self._load.lose_every > 0 and time.monotonic() > self._next:
                self._next += self._load.lose_every
                self.lost += self._cluster.replace_machine(self._chance)
            time.sleep(LOOK)
        raise RuntimeError(f"the coordinator was not through after {PATIENCE:.0f} s")

    def _finished(self) -> int:
        try:
            with Ledger.reader(self._archive) as ledger:
                counts = ledger.counts()
        except WorkflowError:
            return 0  # it is still being made
        return counts.done + counts.failed


@contextmanager
def _coordinator(
    folder: Path, pairs: Path, archive: Path, cluster: StubCluster, number: int
) -> Iterator[subprocess.Popen[bytes]]:
    settings = Settings(str(pairs), str(archive), cluster.address, str(folder / f"notes-{number}.json"))
    file = folder / f"settings-{number}.json"
    file.write_text(json.dumps(asdict(settings)))
    program = Path(__file__).with_name("watched.py")
    with (folder / f"coordinator-{number}.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, str(program), str(file)], stdout=log, stderr=log, env=cluster.environment
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def _notes(folder: Path, number: int) -> dict[str, Any]:
    notes: dict[str, Any] = json.loads((folder / f"notes-{number}.json").read_text())
    return notes


def run_tables(load: Load, measured: Measured) -> str:
    """Return what a run with a restart came to."""
    counts, (first, *others) = measured.counts, measured.runs
    last = others[-1] if others else first
    working = first["now"] - first["moments"]["work began"]
    finished = sum(first["calls"][f"ledger.{name}"][0] for name in ("done", "failed"))
    head = ["what", "figure"]
    could = load.workers / load.plan.seconds if load.plan.seconds else math.inf
    repeated = sum(_calls(run, "ledger.again")[0] for run in measured.runs)
    lines = [
        ["pairs", f"{counts.total:,}"],
        ["workers, on so many machines", f"{load.workers} on {load.machines}"],
        ["a pair takes, mean", f"{load.plan.seconds:g} s"],
        ["pairs done, failed", f"{counts.done:,}, {counts.failed:,}"],
        ["attempts that failed and were repeated", f"{repeated:,.0f}"],
        ["workers killed", f"{measured.lost:,}"],
        ["all of it", f"{measured.seconds:.0f} s"],
        ["pairs finished while there was work", f"{finished / working:.0f} /s"],
        ["reports written and recorded, if that were all", f"{_written_rate(first):.0f} /s"],
        ["the workers could have done", f"{could:.0f} /s"],
        ["coordinator, most memory while it worked", f"{first['peak'] / MIB:.0f} MiB"],
        ["coordinator, most memory with the layers", f"{last['peak'] / MIB:.0f} MiB"],
        ["scheduler, most memory", f"{measured.scheduler.peak / MIB:.0f} MiB"],
        ["scheduler, core time a pair", f"{1e3 * measured.scheduler.cpu / counts.total:.2f} ms"],
        ["coordinator, core time a pair", f"{1e3 * _working_cpu(first) / finished:.2f} ms"],
    ]  # fmt: skip
    if others:
        lines.append(["killed and started again at", f"{load.kill_at:.1%} done; then:"])
    lines += _moments(last)
    return table(head, lines) + "\n\n" + calls_table(first)


def calls_table(notes: dict[str, Any]) -> str:
    """Return how often and how long a coordinator was in what.

    ``archivefolder.install`` runs in several threads at once, all of them within ``dispatch._install``, which
    also tells the ledger; ``engine.wait`` is the time in which there was nothing to do.
    """
    rows = [
        [name, f"{count:,.0f}", f"{1e3 * seconds / count:.3f}", f"{seconds:.1f}"]
        for name, (count, seconds) in notes["calls"].items()
        if count
    ]
    return table(["call of the coordinator", "calls", "ms each", "seconds"], rows)


def _calls(notes: dict[str, Any], name: str) -> tuple[float, float]:
    count, seconds = notes["calls"].get(name, (0, 0.0))
    return count, seconds


def _written_rate(notes: dict[str, Any]) -> float:
    reports, seconds = _calls(notes, "archivefolder.install")[0], _calls(notes, "dispatch._install")[1]
    return reports / seconds if seconds else 0.0


def _working_cpu(notes: dict[str, Any]) -> float:
    return float(notes["cpu"] - notes["cpu_at"]["work began"])


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one of the commands."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("command", choices=("run", "saturate", "restart"))
    parser.add_argument("--folder", type=Path, default=Path("runs/scale"))
    parser.add_argument("--pairs", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=500)
    parser.add_argument("--machines", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=2.0, help="mean seconds of a pair")
    parser.add_argument("--houses", type=int, default=6, help="changes in the report of a pair")
    parser.add_argument("--lose-every", type=float, default=30.0, help="seconds between lost machines")
    parser.add_argument("--kill-at", type=float, default=0.99, help="share done at the restart")
    options = parser.parse_args(arguments)
    report = str(write_report(options.folder / "report", options.houses))
    if options.command == "restart":
        notes = restart(options.folder, options.pairs, options.kill_at, Path(report))
        print(restart_table(options.pairs, options.kill_at, notes))
        return
    size = {"pairs": options.pairs, "workers": options.workers, "machines": options.machines}
    if options.command == "run":
        poisoned = tuple(
            f"site-{n // 100:05d}_{n % 100:02d}" for n in (options.pairs // 3, options.pairs // 2)
        )
        plan = StubPlan(report, options.seconds, 0.5, refused=0.01, failed=0.02, poisoned=poisoned)
        load = Load(
            **size, houses=options.houses, plan=plan, lose_every=options.lose_every, kill_at=options.kill_at
        )
    else:
        load = Load(**size, houses=options.houses, plan=StubPlan(report, 0.0, 0.0))
    print(run_tables(load, simulate(options.folder, load)))


if __name__ == "__main__":
    main()

"""Small pairs for an archive, some broken in every way; runs of their table with an inline engine."""

from __future__ import annotations

import csv
import json
import re
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from archive_fakes import fake_card
from captioners import BrightnessCaptioner
from report_checks import without_times
from scene_pairs import GROUND, MadePair, make_pair, north_up, write_raster

from workflows import SceneOptions
from workflows.archive.archive import ArchiveOptions
from workflows.archive.index import PairState
from workflows.archive.run import ArchiveSummary, run_archive
from workflows.archive.state import read_state
from workflows.archive.workers.engine import Engine
from workflows.archive.workers.tasks import Outcome, Task, run_task
from workflows.pairs.table import read_pairs

LONG = 300.0


def make_tasks(folder: Path, names: tuple[str, ...]) -> list[Task]:
    """Tasks of small pairs; the words of :mod:`archive_fakes` in a name say what the pair does."""
    made = []
    for number, name in enumerate(names):
        pair = make_pair(
            folder,
            [(20, 20, 20, 30, 200 + number % 50)],
            size=(70, 90),
            names=(f"{name}_{number}.tif", f"after_{number}.tif"),
        )
        scenes = (str(pair.before), str(pair.after))
        made.append(Task(f"{name}-{number}", *scenes, SceneOptions()))
    return made


def drive(engine: Engine, tasks: list[Task], seconds: float = LONG) -> dict[str, Outcome]:
    """Submit what the engine wants, until all outcomes are there; by pair."""
    left, deadline, outstanding = list(tasks), time.monotonic() + seconds, 0
    outcomes: dict[str, Outcome] = {}
    while left or outstanding:
        while left and outstanding < engine.wanted():
            engine.submit(left.pop(0))
            outstanding += 1
        for outcome in engine.wait(5):
            outstanding -= 1
            assert outcome.pair not in outcomes
            outcomes[outcome.pair] = outcome
        assert time.monotonic() < deadline, "not done in time"
    return outcomes


def lasting(content: bytes) -> dict:
    """A report but for times."""
    report = json.loads(content)
    return {**report, "rscc": without_times(report["rscc"])}


class InlineEngine:
    """Does one of at most ``wanted`` tasks for every call of :meth:`wait`.

    ``answer`` is called first with each task; what it returns is the outcome, unless it is None. ``tasks``
    has them in the order they were done, ``abandoned`` says how the run ended.
    """

    name = "inline"

    def __init__(self, wanted: int = 4, answer: Callable[[Task], Outcome | None] = lambda task: None) -> None:
        self._wanted, self._answer = wanted, answer
        self._captioner = BrightnessCaptioner()
        self.queue: deque[Task] = deque()
        self.tasks: list[Task] = []
        self.abandoned: bool | None = None

    def wanted(self) -> int:
        return self._wanted

    def submit(self, task: Task) -> None:
        assert len(self.queue) < self._wanted
        self.queue.append(task)

    def wait(self, timeout: float) -> list[Outcome]:
        if not self.queue:
            return []
        task = self.queue.popleft()
        self.tasks.append(task)
        answered = self._answer(task)
        return [run_task(task, self._captioner, "inline") if answered is None else answered]

    def withdraw(self) -> list[str]:
        pairs = [task.pair for task in self.queue]
        self.queue.clear()
        return pairs

    def __enter__(self) -> InlineEngine:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.abandoned = error is not None


SIZE = (64, 96)
# What is wrong with a pair -> the error that it fails with; None where the process is gone.
BREAKAGES = {
    "missing": "SceneNotFound",
    "damaged": "SceneDamaged",
    "placeless": "MissingCRS",
    "apart": "NoOverlap",
    "text": "NotARaster",
    "abort": None,
}


@dataclass(frozen=True)
class MadeArchive:
    """A table, the ids of its pairs in order, and how some are broken; scenes lie in ``scenes`` beside."""

    table: Path
    pairs: list[str]
    broken: dict[str, str]

    @property
    def scenes(self) -> Path:
        return self.table.parent / "scenes"

    @property
    def sound(self) -> list[str]:
        return [pair for pair in self.pairs if pair not in self.broken]

    def before(self, pair: str) -> Path:
        name = f"abort_{pair}" if self.broken.get(pair) == "abort" else pair
        return self.scenes / f"{name}_before.tif"

    def after(self, pair: str) -> Path:
        return self.scenes / f"{pair}_after.tif"


def make_archive(
    folder: Path,
    count: int,
    *,
    each: int = 0,
    breakages: Sequence[str] = tuple(BREAKAGES),
    size: tuple[int, int] = SIZE,
    seed: int = 0,
) -> MadeArchive:
    """Write ``count`` pairs of ``size`` pixels of 0.5 m and their table.

    ``each`` pairs are broken in each of the ways, spread over the table; the others have up to three changed
    rectangles of at least 25 square metres.
    """
    random = np.random.default_rng(seed)
    pairs = [f"p{number:04d}" for number in range(count)]
    chosen = random.choice(count, each * len(breakages), replace=False)
    broken = {pairs[number]: breakages[place // each] for place, number in enumerate(chosen)}
    made = MadeArchive(folder / "pairs.csv", pairs, broken)
    made.scenes.mkdir(parents=True)
    for number, pair in enumerate(pairs):
        _write_pair(made, pair, 500_000.0 + 1000 * number, size, random)
        if pair in broken:
            _break(made.before(pair), made.after(pair), broken[pair])
    write_table(made)
    return made


def write_table(made: MadeArchive, pairs: Sequence[str] | None = None) -> None:
    """Write the table, with some of the pairs only."""
    with made.table.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["pair", "before", "after", "date_before", "date_after", "site"])
        for pair in made.pairs if pairs is None else pairs:
            scenes = [path.relative_to(made.table.parent) for path in (made.before(pair), made.after(pair))]
            table.writerow([pair, *scenes, "2019-05-01", "2021", f"site{int(pair[1:]) % 7}"])


def _write_pair(
    made: MadeArchive, pair: str, west: float, size: tuple[int, int], random: np.random.Generator
) -> MadePair:
    height, width = size
    ranges = ((0, height - 20), (0, width - 20), (10, 20), (10, 20), (190, 250))
    rectangles = [tuple(int(random.integers(*ends)) for ends in ranges) for _ in range(random.integers(0, 4))]
    names = (made.before(pair).name, made.after(pair).name)
    return make_pair(made.scenes, rectangles, size=size, origin=(west, 5_600_000.0), names=names)


def _break(before: Path, after: Path, how: str) -> None:
    if how == "missing":
        after.unlink()
    elif how == "damaged":
        content = after.read_bytes()
        after.write_bytes(content[:1000] + bytes(1000) + content[2000:])
    elif how in ("placeless", "apart"):
        west, crs = (500_000.0, None) if how == "placeless" else (300_000.0, "EPSG:32633")
        image = np.full((3, *SIZE), GROUND, np.uint8)
        write_raster(after, image, transform=north_up(west, 5_600_000.0, 0.5), crs=crs)
    elif how == "text":
        before.write_text("This is not a raster.\n")


def pairs_with_folder(archive: Path) -> int:
    """How many pairs have their folder."""
    return sum(1 for _ in (archive / "pairs").iterdir()) if (archive / "pairs").is_dir() else 0


def contents(archive: Path) -> dict[str, bytes]:
    """Everything that an archive holds, by path, but for times, workers, its id and its index.

    What is temporary would be found here, too: two archives are equal when these are.
    """
    found = {}
    for path in sorted(archive.rglob("*")):
        name = path.relative_to(archive).as_posix()
        if name in ("index.sqlite", "rscc-archive.json") or name.startswith(("claims/", "runs/")):
            continue
        content = path.read_bytes() if path.is_file() else b"folder"
        if path.name == "changes.geojson":
            content = re.sub(rb'"started": "[^"]*", "seconds": [0-9.]+', b"", content)
        elif name == "summary.csv":
            content = _without_times(content)
        elif name.startswith("failed/"):
            content = re.sub(rb'"(worker|seconds|finished)": [^,}]+', b"", content)
        elif name == "run.json":
            content = re.sub(rb'"engine": "\w+"', b"", content)
        found[name] = content
    return found


def _without_times(summary: bytes) -> bytes:
    rows = list(csv.reader(summary.decode().splitlines()))
    kept = [place for place, name in enumerate(rows[0]) if name not in ("seconds",)]
    return "\n".join(",".join(row[place] for place in kept) for row in rows).encode()


def run(
    made: MadeArchive,
    out: Path,
    engine: InlineEngine | None = None,
    scene: SceneOptions | None = None,
    notice: Callable[[str], None] | None = None,
    warn: Callable[[str], None] | None = None,
    **options,
) -> ArchiveSummary:
    """Run the table into ``out``; without an engine none may be started."""

    def start() -> InlineEngine:
        assert engine is not None, "there is nothing to do"
        return engine

    how = scene or SceneOptions(), ArchiveOptions(**options)
    rows = read_pairs(made.table)
    return run_archive(rows, out, fake_card("fake"), start, *how, notice=notice, warn=warn)


def begun(engine: InlineEngine) -> list[str]:
    """The pairs that an engine was given, in order."""
    return [task.pair for task in engine.tasks]


def states(out: Path) -> dict[str, str]:
    with read_state(out) as state:
        return {row.pair: row.state for row in state.index.rows()}


def row_of(out: Path, pair: str) -> PairState:
    with read_state(out) as state:
        return state.index.one(pair)


def mark(report: Path) -> bytes:
    """Confirm the first change of a report, which has one, as a person does; returns its new bytes.

    It is left without its attribute ``id``, which GIS drop, and without one that earlier versions lack.
    """
    content = json.loads(report.read_bytes())
    properties = content["features"][0]["properties"]
    properties |= {"review_status": "confirmed", "reviewer": "Zoe"}
    del properties["id"], properties["changed_at_least"]
    # A new file, as rscc review and GIS make it.
    report.unlink()
    report.write_text(json.dumps(content)[:-2] + "\n]\n}\n")
    return report.read_bytes()

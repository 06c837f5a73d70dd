"""What the tests of all engines do with one: tasks of small pairs, and driving them through."""

from __future__ import annotations

import json
import time
from pathlib import Path

from lasting_records import without_times
from scene_pairs import make_pair

from workflows import SceneOptions
from workflows.engines.engine import Engine
from workflows.engines.tasks import Outcome, Task

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
        made.append(Task(f"t{number}", f"{name}-{number}", "pair", 1, *scenes, SceneOptions()))
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
            assert outcome.task.pair not in outcomes
            outcomes[outcome.task.pair] = outcome
        assert time.monotonic() < deadline, "not done in time"
    return outcomes


def lasting(content: bytes) -> dict:
    """A report but for times."""
    report = json.loads(content)
    return {**report, "rscc": without_times(report["rscc"])}

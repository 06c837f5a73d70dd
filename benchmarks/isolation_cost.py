"""What the limits of worker processes cost: the same pair done with and without them, in turns, in one run.

Usage: python benchmarks/isolation_cost.py BEFORE AFTER [--model NAME] [--rounds 10]
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

from workflows import SceneOptions
from workflows.engines.limits import Limits
from workflows.engines.local import LocalEngine
from workflows.engines.tasks import ModelSource, Task


def seconds(engine: LocalEngine, task: Task) -> float:
    """Return how long a task takes from here and back; one that fails ends the benchmark."""
    start = time.perf_counter()
    engine.submit(task)
    outcomes = []
    while not outcomes:
        outcomes = engine.wait(1.0)
    if outcomes[0].state != "done":
        raise SystemExit(f"{outcomes[0].state}: {outcomes[0].line}")
    return time.perf_counter() - start


def main() -> None:
    """Print the median seconds of both, and the median of the ratios of the rounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--model", default="rscc-base")
    parser.add_argument("--rounds", type=int, default=10)
    arguments = parser.parse_args()
    source = ModelSource(arguments.model, "cpu")
    scenes = str(arguments.before), str(arguments.after)
    with LocalEngine(source, 1) as free, LocalEngine(source, 1, limits=Limits()) as limited:
        times: dict[bool, list[float]] = {False: [], True: []}
        for number in range(arguments.rounds + 1):
            for isolate, engine in ((False, free), (True, limited)):
                task = Task(f"t{number}", f"pair-{number}", "pair", 1, *scenes, SceneOptions())
                times[isolate].append(seconds(engine, task))
    # The first round loads the models.
    plain, isolated = times[False][1:], times[True][1:]
    ratios = [b / a for a, b in zip(plain, isolated, strict=True)]
    print(
        f"without {statistics.median(plain):.3f} s, with {statistics.median(isolated):.3f} s a pair; ratio "
        f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f}) in {len(ratios)} rounds"
    )


if __name__ == "__main__":
    main()

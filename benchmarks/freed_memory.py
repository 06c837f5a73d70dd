"""What keeping freed memory brings: processor time of the search with and without it, in turns, as Markdown.

    python benchmarks/freed_memory.py [--models rscc-base rscc-small rscc-medium] [--tiles 16] [--repeat 3]

Each time is that of a process of its own with one thread, which takes batches of random tiles through trunk,
change head and encoder; the fastest of the repeats counts. Processor time, not the clock's: other work on the
machine lengthens it less. Peak memory is that of the whole process.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time

import numpy as np

from rscc.freed_memory import keep_freed_memory
from rscc.markdown import table

BATCHES = 3


def measure(model: str, tiles: int, keep: bool) -> tuple[float, float]:
    """Return seconds of the processor for a batch, and the peak of this process in MB."""
    from rscc import Captioner

    kept = keep_freed_memory() if keep else False
    assert kept == keep, "glibc's malloc is needed, and no MALLOC_ variables"
    captioner = Captioner.load(model, device="cpu")
    side, rng = captioner.card.tile_size, np.random.default_rng(0)
    before, after = rng.integers(0, 256, (2, tiles, 3, side, side), dtype=np.uint8)
    captioner.predict_change(before, after)
    begin = time.process_time()
    for _ in range(BATCHES):
        captioner.predict_change(before, after)
    seconds = (time.process_time() - begin) / BATCHES
    return seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def in_process(model: str, tiles: int, keep: bool) -> tuple[float, float]:
    """Measure in a process of its own."""
    command = [
        sys.executable,
        __file__,
        "--models",
        model,
        "--tiles",
        str(tiles),
        "--measure",
        str(int(keep)),
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    seconds, peak = json.loads(done.stdout)
    return seconds, peak


def compare(model: str, tiles: int, repeat: int) -> list[str]:
    """Return the row of a model."""
    found: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    for _ in range(repeat):
        for keep in found:
            found[keep].append(in_process(model, tiles, keep))
    (without, low), (with_it, high) = (map(min, zip(*found[keep], strict=True)) for keep in (False, True))
    return [
        model,
        f"{without:.2f}",
        f"{with_it:.2f}",
        f"{without / with_it:.2f}",
        f"{low:.0f}",
        f"{high:.0f}",
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", default=["rscc-base", "rscc-small", "rscc-medium"])
    parser.add_argument("--tiles", type=int, default=16)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--measure", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure is not None:
        print(json.dumps(measure(arguments.models[0], arguments.tiles, bool(arguments.measure))))
        return
    head = ["model", "s, returned", "s, kept", "times faster", "MB, returned", "MB, kept"]
    print(table(head, [compare(model, arguments.tiles, arguments.repeat) for model in arguments.models]))


if __name__ == "__main__":
    main()

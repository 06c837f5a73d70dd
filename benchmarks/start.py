"""Where the time of a short run of ``rscc caption`` goes, from the shell to the shell.

    python benchmarks/start.py BEFORE AFTER [--model rscc-base] [--rounds 5]

Each round is one run in a process of its own, with clocks around its parts; prints medians over the rounds,
in seconds, as shares of the whole, and as seconds of the processor, of all cores together. Other work on the
machine disturbs the last least, with ``OMP_NUM_THREADS=1`` in the environment.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

PARTS = (
    "interpreter and imports",
    "model: description and hashes",
    "model: build and weights",
    "first batch",
    "the rest of the run",
    "end of the process",
    "whole",
)
Round = dict[str, list[float]]
"""Seconds of each part, and of these the processor's."""


def clocked(words: Sequence[str], began: float) -> None:
    """Be one run of ``rscc`` that began at ``began``, and print the seconds of its parts as JSON."""
    # What the command imports as it goes, brought forward: the clock stands between parts.
    import rscc.inference.facts  # noqa: F401
    import workflows.cli.commands
    import workflows.scene.run  # noqa: F401
    from rscc import captioner
    from rscc.captioner import Captioner
    from workflows.cli.app import main

    def passed() -> np.ndarray:
        return np.array([time.time() - began, time.process_time()])

    seconds = {PARTS[0]: passed()}

    def timed(part: str, function: Callable[..., Any], *, once: bool = False) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            start = passed()
            try:
                return function(*arguments, **named)
            finally:
                if not (once and part in seconds):
                    seconds[part] = seconds.get(part, 0) + passed() - start

        return call

    captioner.open_model_folder = timed(PARTS[1], captioner.open_model_folder)
    captioner.load_model = timed(PARTS[2], captioner.load_model)
    captioner.load_facts = timed(PARTS[2], captioner.load_facts)
    for name in ("search", "survey"):
        setattr(Captioner, name, timed(PARTS[3], getattr(Captioner, name), once=True))
    try:
        main(words)
    finally:
        seconds[PARTS[4]] = passed() - sum(seconds.values())
        print(json.dumps({part: pair.tolist() for part, pair in seconds.items()}), flush=True)


def one_round(before: Path, after: Path, model: str) -> Round:
    """Return the seconds of one run."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["caption", str(before), str(after), "--model", model, "--device", "cpu", "--quiet"]
        words += ["--output", str(Path(folder) / "changes.geojson")]
        began = time.time()
        command = [sys.executable, __file__, "--round", repr(began), *words]
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert process.stdout is not None
        with process.stdout as told:
            seconds: Round = json.loads(told.read())
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0, "the run failed"
        whole = np.array([time.time() - began, used.ru_utime + used.ru_stime])
    ended = whole - np.sum(list(seconds.values()), axis=0)
    return {**seconds, PARTS[5]: ended.tolist(), PARTS[6]: whole.tolist()}


def table(rounds: Sequence[Round]) -> str:
    """Return medians of the rounds as a table in Markdown."""
    medians = {part: np.median([one[part] for one in rounds], axis=0) for part in PARTS}
    lines = ["| part | s | share | processor, s |", "|---|---:|---:|---:|"]
    for part, (wall, processor) in medians.items():
        share = 100 * wall / medians["whole"][0]
        lines.append(f"| {part} | {wall:.2f} | {share:.0f} % | {processor:.2f} |")
    return "\n".join(lines)


def main(words: Sequence[str] | None = None) -> None:
    """Run the script."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--model", default="rscc-base")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(words)
    one_round(options.before, options.after, options.model)  # brings the files into memory
    rounds = [one_round(options.before, options.after, options.model) for _ in range(options.rounds)]
    print(table(rounds))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--round"]:
        clocked(sys.argv[3:], float(sys.argv[2]))
    else:
        main()

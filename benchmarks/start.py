"""Where the time of a short run of ``rscc caption`` goes, from the shell to the shell.

    python benchmarks/start.py BEFORE AFTER [--model rscc-base] [--rounds 5]

Each round is one run in a process of its own, with clocks around its parts; medians over the rounds, in
seconds and as shares of the whole. "processor" is the time of all cores, which other work on the machine
disturbs less.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

PARTS = (
    "interpreter and imports",
    "model: description and hashes",
    "model: build and weights",
    "first batch",
    "the rest of the run",
    "end of the process",
)
Round = dict[str, float]


def clocked(words: Sequence[str], began: float) -> None:
    """Be one run of ``rscc`` that began at ``began``, and print the seconds of its parts as JSON."""
    # What the command imports before its model, brought forward: the clock stands between parts.
    import rscc.inference.facts  # noqa: F401
    import workflows.cli.commands
    import workflows.scene.run  # noqa: F401
    from rscc import captioner
    from rscc.captioner import Captioner
    from workflows.cli.app import main

    seconds = {PARTS[0]: time.time() - began}

    def timed(part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            start = time.time()
            try:
                return function(*arguments, **named)
            finally:
                if not (part == "first batch" and part in seconds):
                    seconds[part] = seconds.get(part, 0.0) + time.time() - start

        return call

    captioner.open_model_folder = timed(PARTS[1], captioner.open_model_folder)
    captioner.load_model = timed(PARTS[2], captioner.load_model)
    captioner.load_facts = timed(PARTS[2], captioner.load_facts)
    Captioner.predict_change = timed(PARTS[3], Captioner.predict_change)  # type: ignore[method-assign]
    try:
        main(words)
    finally:
        seconds[PARTS[4]] = time.time() - began - sum(seconds.values())
        print(json.dumps(seconds), flush=True)


def one_round(before: Path, after: Path, model: str) -> Round:
    """Return the seconds of the parts of one run, of the ``whole`` and of the ``processor``."""
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
        whole = time.time() - began
    ended = {PARTS[5]: whole - sum(seconds.values()), "whole": whole}
    return {**seconds, **ended, "processor": used.ru_utime + used.ru_stime}


def table(rounds: Sequence[Round]) -> str:
    """Return medians of the rounds as a table in Markdown."""
    medians = {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
    lines = ["| part | s | share |", "|---|---:|---:|"]
    for name in (*PARTS, "whole", "processor"):
        share = "" if name == "processor" else f"{medians[name] / medians['whole']:.0%}".replace("%", " %")
        lines.append(f"| {name} | {medians[name]:.2f} | {share} |")
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

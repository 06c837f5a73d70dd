"""Helpers of the scripts: time several ways in turns, run ``rscc caption`` here or from the shell."""

from __future__ import annotations

import contextlib
import io
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rasterio

HERE = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Pair:
    """Two scenes on one grid in metres, and their size."""

    before: Path
    after: Path
    pixels: int
    km2: float

    @classmethod
    def of(cls, before: Path, after: Path) -> Pair:
        """Read the size from the header of ``before``, whose coordinates are in metres."""
        with rasterio.open(before) as file:
            pixels = file.width * file.height
            km2 = pixels * abs(file.transform.determinant) / 1e6
        return cls(before.resolve(), after.resolve(), pixels, km2)

    def km2_per_minute(self, seconds: float) -> float:
        """Return the area per minute if the whole pair takes ``seconds``."""
        return 60 * self.km2 / seconds


def in_turns(ways: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """Call all ways in turns, once more than ``rounds``; return the seconds of all but the first, by name."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(-1, rounds):
        for name, way in ways.items():
            begin = time.perf_counter()
            way()
            took = time.perf_counter() - begin
            print(f"round {number + 1} of {rounds}: {name}: {took:.2f} s", file=sys.stderr, flush=True)
            if number >= 0:
                seconds[name].append(took)
    return seconds


def medians(seconds: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Return the median of the rounds by name."""
    return {name: statistics.median(rounds) for name, rounds in seconds.items()}


def caption_words(pair: Pair, output: Path, options: Sequence[str] = ()) -> list[str]:
    """Return the arguments of ``rscc`` that caption a pair and print the run as JSON."""
    written = ["-o", str(output.resolve()), "--overwrite", "-q", "--json"]
    return ["caption", str(pair.before), str(pair.after), *written, *options]


def from_shell(pair: Pair, output: Path, options: Sequence[str] = ()) -> dict[str, Any]:
    """Run ``python -m rscc caption`` in a new process; return its JSON.

    Raises:
        RuntimeError: it failed.
    """
    done = subprocess.run(
        [sys.executable, "-m", "rscc", *caption_words(pair, output, options)],
        cwd=HERE,
        env={**os.environ, "PYTHONPATH": str(HERE)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"rscc ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


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


def write_json(path: Path | None, content: Any) -> None:
    """Write plain values as JSON, unless ``path`` is None."""
    if path is not None:
        path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")

"""Run the command with the fake captioner, slowed down, so that a test can kill it at work.

Usage: python slow_captioner.py SECONDS ARGUMENTS...
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from fakes import BrightnessCaptioner

from workflows import SceneOptions
from workflows.cli.app import main
from workflows.scene.parts import find_part


class SlowCaptioner(BrightnessCaptioner):
    """Takes its time over every batch; says in how far a tile lies from its neighbours in the batch."""

    def __init__(self, seconds: float, **values) -> None:
        super().__init__(**values)
        self.seconds = seconds

    def predict_change(self, before, after):
        time.sleep(self.seconds)
        found = super().predict_change(before, after)
        # As of a real network, the last bits depend on where in which batch a tile is.
        found.change_probability[:] *= 1 - 1e-6 * len(before)
        found.change_probability[:] *= 1 - 1e-6 * float(before.mean())
        return found

    def caption(self, *arguments, **options):
        time.sleep(self.seconds)
        return super().caption(*arguments, **options)


def do_parts(seconds: float, before: Path, after: Path, cache: Path, parts: list[tuple[int, int]]) -> None:
    """Do parts of a pair, each from a row to another, one after the other."""
    captioner, options = SlowCaptioner(seconds), SceneOptions(tile_cache=cache)
    for rows in parts:
        find_part(before, after, captioner, options, rows)


if __name__ == "__main__":
    main(sys.argv[2:], captioner_factory=lambda model, device: SlowCaptioner(float(sys.argv[1])))

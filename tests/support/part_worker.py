"""Do parts of a pair with a fake captioner, slowed down, so that a test can kill the process at work."""

from __future__ import annotations

from pathlib import Path

from slow_captioner import SlowCaptioner

from workflows import SceneOptions
from workflows.scene.parts import find_part


def do_parts(seconds: float, before: Path, after: Path, cache: Path, parts: list[tuple[int, int]]) -> None:
    """Do parts, each from a row to another, one after the other."""
    captioner, options = SlowCaptioner(seconds), SceneOptions(tile_cache=cache)
    for rows in parts:
        find_part(before, after, captioner, options, rows)

"""Do parts of a pair with a fake captioner, slowed down, so that a test can kill it at work.

Usage: python part_worker.py SECONDS BEFORE AFTER CACHE ROW:END...
"""

from __future__ import annotations

import sys
from pathlib import Path

from slow_captioner import SlowCaptioner

from workflows import SceneOptions
from workflows.scene.parts import find_part

if __name__ == "__main__":
    seconds, before, after, cache, *parts = sys.argv[1:]
    captioner = SlowCaptioner(float(seconds))
    options = SceneOptions(tile_cache=Path(cache))
    for part in parts:
        top, end = part.split(":")
        find_part(before, after, captioner, options, (int(top), int(end)))

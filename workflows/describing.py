"""The words for each change of a scene: which crops are read for it, and what is said of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tiling import ChangeRegion, ScenePair, TileGrid, Window
from workflows.crops import CropPlanner, best_caption
from workflows.options import SceneOptions
from workflows.progress import Progress, batches, tell

if TYPE_CHECKING:
    from rscc.captioner import Captioner
    from rscc.structures import Caption


def describe_regions(
    pair: ScenePair,
    grid: TileGrid,
    events: Sequence[Sequence[ChangeRegion]],
    captioner: Captioner,
    options: SceneOptions,
    progress: Progress | None = None,
) -> list[tuple[Caption, tuple[str, ...]]]:
    """Return for every event, which is one region or a group of them, its caption and alternatives.

    The captioner is told that something changed: a region exists because the model saw a change there.
    """
    planner = CropPlanner(grid)
    plans = [[crop for region in event for crop in planner.crops(region.pixel_polygon)] for event in events]
    # Events may share the tiles they lie on; each window is read and described once, from top to bottom.
    windows = {_corner(window): window for plan in plans for window, _ in plan}
    spoken: dict[tuple[int, int], Caption] = {}
    for batch in batches(sorted(windows), options.batch_size):
        crops = [pair.read(windows[corner])[:2] for corner in batch]
        captions = captioner.caption(
            np.stack([crop[0] for crop in crops]),
            np.stack([crop[1] for crop in crops]),
            beams=options.beams,
            assume_changed=True,
        )
        spoken.update(zip(batch, captions, strict=True))
        tell(progress, "captions", len(spoken), len(windows))
    return [best_caption([(spoken[_corner(window)], overlap) for window, overlap in plan]) for plan in plans]


def _corner(window: Window) -> tuple[int, int]:
    return (window.row_off, window.col_off)

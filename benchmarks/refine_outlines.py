"""Do outlines come nearer to the label when a promptable segmenter redraws them? Printed as Markdown.

    python benchmarks/refine_outlines.py --data LEVIR-CC --segmenter mobile_sam:mobile_sam.pt [--scenes 3]

The crops of the validation split are put together to the scenes that they were cut from. The model finds its
polygons there, the segmenter redraws them, and both are compared with the buildings of the label that they
touch, by intersection over union: of each polygon, and of all pixels of the scenes together. Intervals are 95
percent, by the bootstrap over polygons. Never run it on the test split.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from caption_focus import scenes, write
from scipy import ndimage

from rscc.captioner import Captioner
from rscc.evaluation.bootstrap import Resamples, percentile_interval
from rscc.inference.refinement import LEAST_AGREEMENT
from rscc.markdown import table
from rscc.models.shared.extraction import Segmenter
from tiling import ChangeRegion, ScenePair, Window
from workflows.scene.carrier import OpenRun
from workflows.scene.crops import burnt
from workflows.scene.detection import find_regions
from workflows.scene.refinement import open_segmenter, refine_regions


@dataclass
class Outlines:
    """What is measured of one kind of outlines.

    Attributes:
        agreements: intersection over union of each polygon that touches a building, with those it touches.
        both, either: pixels that outlines and label share, and that one of them has at least.
        redrawn: how many have the segmenter's outline.
        seconds: of the processor, for redrawing.
    """

    agreements: list[float] = field(default_factory=list)
    both: int = 0
    either: int = 0
    redrawn: int = 0
    seconds: float = 0.0

    def add(self, regions: Sequence[ChangeRegion], touched: Sequence[np.ndarray], label: np.ndarray) -> None:
        """Count the regions of a scene; ``touched`` has the buildings (H, W) that each belongs to."""
        whole = Window(0, 0, label.shape[1], label.shape[0])
        for region, wanted in zip(regions, touched, strict=True):
            if wanted.any():
                mask = burnt([region.pixel_polygon], whole, all_touched=False)
                self.agreements.append(float((mask & wanted).sum() / (mask | wanted).sum()))
        mask = burnt([region.pixel_polygon for region in regions], whole, all_touched=False)
        self.both += int((mask & label).sum())
        self.either += int((mask | label).sum())


def measure(
    pair: ScenePair,
    label: np.ndarray,
    captioner: Captioner,
    segmenter: Segmenter,
    found: dict[float | None, Outlines],
) -> None:
    """Count one scene; the keys of ``found`` are the least agreements, None the model's own outlines."""
    run = OpenRun(pair, captioner)
    regions = find_regions(run).regions
    buildings, _ = ndimage.label(label, np.ones((3, 3)))
    whole = Window(0, 0, label.shape[1], label.shape[0])
    under = [np.unique(buildings[burnt([one.pixel_polygon], whole)]) for one in regions]
    touched = [np.isin(buildings, numbers[numbers > 0]) for numbers in under]
    for least, outlines in found.items():
        drawn, clock = regions, time.process_time()
        if least is not None:
            refined = refine_regions(run, regions, segmenter, least=least)
            drawn, outlines.redrawn = refined.regions, outlines.redrawn + refined.redrawn
            outlines.seconds += time.process_time() - clock
        outlines.add(drawn, touched, label)


def report(found: dict[float | None, Outlines]) -> str:
    """Return the table."""
    base = np.array(found[None].agreements)
    draws = Resamples(len(base))
    rows = []
    for least, outlines in found.items():
        values = np.array(outlines.agreements)
        row = [str(len(values)), "", f"{values.mean():.3f}", "", f"{outlines.both / outlines.either:.3f}", ""]
        if least is not None:
            low, high = percentile_interval(draws.means(values - base)) or (np.nan, np.nan)
            row[1], row[5] = str(outlines.redrawn), f"{outlines.seconds:.0f}"
            row[3] = f"{(values - base).mean():+.3f} ({low:+.3f} to {high:+.3f})"
        rows.append(["the model's" if least is None else f"redrawn from {least:g}", *row])
    return table(
        ["outlines", "polygons", "redrawn", "mean IoU", "more", "IoU of all pixels", "CPU seconds"], rows
    )


def main() -> None:
    """Read the options, print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--segmenter", required=True)
    parser.add_argument("--model", default="rscc-base")
    parser.add_argument("--scenes", type=int, default=None, help="take the first so many scenes only")
    parser.add_argument("--least", nargs="+", type=float, default=[LEAST_AGREEMENT])
    options = parser.parse_args()
    torch.set_num_threads(1)
    captioner, segmenter = Captioner.load(options.model, device="cpu"), open_segmenter(options.segmenter)
    found: dict[float | None, Outlines] = {least: Outlines() for least in (None, *options.least)}
    for _, before, after, label in islice(scenes(options.data, "val"), options.scenes):
        with tempfile.TemporaryDirectory() as folder:
            paths = write(Path(folder), (before, after))
            with ScenePair.open(*paths, scale=(0, 255)) as pair:
                measure(pair, label, captioner, segmenter, found)
    print(report(found))


if __name__ == "__main__":
    main()

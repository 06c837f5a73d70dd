"""What larger tiles and ``--fast`` change of what is found: on the validation split, as Markdown.

    python benchmarks/search_tiles.py --data LEVIR-CC [--model rscc-base] [--sides 256 512 1024]

The crops of the split are put together to the scenes that they were cut from, and searched by the product
with tiles of each side: pixel F1 against the building masks, overlap with what the first side finds, and how
often a pixel is seen. Then with ``--fast``, on these scenes and on the crops one by one: how much of the area
that the model finds alone is still found, and how many tiles it had to look at.
"""

from __future__ import annotations

import argparse
import dataclasses
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from caption_focus import scenes
from false_change_scenes import write_scene
from PIL import Image

from rscc.captioner import Captioner
from rscc.data.benchmarks.levir_cc import LevirCC
from rscc.markdown import table
from tiling import Band
from workflows import SceneOptions
from workflows.scene.run import SceneRun

Pair = tuple[Path, Path]


def searched(pair: Pair, captioner: Captioner, options: SceneOptions) -> tuple[np.ndarray, dict[str, int]]:
    """Return the pixels (H, W) bool that the product calls changed, and counts of tiles and pixels seen."""
    with SceneRun.open(*pair, captioner, options) as run:
        found = np.zeros((run.pair.grid.height, run.pair.grid.width), bool)

        def keep(band: Band) -> None:
            rows = slice(band.row_off, band.row_off + len(band.probability))
            found[rows] = band.probability >= options.threshold_for(run.card)

        counts = run.regions(keep).counts
        windows = [tile.window for tile in run.grid]
    seen = sum(window.width * window.height for window in windows)
    return found, {**counts, "tiles": len(windows), "seen": seen}


def f1(found: Sequence[np.ndarray], truth: Sequence[np.ndarray]) -> float:
    """Return the F1 of changed pixels over all scenes together."""
    both = sum(int((one & other).sum()) for one, other in zip(found, truth, strict=True))
    each = sum(int(one.sum()) for one in (*found, *truth))
    return 2 * both / max(1, each)


def by_side(
    pairs: Sequence[Pair], truth: Sequence[np.ndarray], captioner: Captioner, sides: Sequence[int]
) -> str:
    """Return the table of the sides of tiles."""
    rows, first, card = [], None, captioner.card
    for side in sides:
        captioner.card = dataclasses.replace(card, search_size=side)
        results = [searched(pair, captioner, SceneOptions()) for pair in pairs]
        found = [mask for mask, _ in results]
        first = first or found
        seen = sum(counts["seen"] for _, counts in results) / sum(mask.size for mask in found)
        agreed = f1(found, first)
        rows.append((str(side), f"{f1(found, truth):.4f}", f"{agreed / (2 - agreed):.3f}", f"{seen:.2f}"))
    captioner.card = card
    return table(("side, px", "F1", f"IoU with {sides[0]} px", "times a pixel is seen"), rows)


def by_cascade(groups: dict[str, Sequence[Pair]], captioner: Captioner) -> str:
    """Return the table of what ``--fast`` keeps."""
    rows = []
    for name, pairs in groups.items():
        alone = [searched(pair, captioner, SceneOptions())[0] for pair in pairs]
        results = [searched(pair, captioner, SceneOptions(fast=True)) for pair in pairs]
        area = sum(int(mask.sum()) for mask in alone)
        kept = sum(int((mask & fast).sum()) for mask, (fast, _) in zip(alone, results, strict=True))
        tiles, out = (sum(counts[key] for _, counts in results) for key in ("tiles", "ruled_out"))
        rows.append((name, f"{kept / max(1, area):.4f}", f"{tiles - out} of {tiles}"))
    return table(("", "changed area still found", "tiles that the model sees"), rows)


def written(folder: Path, name: str, before: np.ndarray, after: np.ndarray) -> Pair:
    """Write both dates (3, H, W) as scenes of a folder."""
    return write_scene(folder / f"{name}_a.tif", before), write_scene(folder / f"{name}_b.tif", after)


def read(path: Path) -> np.ndarray:
    """Return an image (3, H, W) uint8."""
    return np.asarray(Image.open(path).convert("RGB")).transpose(2, 0, 1)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="LEVIR-CC's folder")
    parser.add_argument("--split", default="val")
    parser.add_argument("--model", default="rscc-base")
    parser.add_argument("--sides", type=int, nargs="+", default=[256, 512, 1024])
    parser.add_argument("--no-fast", action="store_true", help="leave the second table out")
    given = parser.parse_args(arguments)
    captioner = Captioner.load(given.model, device="cpu", ground=False)
    with tempfile.TemporaryDirectory() as name:
        folder, whole, truth = Path(name), [], []
        for scene, before, after, label in scenes(given.data, given.split):
            whole.append(written(folder, Path(scene).stem, before, after))
            truth.append(label)
        print(by_side(whole, truth, captioner, given.sides), flush=True)
        if given.no_fast:
            return
        crops = [
            written(folder, str(number), read(record.before), read(record.after))
            for number, record in enumerate(LevirCC(given.data, given.split).records)
        ]
        print("\n" + by_cascade({f"{len(whole)} scenes": whole, f"{len(crops)} crops": crops}, captioner))


if __name__ == "__main__":
    main()

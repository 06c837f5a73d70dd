"""Pairs with change masks and captions, cut from a generated scene, in LEVIR-CC's layout."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import rasterio
from make_demo_scene import make_scene
from PIL import Image

SIDE = 128
SPLITS = ("train", "train", "train", "val")
"""Squares take turns."""
CAPTIONS = {
    True: ("houses are built in the forest", "a few houses and a road appear among the trees"),
    False: ("there is no difference", "the scene is the same as before"),
}


def write_masked_pairs(folder: Path) -> Path:
    """Write one pair for each square of a scene, with the true mask of its changes; return the folder."""
    scene = make_scene(folder / "scene")
    dates = [np.moveaxis(_pixels(path), 0, -1) for path in (scene.before, scene.after)]
    mask = np.where(_pixels(scene.truth_raster)[0] > 0, 255, 0).astype(np.uint8)
    entries = []
    for number, (row, col) in enumerate(np.ndindex(*(side // SIDE for side in mask.shape))):
        square = np.s_[row * SIDE : (row + 1) * SIDE, col * SIDE : (col + 1) * SIDE]
        split, name = SPLITS[number % len(SPLITS)], f"{number:03d}.png"
        for part, image in (("A", dates[0]), ("B", dates[1]), ("label", mask)):
            (folder / "images" / split / part).mkdir(parents=True, exist_ok=True)
            Image.fromarray(np.ascontiguousarray(image[square])).save(folder / "images" / split / part / name)
        changed = bool(mask[square].any())
        sentences = [{"tokens": caption.split()} for caption in CAPTIONS[changed]]
        entry = {"filename": name, "split": split, "changeflag": int(changed), "sentences": sentences}
        entries.append(entry)
    (folder / "LevirCCcaptions.json").write_text(json.dumps({"gsd": 0.5, "images": entries}))
    return folder


def _pixels(path: Path) -> np.ndarray:
    with rasterio.open(path) as source:
        return source.read()

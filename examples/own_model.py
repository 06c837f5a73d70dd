"""Fine-tune the shipped model on a few pairs of your own.

Usage: python examples/own_model.py [FOLDER]        (needs pip install '.[train]'; takes some minutes)

The pairs are cut from a generated scene into the layout that your own need: ``images/train/A`` (before) and
``images/train/B`` (after) with the same file names, and ``LevirCCcaptions.json``. So few pairs may improve
nothing; then the run says so and returns the start.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import rasterio
from make_demo_scene import make_scene
from PIL import Image

from rscc.configs import load_config
from rscc.training.train_model import train_model
from rscc.training.training_run import RunPaths, finetuning_config, open_start

SIDE = 256
"""Side of an image in pixels, the tile size of the model."""
# Placeholders: give each of your pairs its own sentences, ideally five by different people.
NEW = ("houses are built in the forest", "a few houses and a road appear among the trees")
SAME = ("nothing has changed", "the scene is the same as before")


def write_pairs(folder: Path) -> Path:
    """Write a changed and an unchanged pair for each square of a generated scene; return their folder."""
    scene = make_scene(folder / "scene")
    before, after = (_pixels(path) for path in (scene.before, scene.after))
    entries = []
    for number, (row, col) in enumerate(np.ndindex(before.shape[0] // SIDE, before.shape[1] // SIDE)):
        square = np.s_[row * SIDE : (row + 1) * SIDE, col * SIDE : (col + 1) * SIDE]
        # Unchanged ground still looks different on another date: here a little darker.
        for later, captions in ((after[square], NEW), ((before[square] * 0.9).astype(np.uint8), SAME)):
            name = f"{number:03d}_{'new' if captions is NEW else 'same'}.png"
            for part, image in (("A", before[square]), ("B", later)):
                (folder / "images" / "train" / part).mkdir(parents=True, exist_ok=True)
                Image.fromarray(image).save(folder / "images" / "train" / part / name)
            sentences = [{"tokens": caption.split()} for caption in captions]
            entry = {"filename": name, "split": "train", "sentences": sentences}
            entries.append(entry | {"changeflag": int(captions is NEW)})
    (folder / "LevirCCcaptions.json").write_text(json.dumps({"gsd": 0.5, "images": entries}))
    return folder


def tune(data: Path, run: Path, start: str = "rscc-base") -> Path:
    """Fine-tune a model and return the folder of the new one.

    ``rscc train --from rscc-base --data DATA --output RUN --overwrite`` does the same.
    """
    config = finetuning_config(load_config("finetune"), open_start(start))
    paths = RunPaths(data=data, output=run, start=start)
    return train_model(config, paths, name="mine", command="examples/own_model.py", overwrite=True).path


def _pixels(path: Path) -> np.ndarray:
    with rasterio.open(path) as source:
        return np.moveaxis(source.read(), 0, -1)  # (rows, columns, 3)


if __name__ == "__main__":
    work = Path(sys.argv[1] if len(sys.argv) > 1 else "demo/own_model")
    model = tune(write_pairs(work / "pairs"), work / "run")
    print(f"rscc caption before.tif after.tif --model {model}")

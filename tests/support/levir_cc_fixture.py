"""Writes small data sets of random images in the layouts that the readers know; the captions are ours."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

CHANGED = (
    ("a house appears on the left", "a house is built on the left side", "one house is built"),
    ("trees are removed at the top right", "the trees disappear", "many trees are removed"),
    ("a road is built below the villas", "a road appears", "a new road is built near the villas"),
)
UNCHANGED = ("there is no difference", "no change is seen", "the scene is the same")
TRUST = ("named", "pattern", "matched")


def write_image(path: Path, array: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(array).save(path)


def write_levir_cc(
    root: Path,
    *,
    train: int = 8,
    val: int = 4,
    test: int = 2,
    size: int = 64,
    labels: bool = True,
    seed: int = 0,
) -> Path:
    """Write a data set in LEVIR-CC's layout; every second pair has a bright square that is new.

    The first training pair has no ``trust`` field; the others take turns through :data:`TRUST`.
    """
    rng = np.random.default_rng(seed)
    entries: list[dict[str, Any]] = []
    for split, count in (("train", train), ("val", val), ("test", test)):
        for number in range(count):
            name = f"{split}_{number:06d}.png"
            changed = number % 2 == 0
            before = rng.integers(0, 120, (size, size, 3), dtype=np.uint8)
            after = np.clip(before.astype(int) + rng.integers(-5, 6, before.shape), 0, 255).astype(np.uint8)
            mask = np.zeros((size, size), np.uint8)
            if changed:
                top, left = (int(v) for v in rng.integers(0, size // 2, 2))
                mask[top : top + size // 3, left : left + size // 3] = 255
                after[mask > 0] = 230
            for part, array in (("A", before), ("B", after), *((("label", mask),) if labels else ())):
                write_image(root / "images" / split / part / name, array)
            entry = {
                "filename": name,
                "filepath": split,
                "split": split,
                "changeflag": int(changed),
                "sentences": sentences(CHANGED[number // 2 % len(CHANGED)] if changed else UNCHANGED),
                "trust": TRUST[number % len(TRUST)],
            }
            if split == "train" and number == 0:
                del entry["trust"]
            entries.append(entry)
    (root / "LevirCCcaptions.json").write_text(json.dumps({"dataset": "made up", "images": entries}))
    return root


def sentences(captions: tuple[str, ...]) -> list[dict[str, Any]]:
    return [{"tokens": caption.split(), "raw": f" {caption} ."} for caption in captions]


def write_index(root: Path, head: str, rows: Iterable[Iterable[object]]) -> None:
    """Write ``index.csv``; ``head`` has the names of the columns, parted by commas."""
    root.mkdir(parents=True, exist_ok=True)
    with (root / "index.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([head.split(","), *rows])


def write_change_masks(root: Path) -> Path:
    """Write three pairs of two collections with masks and the index."""
    rng = np.random.default_rng(0)
    rows = ("fine", "a.png", 128, 64, 0.5), ("fine", "b.png", 64, 64, 1.0), ("coarse", "c.png", 192, 192, 1.0)
    write_index(root, "dataset,file,width,height,gsd_m", rows)
    for _, name, width, height, _ in rows:
        for part in ("A", "B"):
            write_image(root / part / name, rng.integers(0, 256, (height, width, 3), dtype=np.uint8))
        write_image(root / "label" / name, rng.integers(0, 2, (height, width), dtype=np.uint8) * 255)
    return root

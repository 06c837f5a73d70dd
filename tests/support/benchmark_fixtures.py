"""Writes small data sets of random images in the official layouts of the benchmarks; captions are ours."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
from levir_cc_fixture import sentences, write_image, write_levir_cc

COUNTS = {"train": 6, "val": 4, "test": 2}
"""Entries of each split: pairs, or images that give two pairs in CLEVR-Change."""

KINDS = ("color", "material", "add", "drop", "move")
CHANGED = (
    ("a bench appears near the pond", "one bench is new"),
    ("the bench is gone", "someone took the bench away"),
)
UNCHANGED = ("nothing was modified", "no change was made")


def frames(seed: int, *, changed: bool, height: int = 48, width: int = 64) -> tuple[np.ndarray, np.ndarray]:
    """Two dates (H, W, 3) of noise; a bright square is new in the second when something changed."""
    rng = np.random.default_rng(seed)
    before = rng.integers(0, 120, (height, width, 3), dtype=np.uint8)
    after = np.clip(before.astype(int) + rng.integers(-5, 6, before.shape), 0, 255).astype(np.uint8)
    if changed:
        top, left = int(rng.integers(height // 2)), int(rng.integers(width // 2))
        after[top : top + height // 3, left : left + width // 3] = 230
    return before, after


def write_pair(before: Path, after: Path, seed: int, *, changed: bool = True, **size: int) -> None:
    for path, image in zip((before, after), frames(seed, changed=changed, **size), strict=True):
        write_image(path, image)


def write_json(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def numbers() -> dict[str, list[int]]:
    """Numbers of each split; not in order, and number 3 is left out as the release leaves some."""
    free = iter([5, 2, 9, 0, 7, 11, 4, 12, 1, 8, 6, 10])
    return {split: [next(free) for _ in range(count)] for split, count in COUNTS.items()}


def write_clevr_change(root: Path) -> Path:
    splits = numbers()
    every = sorted(number for split in splits.values() for number in split)
    changed, unchanged = {}, {}
    kinds: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for number in every:
        name = f"CLEVR_default_{number:06d}.png"
        changed[name], unchanged[name] = CHANGED[number % 2], UNCHANGED
        kinds[KINDS[number % 5]].append(f"{number:06d}.png")
        before, moved = frames(number, changed=True)
        write_image(root / "images" / name, before)
        write_image(root / "sc_images" / name.replace("default", "semantic"), moved)
        write_image(root / "nsc_images" / name.replace("default", "nonsemantic"), before[::-1].copy())
    write_json(root / "splits.json", splits)
    write_json(root / "type_mapping.json", kinds)
    write_json(root / "change_captions.json", changed)
    write_json(root / "no_change_captions.json", unchanged)
    return root


def write_clevr_dc(root: Path) -> Path:
    splits = numbers()
    captions = {}
    for number in sorted(n for split in splits.values() for n in split):
        changed = number % 3 > 0
        captions[f"{number}.png"] = CHANGED[number % 2] if changed else UNCHANGED
        name = f"{number}.png"
        write_pair(root / "bef" / name, root / "aft" / name, number, changed=changed)
    write_json(root / "split.json", splits)
    write_json(root / "captions.json", captions)
    return root


def write_spot_the_diff(root: Path) -> Path:
    """One image of each split stands there twice, and one writer left a sentence empty."""
    for start, (split, count) in enumerate(COUNTS.items()):
        entries = []
        for number in range(count):
            name = str(100 * start + max(number, 1))
            told = [*CHANGED[number % 2], " "] if number == 1 else list(CHANGED[number % 2])
            entries.append({"img_id": name, "sentences": told})
            images = root / "resized_images"
            write_pair(images / f"{name}.png", images / f"{name}_2.png", 100 * start + number)
            write_image(images / f"{name}_diff.png", np.zeros((48, 64, 3), np.uint8))
        write_json(root / f"{split}.json", entries)
    return root


def write_image_editing_request(root: Path) -> Path:
    """Pairs of several sizes; the edited image of the first pair of a split is smaller than the other."""
    for start, (split, count) in enumerate(COUNTS.items()):
        entries = []
        for number in range(count):
            uid = f"Made_{100 * start + number}"
            before, after = f"{uid}_a.png", f"{uid}_b.jpg"
            wide = 64 + 16 * (number % 2)
            write_pair(root / "images" / before, root / "images" / after, number, height=40, width=wide)
            if number == 0:
                write_image(root / "images" / after, frames(number, changed=True, height=20, width=30)[1])
            told = ("Add a bench ", "put a bench in", "a bench please")[: 1 if split == "train" else 3]
            entries.append({"uid": uid, "img0": before, "img1": after, "sents": told})
        write_json(root / {"val": "valid.json"}.get(split, f"{split}.json"), entries)
    return root


def write_dubai_cc(root: Path) -> Path:
    """Every third tile is unchanged; of every other tile one of three writers saw nothing."""
    names = {"train": "Train", "val": "Validation", "test": "Test"}
    for row, (split, count) in enumerate(COUNTS.items()):
        entries = []
        for number in range(count):
            name = f"{row}x{number}.tif"
            changed = number % 3 > 0
            told = (f"{CHANGED[number % 2][0].capitalize()}.", *UNCHANGED[:1])
            unchanged = ("No changes to mention in this area.", "Everything remains the same.")
            entry = {"filename": name, "split": split, "image_id": number, "sentids": [0, 1]}
            entries.append({**entry, "sentences": sentences(told if changed else unchanged)})
            for one in entries[-1]["sentences"]:
                one["raw"] = one["raw"].strip().removesuffix(" .")
            tiles = root / "imgs_tiles" / "RGB"
            before, after = (tiles / f"500_{year}" / name for year in (2000, 2010))
            write_pair(before, after, 10 * row + number, changed=changed, height=50, width=50)
        file = root / "description_jsontr_te_val" / f"{names[split]}_Dubai_CC.json"
        write_json(file, {"dataset": "made up", "images": entries})
    return root


WRITERS: dict[str, Callable[[Path], Path]] = {
    "levir_cc": write_levir_cc,
    "dubai_cc": write_dubai_cc,
    "clevr_change": write_clevr_change,
    "clevr_dc": write_clevr_dc,
    "spot_the_diff": write_spot_the_diff,
    "spot_the_diff_multi": write_spot_the_diff,
    "image_editing_request": write_image_editing_request,
}
"""How to write a fixture of each data set of :data:`rscc.data.benchmarks.registry.DATASETS`."""


def edit_json(path: Path, change) -> None:
    """Change the content of a JSON file in place."""
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))

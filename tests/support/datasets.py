"""Write small data sets of random images in the layouts that the readers know; the captions are ours."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from scipy import ndimage

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


COUNTS = {"train": 6, "val": 4, "test": 2}
"""Entries of each split: pairs, or images that give two pairs in CLEVR-Change."""

CLEVR_KINDS = ("color", "material", "add", "drop", "move")
CLEVR_CHANGED = (
    ("a bench appears near the pond", "one bench is new"),
    ("the bench is gone", "someone took the bench away"),
)
CLEVR_UNCHANGED = ("nothing was modified", "no change was made")


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
    kinds: dict[str, list[str]] = {kind: [] for kind in CLEVR_KINDS}
    for number in every:
        name = f"CLEVR_default_{number:06d}.png"
        changed[name], unchanged[name] = CLEVR_CHANGED[number % 2], CLEVR_UNCHANGED
        kinds[CLEVR_KINDS[number % 5]].append(f"{number:06d}.png")
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
        captions[f"{number}.png"] = CLEVR_CHANGED[number % 2] if changed else CLEVR_UNCHANGED
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
            told = [*CLEVR_CHANGED[number % 2], " "] if number == 1 else list(CLEVR_CHANGED[number % 2])
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
            told = (f"{CLEVR_CHANGED[number % 2][0].capitalize()}.", *CLEVR_UNCHANGED[:1])
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


def write_whu_cdc(root: Path) -> Path:
    """Captions have another file, and the split of a pair is its folder alone."""
    return _renamed(write_levir_cc(root), "whuCCcaptions.json", "split", "changeflag", "trust")


def write_forest_change(root: Path) -> Path:
    """Captions have another file, and no flag of change."""
    return _renamed(write_levir_cc(root), "ForestChatcaptions.json", "changeflag", "trust")


def write_second_cc(root: Path) -> Path:
    """Images lie in ``<split>/rgb``, with maps of land cover beside them."""
    write_levir_cc(root, labels=False)
    for split in ("train", "val", "test"):
        images = root / "images" / split
        shutil.copytree(images, root / split / "sem")
        images.rename(root / split / "rgb")
    return _renamed(root, "SECOND-CC-AUG.json", "trust")


def _renamed(root: Path, name: str, *left_out: str) -> Path:
    """Give the captions of LEVIR-CC's layout another file, without some keys of each pair."""
    content = json.loads((root / "LevirCCcaptions.json").read_text())
    for entry in content["images"]:
        for key in left_out:
            entry.pop(key, None)
    write_json(root / name, content)
    (root / "LevirCCcaptions.json").unlink()
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

LATER: dict[str, Callable[[Path], Path]] = {
    "levir_cdc": write_levir_cc,
    "whu_cdc": write_whu_cdc,
    "forest_change": write_forest_change,
    "second_cc": write_second_cc,
}
"""The same of later data sets, which no config trains."""


def edit_json(path: Path, change) -> None:
    """Change the content of a JSON file in place."""
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def ground(rng: np.random.Generator, height: int, width: int) -> np.ndarray:
    """Return (H, W, 3) uint8 of even, coloured noise."""
    noise = ndimage.gaussian_filter(rng.normal(0, 14, (height, width)), 1.2)[..., None]
    return np.clip(np.array((105, 120, 80)) + noise, 0, 255).astype(np.uint8)


def add_houses(image: np.ndarray, rng: np.random.Generator, number: int, side: int) -> np.ndarray:
    """Draw roofs and return their mask (H, W) bool."""
    mask = np.zeros(image.shape[:2], bool)
    cell = 2 * side + 10
    across = image.shape[1] // cell
    for place in rng.permutation((image.shape[0] // cell) * across)[:number]:
        top, left = side // 2 + cell * (place // across), side // 2 + cell * (place % across)
        mask[top : top + side, left : left + side] = True
    image[mask] = rng.integers(120, 220, 3)
    return mask


def write_single_date(root: Path) -> Path:
    """Write one image with a road and one with buildings."""
    rows = (("r.png", "made_up", "road", 0.4), ("h.png", "made_up", "building", 0.25))
    write_index(root, "file,dataset,class,gsd_m", rows)
    for name, _, kind, _ in rows:
        rng = np.random.default_rng(len(kind))
        image = ground(rng, 300, 400)
        if kind == "road":
            mask = np.zeros((300, 400), bool)
            mask[140:156] = True
            image[mask] = 140
        else:
            mask = add_houses(image, rng, 6, 60)
        write_image(root / "image" / name, image)
        write_image(root / "mask" / name, mask.astype(np.uint8) * 255)
    return root


NUMBERS = {
    **{"a": (1, 1), "one": (1, 1), "two": (2, 2), "three": (3, 3), "four": (4, 4), "five": (5, 5)},
    **{"a few": (3, 6), "several": (3, 9), "some": (3, 14), "a group of": (4, 14), "a row of": (3, 12)},
    **{"many": (8, 99), "lots of": (10, 99), "a lot of": (10, 99), "massive": (14, 99)},
}
"""Smallest and largest number of buildings of a number word."""


def number_word(sentence: str) -> str:
    """Return the number word that a sentence begins with."""
    return max((word for word in NUMBERS if sentence.startswith(word + " ")), key=len)

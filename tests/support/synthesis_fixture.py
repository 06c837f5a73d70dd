"""Writes what ``rscc synthesize`` reads: captioned pairs, pairs with change masks, single dates."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from benchmark_fixtures import edit_json
from levir_cc_fixture import sentences, write_image, write_index, write_levir_cc
from scipy import ndimage

BUILT = (
    ("a house appears in the upper left corner", "a house is built on the left", "one house appears"),
    ("some houses are built", "several small buildings appear at the bottom", "two villas are constructed"),
    ("many trees are removed", "a shed is removed and many houses are built", "the trees disappear"),
)
MASK_ROWS = (
    ("some", "a.png", "train", 0.5, "flip"),
    ("some", "b.png", "train", 0.5, "flip+colour"),
    ("some", "c.png", "val", 0.5, ""),
    ("some", "d.png", "train", 2.0, ""),
    ("some", "e.png", "train", 0.5, ""),
    ("other", "f.png", "train", 0.5, ""),
)


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


def write_captions(root: Path) -> Path:
    """Write captioned pairs whose sentences a grammar can be learned from."""

    def build(content) -> None:
        for number, entry in enumerate(content["images"]):
            if entry["changeflag"]:
                words = BUILT[number // 2 % len(BUILT)] if entry["split"] == "train" else ("a pond appears",)
                entry["sentences"] = sentences(words)

    edit_json(write_levir_cc(root) / "LevirCCcaptions.json", build)
    return root


def write_masks(root: Path) -> Path:
    """Write pairs with change masks; ``e.png`` has no change."""
    size = 320
    write_index(
        root, "dataset,file,split,gsd_m,augmented,width,height", [(*row, size, size) for row in MASK_ROWS]
    )
    for number, (_, name, *_) in enumerate(MASK_ROWS):
        rng = np.random.default_rng(number)
        before = ground(rng, size, size)
        after = np.clip(before.astype(int) + rng.integers(-4, 5, before.shape), 0, 255).astype(np.uint8)
        mask = add_houses(after, rng, 0 if name == "e.png" else 8, 24)
        for part, array in (("A", before), ("B", after), ("label", mask.astype(np.uint8) * 255)):
            write_image(root / part / name, array)
    return root


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
"""How few and how many buildings a number word may be said of."""


def number_word(sentence: str) -> str:
    """Return the number word that a sentence begins with."""
    return max((word for word in NUMBERS if sentence.startswith(word + " ")), key=len)

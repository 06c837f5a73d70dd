"""Draws a small CLEVR-Change in its official layout: solids on grey ground, with sentences of our own."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

SPLITS = {"train": 10, "val": 5, "test": 5}
"""Default images of each split; every one gives two pairs, so that there are 40, and five have all kinds."""

KINDS = ("color", "material", "add", "drop", "move")
COLOURS = {"red": (180, 50, 45), "green": (45, 140, 60), "blue": (50, 80, 190), "yellow": (200, 190, 50)}
SHAPES = ("cube", "ball", "cylinder")
UNCHANGED = ("the scene is the same as before", "there is no change")
HEIGHT, WIDTH = 64, 96


@dataclass(frozen=True)
class Solid:
    """One object: its shape, colour, material, and where it stands."""

    shape: str
    colour: str
    metal: bool
    left: int
    top: int

    @property
    def name(self) -> str:
        """Return how a caption calls it."""
        return f"{self.colour} {'metal' if self.metal else 'rubber'} {self.shape}"

    def draw(self, canvas: ImageDraw.ImageDraw, shift: int) -> None:
        """Draw it ``shift`` pixels to the right; metal has a highlight."""
        left, top = self.left + shift, self.top
        box = (left, top, left + 15, top + 15)
        if self.shape == "ball":
            canvas.ellipse(box, COLOURS[self.colour])
        elif self.shape == "cube":
            canvas.rectangle(box, COLOURS[self.colour])
        else:
            canvas.rounded_rectangle((left + 3, top, left + 12, top + 15), 4, COLOURS[self.colour])
        if self.metal:
            canvas.ellipse((left + 5, top + 3, left + 8, top + 6), (250, 250, 250))


def picture(solids: list[Solid], *, shift: int = 0, light: int = 130) -> Image.Image:
    """Draw solids as a camera that moved by ``shift`` pixels sees them under this light."""
    image = Image.new("RGB", (WIDTH, HEIGHT), (light,) * 3)
    for solid in solids:
        solid.draw(ImageDraw.Draw(image), shift)
    return image


def change(kind: str, solids: list[Solid], rng: np.random.Generator) -> tuple[list[Solid], tuple[str, ...]]:
    """Return what stands there after a change of a kind, and two sentences on it."""
    first, *rest = solids
    name = first.name
    if kind == "color":
        colour = next(colour for colour in COLOURS if colour != first.colour)
        told = f"the {name} turned {colour}", f"someone painted the {name} {colour}"
        return [replace(first, colour=colour), *rest], told
    if kind == "material":
        other = "rubber" if first.metal else "metal"
        told = f"the {name} became {other}", f"the {first.colour} {first.shape} is {other} now"
        return [replace(first, metal=not first.metal), *rest], told
    if kind == "drop":
        return rest, (f"the {name} is missing", f"the {name} has disappeared")
    if kind == "add":
        new = replace(first, left=int(rng.integers(0, 70)), top=44)
        return [*solids, new], (f"a {new.name} has been added", f"a {new.name} has appeared")
    moved = replace(first, top=44)
    return [moved, *rest], (f"the {name} changed its location", f"the {name} has been moved")


def write_clevr_scenes(root: Path) -> Path:
    """Write images, captions, splits and kinds, always the same."""
    rng = np.random.default_rng(0)
    count = sum(SPLITS.values())
    order = iter(rng.permutation(count).tolist())
    splits = {split: [next(order) for _ in range(size)] for split, size in SPLITS.items()}
    kinds: dict[str, list[str]] = {kind: [] for kind in KINDS}
    changed, unchanged = {}, {}
    for place, number in enumerate(number for numbers in splits.values() for number in numbers):
        kind, file = KINDS[place % len(KINDS)], f"{number:06d}.png"
        solids = [
            Solid(str(rng.choice(SHAPES)), str(rng.choice(list(COLOURS))), bool(rng.random() < 0.5), left, 16)
            for left in (6, 36, 66)
        ]
        after, told = change(kind, solids, rng)
        shift, light = int(rng.integers(-3, 4)), int(rng.integers(120, 141))
        for folder, name, image in (
            ("images", "default", picture(solids)),
            ("sc_images", "semantic", picture(after, shift=shift, light=light)),
            ("nsc_images", "nonsemantic", picture(solids, shift=-shift, light=light)),
        ):
            path = root / folder / f"CLEVR_{name}_{file}"
            path.parent.mkdir(parents=True, exist_ok=True)
            image.save(path)
        kinds[kind].append(file)
        changed[f"CLEVR_default_{file}"], unchanged[f"CLEVR_default_{file}"] = told, UNCHANGED
    for name, content in (
        *(("splits", splits), ("type_mapping", kinds)),
        *(("change_captions", changed), ("no_change_captions", unchanged)),
    ):
        (root / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return root

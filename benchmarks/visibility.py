"""What reports say of pairs under drawn haze, clouds and missing data; prints Markdown.

    python benchmarks/visibility.py --data LEVIR-CC [--pairs 20] [--weather NAME ...]
    python benchmarks/visibility.py --scenes SCENE ... [--weather NAME ...]

``--data`` takes pairs of the validation split at 0.5 m, ``--scenes`` folders with ``before.tif`` and
``after.tif``. Weather is drawn over AFTER. An identical pair, BEFORE twice, has no change: what is found is
false. Of the real pair, the outlines of the clear run count that are judged: whole, or cut by what is not
judged, at least a half. One is kept where the run under weather outlines a quarter of its judged area.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import rasterio
import shapely
from drawn_veils import with_clouds, with_haze
from PIL import Image
from shapely.geometry import shape

import rscc
from rscc.evaluation.markdown import table
from tiling import open_scene

KEPT = 0.25
# Shares of an object that are judged, from which it counts, and from which it counts as whole.
CUT, WHOLE = 0.5, 0.99
SEED = 20
BROWN = np.array([190.0, 155.0, 110.0])
PROFILE = {
    "driver": "GTiff",
    "dtype": "uint8",
    "count": 3,
    "crs": "EPSG:32614",
    "transform": rasterio.Affine(0.5, 0, 500_000, 0, -0.5, 3_350_000),
}
Draw = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def half(image: np.ndarray, strength: float) -> np.ndarray:
    """Lay haze over the east, with a soft edge."""
    columns = np.arange(image.shape[2]) - image.shape[2] / 2
    opacity = strength / (1 + np.exp(-columns / 20))
    return with_haze(image, np.broadcast_to(opacity, image.shape[1:])).image


def filled(image: np.ndarray, value: int) -> np.ndarray:
    """Make the east a fill value."""
    image = image.copy()
    image[:, :, image.shape[2] // 2 :] = value
    return image


def collared(image: np.ndarray) -> np.ndarray:
    """Lay a white collar over 24 percent of the image, along all edges."""
    rows, cols = (round(side * (1 - 0.76**0.5) / 2) for side in image.shape[1:])
    framed = np.full_like(image, 255)
    framed[:, rows:-rows, cols:-cols] = image[:, rows:-rows, cols:-cols]
    return framed


def blocked(image: np.ndarray, value: int) -> np.ndarray:
    """Make a block in the middle, of a ninth of the image, a fill value."""
    image = image.copy()
    rows, cols = (side // 3 for side in image.shape[1:])
    image[:, rows : 2 * rows, cols : 2 * cols] = value
    return image


WEATHER: Mapping[str, Draw] = {
    "haze 15 %": lambda image, _: with_haze(image, 0.15).image,
    "haze 25 %": lambda image, _: with_haze(image, 0.25).image,
    "haze 45 %": lambda image, _: with_haze(image, 0.45).image,
    "haze 55 %": lambda image, _: with_haze(image, 0.55).image,
    "haze 70 %": lambda image, _: with_haze(image, 0.70).image,
    "brown haze 30 %": lambda image, _: with_haze(image, 0.30, BROWN).image,
    "brown haze 55 %": lambda image, _: with_haze(image, 0.55, BROWN).image,
    "brown haze 90 %": lambda image, _: with_haze(image, 0.90, BROWN).image,
    "dark smoke 70 %": lambda image, _: with_haze(image, 0.70, BROWN / 2).image,
    "half under haze 55 %": lambda image, _: half(image, 0.55),
    "opaque clouds": lambda image, rng: with_clouds(image, rng).image,
    "thin clouds": lambda image, rng: with_clouds(image, rng, thinnest=0.4).image,
    "half black": lambda image, _: filled(image, 0),
    "half white": lambda image, _: filled(image, 255),
    "white collar 24 %": lambda image, _: collared(image),
    "grey block": lambda image, _: blocked(image, 128),
}


@dataclass
class Sums:
    """Totals of one kind of weather.

    Attributes:
        pairs: identical pairs with a change, and all.
        false: false changes and their square metres.
        kept: objects of the clear run that are kept, and all that are wholly judged.
        cut: the same of those that are judged in part.
        shares: share of each scene that was not judged.
    """

    pairs: list[int] = field(default_factory=lambda: [0, 0])
    false: list[float] = field(default_factory=lambda: [0, 0.0])
    kept: list[int] = field(default_factory=lambda: [0, 0])
    cut: list[int] = field(default_factory=lambda: [0, 0])
    shares: list[float] = field(default_factory=list)

    def row(self) -> list[str]:
        """Return the cells of the table."""
        return [
            f"{self.pairs[0]} of {self.pairs[1]}",
            f"{self.false[0]:.0f} ({self.false[1]:,.0f} m2)",
            f"{self.kept[0]} of {self.kept[1]}",
            f"{self.cut[0]} of {self.cut[1]}",
            f"{np.mean(self.shares):.1%}",
        ]


def images_of(arguments: argparse.Namespace) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield BEFORE and AFTER, (3, h, w) uint8 each."""
    for folder in arguments.scenes:
        with open_scene(folder / "before.tif") as before, open_scene(folder / "after.tif") as after:
            yield before.read([1, 2, 3]), after.read([1, 2, 3])
    if arguments.data is None:
        return
    entries = json.loads((arguments.data / "LevirCCcaptions.json").read_text(encoding="utf-8"))["images"]
    names = [one["filename"] for one in entries if one["split"] == "val" and one.get("gsd", 0.5) == 0.5]
    chosen = np.random.default_rng(SEED).permutation(names)[: arguments.pairs]
    for name in chosen.tolist():
        dates = [arguments.data / "images" / "val" / date / name for date in "AB"]
        before, after = (np.asarray(Image.open(path).convert("RGB")).transpose(2, 0, 1) for path in dates)
        yield before, after


def captioned(folder: Path, before: np.ndarray, after: np.ndarray, model: rscc.Captioner) -> rscc.Report:
    """Write two images as scenes of one place and caption them."""
    paths = [folder / f"{role}.tif" for role in ("before", "after")]
    for path, image in zip(paths, (before, after), strict=True):
        with rasterio.open(path, "w", **PROFILE, height=image.shape[1], width=image.shape[2]) as file:
            file.write(image)
    return rscc.caption(*paths, captioner=model)


def count_kept(clear: rscc.Report, veiled: rscc.Report, total: Sums) -> None:
    """Count the outlines of the clear run that are found again, and that could be."""
    hidden = veiled.run["not_judged"]["outline"]
    hidden = shapely.Polygon() if hidden is None else shape(hidden)
    found = shapely.union_all([change.geometry for change in veiled.changes])
    outlines = [part for change in clear.changes for part in shapely.get_parts(change.geometry)]
    for outline in outlines:
        judged = outline.difference(hidden)
        if judged.area < CUT * outline.area:
            continue
        counts = total.kept if judged.area >= WHOLE * outline.area else total.cut
        counts[0] += outline.intersection(found).area >= KEPT * judged.area
        counts[1] += 1


def measured(arguments: argparse.Namespace, weather: Sequence[str]) -> dict[str, Sums]:
    """Caption every pair under every weather."""
    model, sums = rscc.Captioner.load(), {name: Sums() for name in weather}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for number, (before, after) in enumerate(images_of(arguments)):
            clear = captioned(folder, before, after, model)
            for name, total in sums.items():
                rng = np.random.default_rng((SEED, number))
                same = captioned(folder, before, WEATHER[name](before, rng), model)
                rng = np.random.default_rng((SEED, number))
                real = captioned(folder, before, WEATHER[name](after, rng), model)
                total.pairs[0] += bool(same.changes)
                total.pairs[1] += 1
                total.false[0] += len(same.changes)
                total.false[1] += sum(change.area_m2 for change in same.changes)
                count_kept(clear, real, total)
                total.shares.append(same.run["not_judged"]["share"])
                print(number, name, *total.row(), file=sys.stderr, flush=True)
    return sums


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, help="folder in LEVIR-CC's layout")
    parser.add_argument("--scenes", type=Path, nargs="*", default=[], help="folders of both dates' scenes")
    parser.add_argument("--pairs", type=int, default=20, help="number of pairs of the validation split")
    parser.add_argument("--weather", nargs="*", default=list(WEATHER), choices=list(WEATHER))
    arguments = parser.parse_args()
    rows = [[name, *sums.row()] for name, sums in measured(arguments, arguments.weather).items()]
    names = [
        "AFTER under",
        "identical pairs with a change",
        "false changes",
        "whole objects kept",
        "cut ones kept",
        "not judged",
    ]
    print(table(names, rows))


if __name__ == "__main__":
    main()

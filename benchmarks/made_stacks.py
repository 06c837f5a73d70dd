"""Make dated stacks of scenes (uint8 RGB, 0.5 m) with known events, and score the events of a monitor.

    python benchmarks/made_stacks.py make [--data DATA] [--part val] [--seed 0] [--folder runs/stacks]
    python benchmarks/made_stacks.py score [--folder runs/stacks]
    python benchmarks/made_stacks.py limit [--data ../shared/data] [--part val] [--model rscc-base]

A stack is built up from a real pair with a change mask. Objects of the mask that lie near each other appear
at known dates: pixels of the scene after are pasted into the scene before. Some vanish again. Every date has
its own light and season, a shift of up to a pixel, noise, lorries, and on some dates haze, or clouds with
shadows. So between two dates every pixel differs, but only pasted objects count.

``--part train`` takes tiles that the shipped models learnt from (for choosing parameters), ``--part val``
tiles of official LEVIR-CC validation pairs, which they never learnt from. Each place gets a folder of scenes
``YYYY-MM-DD.tif``, ``truth.json`` and ``truth.npy``. ``score`` reads ``PLACE/monitor/events.geojson``, which
``rscc monitor PLACE --out PLACE/monitor`` writes.
``limit`` counts the events that the model finds between the two real scenes, before anything was drawn.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import geopandas as gpd
import numpy as np
import rasterio
from affine import Affine
from PIL import Image
from rasterio.features import rasterize
from scipy import ndimage

GSD, CRS, WEST, NORTH, APART = 0.5, "EPSG:32614", 600_000.0, 3_380_000.0, 2_000.0
SIDE, DATES = 512, 8
FIRST, STEP = date(2018, 1, 15), timedelta(days=61)
NEAR_PX = 56
"""Pixels up to which objects are one event, if they appear at the same date: 28 m."""
SMALLEST_PX = 160
"""Pixels of the smallest object: 40 square metres."""
MARGIN, FEATHER = 9, 2.5
"""Pixels around an object that are pasted with it, and the softness of the seam."""


@dataclass(frozen=True)
class TrueEvent:
    """Objects that appear at one date.

    Attributes:
        number: its value in the label raster.
        start: the first date, by index, that has the objects.
        stop: the first date without them again; None if they stay.
    """

    number: int
    start: int
    stop: int | None = None


def plan_events(mask: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, list[TrueEvent]]:
    """Return labels (H, W) of the events of a mask (H, W) bool, and when each takes place.

    A third of the groups of objects are built in two stages; one in six disappears after two dates or more.
    """
    objects, count = ndimage.label(ndimage.binary_opening(mask, iterations=2))
    sizes = np.bincount(objects.ravel(), minlength=count + 1)
    objects[np.isin(objects, np.flatnonzero(sizes < SMALLEST_PX))] = 0
    groups, number = ndimage.label(ndimage.distance_transform_edt(objects == 0) <= NEAR_PX / 2)
    groups[objects == 0] = 0
    labels, events = np.zeros(mask.shape, np.int32), list[TrueEvent]()
    for group in range(1, number + 1):
        members = np.unique(objects[groups == group])
        start = int(rng.integers(1, DATES))
        stages = [members]
        if len(members) > 2 and start < DATES - 1 and rng.random() < 1 / 3:
            order = members[np.argsort([np.nonzero(objects == one)[1].mean() for one in members])]
            stages = [order[: len(order) // 2], order[len(order) // 2 :]]
        for late, stage in enumerate(stages):
            first = start if not late else int(rng.integers(start + 1, DATES))
            stays = len(stages) > 1 or first + 2 >= DATES or rng.random() > 1 / 6
            stop = None if stays else int(rng.integers(first + 2, DATES))
            events.append(TrueEvent(len(events) + 1, first, stop))
            labels[np.isin(objects, stage)] = len(events)
    return labels, events


def make_dates(
    before: np.ndarray,
    after: np.ndarray,
    labels: np.ndarray,
    events: Sequence[TrueEvent],
    rng: np.random.Generator,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield for each date its image (H, W, 3) uint8, and how much (H, W) cloud or shadow is over it, 0..1.

    The images before and after are like that; for the labels see :func:`plan_events`.
    """
    after = _in_light_of(before, after, labels == 0)
    reach = ndimage.distance_transform_edt(labels == 0, return_distances=True, return_indices=True)
    distance, (rows, cols) = reach
    nearest = np.where(distance <= MARGIN, labels[rows, cols], 0)
    veiled, clouded = (rng.permutation(DATES)[: DATES // 4] for _ in range(2))
    for number in range(DATES):
        standing = [e.number for e in events if e.start <= number and (e.stop is None or number < e.stop)]
        share = ndimage.gaussian_filter(np.isin(nearest, standing).astype(np.float32), FEATHER)[..., None]
        image = before * (1 - share) + after * share
        _add_lorries(image, rng)
        image = _in_season(image, rng)
        shadow = cloud = np.zeros(labels.shape, np.float32)
        if number in clouded:
            cloud = _clouds(labels.shape, rng)
            shadow = ndimage.shift(cloud, (20, -26), order=1)
        image *= 1 - 0.45 * shadow[..., None]
        haze = cloud if number not in veiled else np.maximum(cloud, _haze(labels.shape, rng))
        image = image * (1 - haze[..., None]) + 236 * haze[..., None]
        image = ndimage.shift(image, (*rng.uniform(-1, 1, 2), 0), order=1, mode="nearest")
        image += rng.normal(0, 2.5, image.shape)
        yield image.clip(1, 255).astype(np.uint8), np.maximum(cloud, shadow)


def _in_light_of(before: np.ndarray, after: np.ndarray, same: np.ndarray) -> np.ndarray:
    """Return the scene after with the mean and the spread of colours of the scene before, by ``same`` ground.

    Otherwise the ground that is pasted with an object would stand out by its season.
    """
    (low, spread), (other, wide) = ((image[same].mean(0), image[same].std(0)) for image in (before, after))
    return ((after - other) * (spread / np.maximum(wide, 1)).clip(0.5, 2) + low).clip(0, 255)


def _in_season(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the image with another light, and with plants of another green."""
    green = (image[..., 1] - (image[..., 0] + image[..., 2]) / 2).clip(0, 30)[..., None] / 30
    image = image + green * rng.uniform((-25, -12, -20), (35, 25, 15))
    light = 255 * (image.clip(0, 255) / 255) ** rng.uniform(0.8, 1.25)
    return light * rng.uniform(0.88, 1.12, 3) + rng.uniform(-10, 10)


def _smooth(shape: tuple[int, ...], size: float, rng: np.random.Generator) -> np.ndarray:
    """Return smooth noise (H, W) float32 of mean 0 and variance 1."""
    step = max(1, int(size) // 4)
    height, width = (-(-side // step) + 1 for side in shape)
    noise = ndimage.gaussian_filter(rng.standard_normal((height, width)).astype(np.float32), size / step)
    noise = ndimage.zoom(noise, step, order=1)[: shape[0], : shape[1]]
    return (noise - noise.mean()) / noise.std()


def _haze(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    return (rng.uniform(0.15, 0.4) + 0.1 * _smooth(shape, 90, rng)).clip(0, 0.6)


def _clouds(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    edge = _smooth(shape, 28, rng) + 0.15 * _smooth(shape, 5, rng)
    return ((edge - rng.uniform(0.9, 1.4)) * 3).clip(0, 0.97)


def _add_lorries(image: np.ndarray, rng: np.random.Generator) -> None:
    height, width = image.shape[:2]
    for _ in range(6):
        long, wide = (24, 6) if rng.random() < 0.5 else (6, 24)
        row, col = rng.integers(0, height - wide), rng.integers(0, width - long)
        image[row : row + wide, col : col + long] = rng.uniform(60, 250)


def places_of(data: Path, part: str) -> Iterator[tuple[str, np.ndarray, np.ndarray, np.ndarray]]:
    """Yield name, scene before, scene after and mask of quarters of tiles in which much changed."""
    tiles = _val_tiles(data / "levir_cc") if part == "val" else _train_tiles(data / "change_masks")
    for name, *images in tiles:
        quarters = [(row, col) for row in (0, SIDE) for col in (0, SIDE)]
        for row, col in quarters if part == "val" else quarters[:1] + quarters[3:]:
            before, after, mask = (image[row : row + SIDE, col : col + SIDE] for image in images)
            if (mask > 127).mean() >= 0.03 and before.any(2).mean() > 0.99:
                yield f"{name}_{row // SIDE}{col // SIDE}", before, after, mask > 127


def _train_tiles(folder: Path) -> Iterator[tuple[Any, ...]]:
    with open(folder / "index.csv", encoding="utf-8") as file:
        rows = [r for r in csv.DictReader(file) if r["dataset"] == "levir_cd" and r["width"] == str(2 * SIDE)]
    seen: set[str] = set()
    for row in rows:
        if row["group"] not in seen:
            seen.add(row["group"])
            images = (_image(folder / part / row["file"]) for part in ("A", "B", "label"))
            yield row["file"].split(".")[0], *images


def _val_tiles(folder: Path) -> Iterator[tuple[Any, ...]]:
    images = json.loads((folder / "LevirCCcaptions.json").read_text(encoding="utf-8"))["images"]
    crops = [one for one in images if one["split"] == "val"]
    for tile in dict.fromkeys(one["levir_cd"]["image"] for one in crops):
        whole = [np.zeros((2 * SIDE, 2 * SIDE, *bands), np.uint8) for bands in ((3,), (3,), ())]
        for one in (one for one in crops if one["levir_cd"]["image"] == tile):
            row, col = 256 * one["levir_cd"]["row"], 256 * one["levir_cd"]["col"]
            for image, part in zip(whole, ("A", "B", "label"), strict=True):
                path = folder / "images" / "val" / part / one["filename"]
                image[row : row + 256, col : col + 256] = _image(path)
        yield tile.split(".")[0], *whole


def _image(path: Path) -> np.ndarray:
    image = Image.open(path)
    return np.asarray(image.convert("L" if path.parent.name == "label" else "RGB"))


def write_stack(folder: Path, images: Sequence[Any], seed: int, site: int) -> Path:
    """Write the scenes and the truth of one place, the site of this number on the map, into a folder.

    The images are before and after, (H, W, 3) uint8, and the mask, (H, W) bool.
    """
    before, after, mask = images
    rng = np.random.default_rng(seed)
    labels, events = plan_events(mask, rng)
    folder.mkdir(parents=True, exist_ok=True)
    transform = Affine(GSD, 0, WEST + site * APART, 0, -GSD, NORTH)
    profile = {"driver": "GTiff", "dtype": "uint8", "crs": CRS, "transform": transform, "compress": "deflate"}
    profile |= {"width": mask.shape[1], "height": mask.shape[0]}
    visible = []
    for number, (image, cloud) in enumerate(make_dates(before, after, labels, events, rng)):
        with rasterio.open(
            folder / f"{FIRST + number * STEP}.tif", "w", count=3, photometric="RGB", **profile
        ) as file:
            file.write(np.moveaxis(image, -1, 0))
        visible.append([float((cloud[labels == e.number] < 0.3).mean()) for e in events])
    np.save(folder / "truth.npy", labels)
    truth = [{**asdict(e), "visible": [row[e.number - 1] for row in visible]} for e in events]
    (folder / "truth.json").write_text(json.dumps(truth) + "\n", encoding="utf-8")
    return folder


@dataclass
class Score:
    """Counts over stacks: events of the truth and those found, events reported and true ones, exact dates."""

    events: int = 0
    found: int = 0
    reported: int = 0
    true: int = 0
    dated: int = 0
    exact: int = 0

    def add(self, folder: Path, reported: Sequence[tuple[Any, str]]) -> None:
        """Compare confirmed events, each an outline in WGS84 and the date of the first scene that shows it.

        An event of the truth is found if half of its ground is reported; a reported one is true if 0.3 of it
        is ground of the truth. Ground of events that two dates cannot show counts neither way.
        """
        labels = np.load(folder / "truth.npy")
        with rasterio.open(folder / f"{FIRST}.tif") as file:
            transform, crs = file.transform, file.crs
        shown = gpd.GeoSeries([outline for outline, _ in reported], crs=4326).to_crs(crs)
        masks = [rasterize([one], labels.shape, transform=transform).astype(bool) for one in shown]
        days = [str(FIRST + number * STEP) for number in range(DATES)]
        truth = json.loads((folder / "truth.json").read_text(encoding="utf-8"))
        unsure = np.zeros(labels.shape, bool)
        for event in truth:
            ground, seen = labels == event["number"], np.array(event["visible"]) >= 0.5
            stands = np.arange(DATES) >= event["start"]
            stands &= np.arange(DATES) < (event["stop"] or DATES)
            if (seen & stands).sum() < 2 or not seen[: event["start"]].any():
                unsure |= ground
                continue
            over = [(mask & ground).sum() / ground.sum() for mask in masks]
            self.events += 1
            if not over or sum(over) < 0.5:
                continue
            self.found += 1
            self.dated += 1
            self.exact += reported[int(np.argmax(over))][1] == days[int(np.flatnonzero(seen & stands)[0])]
        for mask in masks:
            share = (mask & (labels > 0)).sum() / max(1, mask.sum())
            if (mask & unsure).sum() < 0.3 * mask.sum():
                self.reported += 1
                self.true += share >= 0.3

    @property
    def text(self) -> str:
        """The figures in one line."""
        recall, precision = self.found / max(1, self.events), self.true / max(1, self.reported)
        f1 = 2 * recall * precision / max(1e-9, recall + precision)
        return (
            f"F1 {f1:.3f}: recall {recall:.3f} ({self.found} of {self.events}), precision {precision:.3f} "
            f"({self.true} of {self.reported}); first date exact {self.exact / max(1, self.dated):.3f} "
            f"({self.exact} of {self.dated})"
        )


def found_in_pairs(data: Path, part: str, model: str) -> str:
    """Return how many events a model finds between the two real scenes: half of their ground."""
    from rscc.captioner import Captioner

    captioner, found, total = Captioner.load(model), 0, 0
    for number, (_, before, after, mask) in enumerate(places_of(data, part)):
        labels, events = plan_events(mask, np.random.default_rng(number))
        dates = (np.moveaxis(image, -1, 0)[None] for image in (before, after))
        changed = captioner.search(*dates)[0] >= captioner.card.threshold
        found += sum(bool(changed[labels == event.number].mean() >= 0.5) for event in events)
        total += len(events)
    return f"{found} of {total} events are found between two dates without veils"


def main() -> None:
    """Make stacks, or score what a monitor found in them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=("make", "score", "limit"))
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--part", choices=("train", "val"), default="val")
    parser.add_argument("--folder", type=Path, default=Path("runs/stacks"))
    parser.add_argument("--model", default="rscc-base")
    parser.add_argument("--seed", type=int, default=0, help="dates and veils are drawn anew by each")
    options = parser.parse_args()
    if options.what == "limit":
        return print(found_in_pairs(options.data, options.part, options.model))
    if options.what == "make":
        for number, (name, *images) in enumerate(places_of(options.data, options.part)):
            print(write_stack(options.folder / name, images, number + 1000 * options.seed, number))
        return
    score = Score()
    for truth in sorted(options.folder.glob("*/truth.json")):
        events = gpd.read_file(truth.parent / "monitor" / "events.geojson")
        events = events[events["state"].isin(["confirmed", "ended"])]
        score.add(truth.parent, list(zip(events.geometry, events["first_seen"].astype(str), strict=True)))
    print(score.text)


if __name__ == "__main__":
    main()

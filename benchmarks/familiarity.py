"""Familiarity, error rate and score of reports by data set, on pairs with change masks.

Each pair becomes two GeoTIFFs, is captioned as users do it, and every change is compared with the mask: it is
right where at least 40 percent of it changed. That is the place, not the words; read those by eye. Pairs and
maps are kept in ``--work``, so that a second run needs no network.

    python benchmarks/familiarity.py --data DATA --work runs/familiarity --sets levir_val fotbcd dsifn_cd cdd

DATA holds ``change_masks`` (index.csv, A, B, label), ``levir_cc``, ``damage``, ``change_masks_10m`` and
``time_stacks``, of whose places the first and the last usable month are compared; what its reader doubts
counts neither way.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import compress
from pathlib import Path

import numpy as np
import rasterio
import shapely
from affine import Affine
from PIL import Image
from rasterio.features import rasterize
from shapely.geometry import Polygon, box

from rscc.captioner import Captioner
from rscc.data.benchmarks.levir_cc import LevirCC
from rscc.evaluation.markdown import table
from tiling import transformer
from workflows.options import SceneOptions
from workflows.report.report import Report
from workflows.scene.run import caption_scene

CRS = "EPSG:32631"
RIGHT = 0.4
BINS = 5
# Pairs of each set, and metres per pixel where the index has none.
SETS = {
    "levir_val": (109, 0.5),
    "fotbcd": (20, 0.2),
    "dsifn_cd": (260, 0.5),
    "cdd": (260, 0.5),
    "clcd": (110, 1.0),
    "sztaki": (9, 1.5),
    "damage": (16, 0.5),
    "oscd": (11, 10.0),
    "spacenet": (12, 0),
}
DOUBTED = 2
HEAD = (
    *("set", "pairs", "familiarity", "below 0.5", "changes", "right place"),
    *("mean change_probability", "its error", "by chance", "mean score", "its error", "by chance"),
)


@dataclass(frozen=True)
class Pair:
    """Two dates (H, W, 3) uint8, changed pixels (H, W), 1 or :data:`DOUBTED`, and metres per pixel."""

    name: str
    before: np.ndarray
    after: np.ndarray
    changed: np.ndarray
    gsd: float


def pairs_of(data: Path, name: str) -> Iterator[Pair]:
    """Yield the pairs of a set: seven of ten changed, the same ones in every run."""
    count, gsd = SETS[name]
    if name == "spacenet":
        yield from _stacks(data / "time_stacks")
        return
    if name == "levir_val":
        records = [one for one in LevirCC(data / "levir_cc", "val") if one.mask is not None]
        np.random.default_rng(0).shuffle(records)
        for record in records[:count]:
            yield Pair(record.id, *map(_image, (record.before, record.after)), _mask(record.mask, 0), gsd)
        return
    folder = data / {"damage": "damage", "oscd": "change_masks_10m"}.get(name, "change_masks")
    rows = [row for row in csv.DictReader((folder / "index.csv").open()) if row.get("dataset", name) == name]
    np.random.default_rng(0).shuffle(rows)
    is_changed = [float(row.get("changed_fraction") or 1) > 0.01 for row in rows]
    changed = list(compress(rows, is_changed))[: count if len(rows) <= count else round(0.7 * count)]
    others = [row for row, is_it in zip(rows, is_changed, strict=True) if not is_it]
    for row in [*changed, *others[: count - len(changed)]]:
        stem = Path(row["file"]).stem
        before, after = (_image(next((folder / date).glob(f"{stem}.*"))) for date in "AB")
        mask = _mask(next((folder / "label").glob(f"{stem}.*")), 1 if name == "damage" else 0)
        yield Pair(stem, before, after, mask, float(row["gsd_m"] or gsd))


def _stacks(folder: Path) -> Iterator[Pair]:
    """Yield the first and the last usable month of each place with truth."""
    sizes = {
        row["place"]: float(row["ground_m_per_px"]) for row in csv.DictReader((folder / "index.csv").open())
    }
    for place, truth in json.loads((folder / "truth.json").read_text(encoding="utf-8")).items():
        months = sorted({path.stem for path in (folder / place).glob("*.tif")} - {*truth["unusable_months"]})
        first, last = months[0], months[-1]
        changed = np.zeros((128, 128), np.uint8)
        drawn = [(box(*one["box"]), DOUBTED) for one in truth["doubtful"]]
        for event in truth["events"]:
            inside = first <= event["last_absent"] and event["first_present"] <= last
            drawn.append((Polygon(event["polygon"]), 1 if inside else DOUBTED))
        rasterize(drawn, out=changed, all_touched=True)
        with (
            rasterio.open(folder / place / f"{first}.tif") as one,
            rasterio.open(folder / place / f"{last}.tif") as other,
        ):
            dates = [file.read([1, 2, 3]).transpose(1, 2, 0) for file in (one, other)]
        yield Pair(place, *dates, changed, sizes[place])


def _image(path: Path) -> np.ndarray:
    return np.asarray(Image.open(path).convert("RGB"))


def _mask(path: Path, above: int) -> np.ndarray:
    return np.asarray(Image.open(path).convert("L")) > above


def captioned(pair: Pair, folder: Path, captioner: Captioner) -> tuple[Report, Affine]:
    """Caption a pair in a folder of its own."""
    transform = Affine(pair.gsd, 0, 500_000, 0, -pair.gsd, 5_400_000)
    folder.mkdir(parents=True, exist_ok=True)
    names = [folder / "a.tif", folder / "b.tif"]
    for name, image in zip(names, (pair.before, pair.after), strict=True):
        if not name.exists():
            size = dict(zip(("height", "width", "count"), image.shape, strict=True))
            with rasterio.open(name, "w", dtype="uint8", crs=CRS, transform=transform, **size) as file:
                file.write(image.transpose(2, 0, 1))
    options = SceneOptions(force=True, keep_maps=folder / "maps")
    return caption_scene(*map(str, names), captioner, options), transform


def judged(report: Report, pair: Pair, transform: Affine) -> list[tuple[float, float, bool]]:
    """Return probability of change, score and whether its place is right of every change that has words."""
    projected = transformer("EPSG:4326", CRS)
    found = []
    for change in report.changes:
        outline = shapely.transform(
            change.geometry, lambda xy: np.column_stack(projected.transform(*xy.T)), include_z=False
        )
        shape = pair.changed.shape
        inside = rasterize([outline], out_shape=shape, transform=transform, all_touched=True).astype(bool)
        if change.caption_confident and inside.any() and (pair.changed[inside] == DOUBTED).mean() < RIGHT:
            right = (pair.changed[inside] == 1).mean() >= RIGHT
            found.append((change.change_probability, change.score, bool(right)))
    return found


def calibration_error(scores: np.ndarray, right: np.ndarray) -> float:
    """Return the expected calibration error over equal bins."""
    bins = np.minimum((scores * BINS).astype(int), BINS - 1)
    gaps = [
        (bins == one).mean() * abs(scores[bins == one].mean() - right[bins == one].mean())
        for one in set(bins)
    ]
    return float(sum(gaps))


def error_by_chance(scores: np.ndarray) -> float:
    """Return the mean calibration error that exactly calibrated scores of this number show."""
    rng = np.random.default_rng(0)
    return float(np.mean([calibration_error(scores, rng.random(len(scores)) < scores) for _ in range(300)]))


def main() -> None:
    """Print a row for each set."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--model", default="rscc-base")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    args = parser.parse_args()
    captioner = Captioner.load(args.model)
    rows = []
    for name in args.sets:
        measures, found = [], []
        for pair in pairs_of(args.data, name):
            report, transform = captioned(pair, args.work / name / pair.name, captioner)
            measures.append(report.run["familiarity"])
            found += judged(report, pair, transform)
        known = np.array([one for one in measures if one is not None])
        row = [name, len(measures), f"{known.mean():.2f}", f"{(known < 0.5).mean():.0%}", len(found)]
        if found:
            *numbers, right = np.array(found, float).T
            row.append(f"{right.mean():.0%}")
            for one in numbers:
                row += [f"{v:.2f}" for v in (one.mean(), calibration_error(one, right), error_by_chance(one))]
        rows.append([*map(str, row), *[""] * (len(HEAD) - len(row))])
    print(table(HEAD, rows))


if __name__ == "__main__":
    main()

"""Compare counts and areas of the changes of whole scenes with a true mask; prints Markdown.

    python benchmarks/map_check.py --data LEVIR-CC [--split val] [--model rscc-base]
    python benchmarks/map_check.py --scenes SCENE ...

With ``--data`` the crops of a split are joined to the scenes that they were cut from; a folder of
``--scenes`` holds ``before.tif``, ``after.tif`` and ``label.tif``, above 0 where a building changed, on one
grid. Every scene is captioned with default options.

A true object is a patch of the mask of at least the smallest reported area. It belongs to the change that
covers most of it, if that is at least half, and is found then. A count is right within 10 percent or 1 of the
true objects of the change. A change is true if at least a fifth of its pixels are in the mask; otherwise
something else than a building may have changed. Roads and clearings are in no mask and not counted.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import rasterio
from affine import Affine
from painted_pairs import CRS, GSD, NORTH, WEST
from PIL import Image
from rasterio.features import rasterize
from rasterio.warp import transform_geom
from scipy import ndimage
from shapely.geometry import mapping

from rscc.captioner import Captioner
from rscc.evaluation.bootstrap import wilson_interval
from rscc.evaluation.markdown import table
from rscc.folders import DEFAULT_MODEL
from tiling import describe
from workflows import Change, SceneOptions, caption_scene

COVERED, TRUE = 0.5, 0.2
NEAR_SHARE, NEAR_COUNT = 0.1, 1
CROP = 256


@dataclass(frozen=True)
class Scene:
    """Two dates on one grid and the buildings that changed between them, (H, W) bool."""

    name: str
    before: Path
    after: Path
    truth: np.ndarray


@dataclass(frozen=True)
class Checked:
    """One change of a scene, compared with the truth.

    Attributes:
        objects: true objects that belong to it.
        true_m2: their area.
        share: of its pixels in the mask, 0..1.
    """

    scene: str
    change: Change
    objects: int
    true_m2: float
    share: float

    @property
    def is_true(self) -> bool:
        """Whether the mask has a change there."""
        return self.share >= TRUE

    @property
    def count_is_right(self) -> bool:
        """Whether its count is that of its true objects, within 10 percent or 1."""
        return abs(self.change.count - self.objects) <= max(NEAR_COUNT, NEAR_SHARE * self.objects)


def joined_scenes(data: Path, split: str, folder: Path) -> Iterator[Scene]:
    """Join the native crops of a split to the scenes that they were cut from; write these into a folder."""
    scenes: dict[str, dict[tuple[int, int], str]] = {}
    for image in json.loads((data / "LevirCCcaptions.json").read_text(encoding="utf-8"))["images"]:
        if image["split"] == split and image.get("trust") == "pattern":
            cut = image["levir_cd"]
            scenes.setdefault(cut["image"], {})[cut["row"], cut["col"]] = image["filename"]
    for name, crops in sorted(scenes.items()):
        side = CROP * (1 + max(max(position) for position in crops))
        dates = {kind: np.zeros((3, side, side), np.uint8) for kind in ("A", "B", "label")}
        for (row, col), file in crops.items():
            window = np.s_[:, row * CROP : (row + 1) * CROP, col * CROP : (col + 1) * CROP]
            for kind, whole in dates.items():
                with Image.open(data / "images" / split / kind / file) as crop:
                    whole[window] = np.asarray(crop.convert("RGB")).transpose(2, 0, 1)
        stem = Path(name).stem
        before, after = (write_scene(folder / f"{stem}_{kind}.tif", dates[kind]) for kind in ("A", "B"))
        yield Scene(stem, before, after, dates["label"][0] > 127)


def write_scene(path: Path, image: np.ndarray) -> Path:
    """Write (3, H, W) uint8 as a GeoTIFF of 0.5 m and return its path."""
    options = {"driver": "GTiff", "height": image.shape[1], "width": image.shape[2], "count": 3}
    options |= {"dtype": "uint8", "crs": CRS, "transform": Affine(GSD, 0, WEST, 0, -GSD, NORTH)}
    with rasterio.open(path, "w", **options, photometric="RGB") as target:
        target.write(image)
    return path


def scene_of(folder: Path) -> Scene:
    """Read the scene of a folder."""
    with rasterio.open(folder / "label.tif") as source:
        truth = source.read(1) > 0
    return Scene(folder.name, folder / "before.tif", folder / "after.tif", truth)


def check(scene: Scene, changes: Sequence[Change], options: SceneOptions) -> tuple[list[Checked], int]:
    """Compare the changes of a scene with its truth; return them, and the number of objects of no change."""
    with rasterio.open(scene.before) as source:
        grid, crs = source.transform, source.crs
    gsd = describe(str(scene.before)).gsd
    pixel_m2 = gsd**2
    numbers = rasterized(changes, scene.truth.shape, grid, crs)
    labels, count = ndimage.label(scene.truth)
    sizes = np.bincount(labels.ravel(), minlength=count + 1)
    # Common pixels of each true object (row) and each change (column).
    shared = np.zeros((count + 1, len(changes) + 1), np.int64)
    np.add.at(shared, (labels.ravel(), numbers.ravel()), 1)
    covering = 1 + shared[:, 1:].argmax(1) if changes else np.zeros(count + 1, int)
    large = sizes * pixel_m2 >= options.smallest_outline_for(gsd)
    large[0] = False
    found = large & (shared[np.arange(count + 1), covering] >= COVERED * sizes)
    found &= covering > 0
    checked = []
    for number, change in enumerate(changes, start=1):
        objects = np.flatnonzero(found & (covering == number))
        pixels = shared[:, number]
        share = float(pixels[1:].sum() / max(1, pixels.sum()))
        true_m2 = float(sizes[objects].sum() * pixel_m2)
        checked.append(Checked(scene.name, change, len(objects), true_m2, share))
    return checked, int(large.sum() - found.sum())


def rasterized(
    changes: Sequence[Change], shape: tuple[int, ...], grid: rasterio.Affine, crs: rasterio.CRS
) -> np.ndarray:
    """Return (H, W) int32: the number of the change of each pixel, from 1; 0 outside."""
    numbered = [
        (transform_geom("OGC:CRS84", crs, mapping(change.geometry)), number)
        for number, change in enumerate(changes, start=1)
    ]
    if not numbered:
        return np.zeros(shape, np.int32)
    return rasterize(numbered, out_shape=shape, transform=grid, dtype="int32")


def report(checked: Sequence[Checked], missed: dict[str, int]) -> str:
    """Return the tables: every change, and all of each scene."""
    areas = ("area, m2", "their area, m2", "in the mask, %")
    head = ("scene", "id", "count", "true objects", *areas, "sentence")
    rows = [
        (
            one.scene,
            str(one.change.id),
            str(one.change.count),
            str(one.objects),
            f"{one.change.area_m2:,.0f}",
            f"{one.true_m2:,.0f}",
            f"{100 * one.share:.0f}",
            one.change.caption,
        )
        for one in checked
    ]
    totals = [_total(name, [one for one in checked if one.scene == name], missed[name]) for name in missed]
    if len(missed) > 1:
        totals.append(_total("all", checked, sum(missed.values())))
    right = ("true, %", "count right, of the true, %", "objects found, %")
    heads = ("scene", "changes", *right, "counted", "sentences")
    return f"{table(head, rows)}\n\n{table(heads, totals)}"


def _total(name: str, checked: Sequence[Checked], missed: int) -> tuple[str, ...]:
    true = [one for one in checked if one.is_true]
    objects = sum(one.objects for one in checked)
    return (
        name,
        str(len(checked)),
        share_text(len(true), len(checked)),
        share_text(sum(one.count_is_right for one in true), len(true)),
        share_text(objects, objects + missed),
        f"{sum(one.change.count for one in checked)} for {objects + missed} objects",
        str(len({one.change.caption for one in checked})),
    )


def share_text(part: int, whole: int) -> str:
    """Return a share in percent with its interval and both numbers; a dash for 0 of 0."""
    interval = wilson_interval(part, whole)
    if interval is None:
        return "–"
    low, high = (100 * edge for edge in interval)
    return f"{100 * part / whole:.0f} ({low:.0f}-{high:.0f}), {part} of {whole}"


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--data", type=Path, help="folder in LEVIR-CC's layout")
    source.add_argument("--scenes", type=Path, nargs="+", metavar="FOLDER")
    parser.add_argument("--split", default="val", help="of --data")
    parser.add_argument("--model", default=DEFAULT_MODEL, help="name or folder")
    parser.add_argument("--gsd", type=float, help="metres per pixel to work at, as of rscc caption")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> None:
    """Run the script."""
    arguments = parse(words)
    captioner = Captioner.load(arguments.model, device="cpu")
    options = SceneOptions(gsd=arguments.gsd)
    checked: list[Checked] = []
    missed: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as scratch:
        given = map(scene_of, arguments.scenes or ())
        joined = joined_scenes(arguments.data, arguments.split, Path(scratch)) if arguments.data else given
        for scene in joined:
            changes = caption_scene(str(scene.before), str(scene.after), captioner, options).changes
            of_masks = [change for change in changes if change.outline_of == "change"]
            found, missed[scene.name] = check(scene, of_masks, options)
            checked += found
    print(report(checked, missed))


if __name__ == "__main__":
    main()

"""Do the words describe this polygon or its neighbour? The ways of ``focus_captions`` compared, as Markdown.

    python benchmarks/caption_focus.py --data LEVIR-CC [--split val] [--models rscc-base rscc-small]
        [--surroundings 8 16 24 32 48]

The crops of a split are put together to the scenes that they were cut from. In each scene the new buildings
are parted into neighbourhoods, and half of these are shown backwards: the ground nearest to their buildings
is taken from the later date for BEFORE and from the earlier one for AFTER, so that there houses vanish while
next to them houses appear. AFTER has the mean and spread of BEFORE's colours first, else the two kinds of
ground would differ in their light.

The model finds its polygons in such a scene and describes each of them in every way. A polygon is asked about
when most of its buildings go one way and the crop centred on it holds a polygon that goes the other way. A
caption is right when it says that something built appears (vanishes), and not the opposite, as it did there.

Beside that: whether a building is named at all, and whether the number of its first subject (a house, some
houses) is that of the label's buildings in the polygon. Intervals are 95 percent, by the bootstrap over
polygons; those of the difference draw the same polygons for both ways. Never run it on the test split.
"""

from __future__ import annotations

import argparse
import json
import platform
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import rasterio
import torch
from affine import Affine
from PIL import Image
from rasterio.features import rasterize
from scipy import ndimage
from scipy.cluster.vq import kmeans2

from rscc.captioner import Captioner
from rscc.data.synthesis.blending import match_colours
from rscc.evaluation.bootstrap import Resamples, percentile_interval
from rscc.markdown import table
from rscc.text.clauses import is_plural, names_built, read_clauses, vanished_things
from rscc.text.object_classes import named_objects
from tiling import ChangeRegion, ScenePair, Window
from workflows.options import FOCUS_WAYS, SceneOptions
from workflows.scene import crops as focus
from workflows.scene.captions import describe_regions
from workflows.scene.carrier import OpenRun
from workflows.scene.crops import CropPlanner
from workflows.scene.detection import find_regions

CROP = 256
GSD = 0.5
NEIGHBOURHOOD = 8
"""Buildings in a neighbourhood, on average."""
SMALLEST = 80
"""Pixels; smaller pieces of the label are cut off at the edge of a crop that is missing."""
SEAM = 2.0
"""Standard deviation in pixels of the passage between two neighbourhoods."""
HEAD = (
    "way",
    "polygons",
    "right",
    "more than none",
    "neighbour's",
    "both",
    "neither",
    "appearing, right",
    "vanishing, right",
    "names a building",
    "number right",
)


@dataclass(frozen=True)
class Made:
    """A scene in which some buildings appear and others vanish.

    Attributes:
        name: of the scene it was made of.
        before, after: (3, H, W) uint8.
        buildings: (H, W) int32, the label's buildings from 1; 0 elsewhere.
        removed: (buildings + 1,) bool, whether a building vanishes.
    """

    name: str
    before: np.ndarray
    after: np.ndarray
    buildings: np.ndarray
    removed: np.ndarray


@dataclass(frozen=True)
class Said:
    """One polygon and its caption.

    Attributes:
        removed: whether its buildings vanish.
        buildings: how many buildings of the label it covers.
        mixed: whether a polygon that goes the other way shares its crop.
        caption: what was said of it.
    """

    removed: bool
    buildings: int
    mixed: bool
    caption: str


def scenes(data: Path, split: str) -> Iterator[tuple[str, np.ndarray, np.ndarray, np.ndarray]]:
    """Yield name, both dates and label of the scenes that the native crops of a split were cut from."""
    places: dict[str, dict[tuple[int, int], str]] = {}
    for image in json.loads((data / "LevirCCcaptions.json").read_text())["images"]:
        cut = image.get("levir_cd", {})
        if image["split"] == split and image.get("trust") == "pattern":
            places.setdefault(cut["image"], {})[cut["row"], cut["col"]] = image["filename"]
    folder = data / "images" / split
    for name, crops in sorted(places.items()):
        side = CROP * (1 + max(max(place) for place in crops))
        whole = np.zeros((7, side, side), np.uint8)
        for (row, col), file in crops.items():
            window = np.s_[:, row * CROP : (row + 1) * CROP, col * CROP : (col + 1) * CROP]
            whole[window] = np.concatenate(
                [
                    _read(folder / kind / file, mode)
                    for kind, mode in (("A", "RGB"), ("B", "RGB"), ("label", "L"))
                ]
            )
        yield name, whole[:3], whole[3:6], whole[6] > 127


def _read(path: Path, mode: str) -> np.ndarray:
    with Image.open(path) as image:
        pixels = np.asarray(image.convert(mode))
    return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)


def make(name: str, before: np.ndarray, after: np.ndarray, label: np.ndarray, seed: int) -> Made | None:
    """Show half of the neighbourhoods backwards; None where there are not enough buildings."""
    pieces, count = ndimage.label(label, np.ones((3, 3)))
    large = ndimage.sum_labels(label, pieces, np.arange(count + 1)) >= SMALLEST
    buildings = np.where(large, np.cumsum(large), 0)[pieces].astype(np.int32)
    count = int(large.sum())
    if count < 2:
        return None
    removed = np.concatenate([[False], _neighbourhoods_backwards(buildings, count, seed)])
    nearest = ndimage.distance_transform_edt(buildings == 0, return_distances=False, return_indices=True)
    share = ndimage.gaussian_filter(removed[buildings[tuple(nearest)]].astype(np.float32), SEAM)
    later = match_colours(after, before)
    return Made(
        name,
        np.rint(before * (1 - share) + later * share).astype(np.uint8),
        np.rint(later * (1 - share) + before * share).astype(np.uint8),
        buildings,
        removed,
    )


def _neighbourhoods_backwards(buildings: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Return (count,) bool: every other neighbourhood, in a random order of the neighbourhoods."""
    rng = np.random.default_rng(seed)
    middles = np.array(ndimage.center_of_mass(buildings > 0, buildings, range(1, count + 1)))
    number = min(count, max(2, round(count / NEIGHBOURHOOD)))
    _, member = kmeans2(middles, number, seed=rng, minit="++")
    return rng.permutation(np.arange(number) % 2).astype(bool)[member]


def write(folder: Path, images: Sequence[np.ndarray]) -> tuple[Path, Path]:
    """Write both dates (3, H, W) as GeoTIFFs, somewhere on the map."""
    paths = folder / "before.tif", folder / "after.tif"
    transform = Affine(GSD, 0, 600_000, 0, -GSD, 3_300_000)
    for path, image in zip(paths, images, strict=True):
        with rasterio.open(
            path,
            "w",
            driver="GTiff",
            count=3,
            height=image.shape[1],
            width=image.shape[2],
            dtype="uint8",
            crs="EPSG:32614",
            transform=transform,
        ) as file:
            file.write(image)
    return paths


def ask(
    made: Made, captioner: Captioner, ways: Sequence[str], margins: Sequence[float]
) -> dict[str, list[Said]]:
    """Find the polygons of a made scene and describe each in every way."""
    said: dict[str, list[Said]] = {}
    with tempfile.TemporaryDirectory() as folder:
        before, after = write(Path(folder), (made.before, made.after))
        with ScenePair.open(before, after, scale=(0, 255)) as pair:
            run = OpenRun(pair, captioner)
            regions = find_regions(run).regions
            facts = [_fact(region, made) for region in regions]
            known = [n for n, (buildings, _) in enumerate(facts) if buildings]
            planner = run.crops
            mixed = [_mixed(n, regions, facts, planner) for n in known]
            for way, margin in [(way, margin) for way in ways for margin in margins]:
                focus.SURROUNDINGS = margin
                run = OpenRun(pair, captioner, SceneOptions(focus_captions=way))
                words = describe_regions(run, [[region] for region in regions])
                name = way if len(margins) == 1 else f"{way}, {margin:g} px"
                said[name] = [
                    Said(facts[n][1], facts[n][0], mix, words[n][0].text)
                    for n, mix in zip(known, mixed, strict=True)
                ]
    return said


def _fact(region: ChangeRegion, made: Made) -> tuple[int, bool]:
    """Return how many buildings a polygon covers, and whether most of their pixels vanish."""
    inside = rasterize([region.pixel_polygon], out_shape=made.buildings.shape, dtype=np.uint8) > 0
    pixels = np.bincount(made.buildings[inside], minlength=len(made.removed))[1:]
    gone = pixels[made.removed[1:]].sum()
    return int((pixels >= SMALLEST / 2).sum()), bool(2 * gone > pixels.sum())


def _mixed(
    number: int, regions: Sequence[ChangeRegion], facts: Sequence[tuple[int, bool]], planner: CropPlanner
) -> bool:
    crops = planner.crops(regions[number].pixel_polygon)
    if len(crops) > 1:
        return False
    return any(
        buildings and removed != facts[number][1] and _reaches(other, crops[0][0])
        for other, (buildings, removed) in zip(regions, facts, strict=True)
    )


def _reaches(region: ChangeRegion, window: Window) -> bool:
    left, top, right, bottom = region.pixel_polygon.bounds
    return (
        right > window.col_off and left < window.col_end and bottom > window.row_off and top < window.row_end
    )


def directions(caption: str) -> tuple[bool, bool]:
    """Tell whether a caption says that something built appears, and whether that something built vanishes."""
    clauses = read_clauses(caption)
    come = [clause.subject for clause in clauses if clause.kind in ("appear", "replace")]
    come += [clause.rest for clause in clauses if clause.kind in ("replaced", "turned")]
    return any(map(names_built, come)), any(map(names_built, vanished_things(caption)))


def outcome(said: Said) -> str:
    """Say whose change a caption is about: ``this``, ``neighbour``, ``both`` or ``neither``."""
    appears, vanishes = directions(said.caption)
    own, other = (vanishes, appears) if said.removed else (appears, vanishes)
    return {(True, False): "this", (False, True): "neighbour", (True, True): "both"}.get(
        (own, other), "neither"
    )


def number_is_right(said: Said) -> bool:
    """Tell whether the first subject is one building or several, as the polygon is."""
    clauses = read_clauses(said.caption)
    return bool(clauses) and is_plural(clauses[0].subject) == (said.buildings > 1)


def report(found: dict[str, list[Said]]) -> str:
    """Return the tables of one model: polygons beside others, and those whose crop holds one kind only."""
    parts = []
    for title, mixed in (
        ("Appearing and vanishing buildings in one crop:", True),
        ("All buildings in the crop go the same way:", False),
    ):
        some = {way: [one for one in said if one.mixed == mixed] for way, said in found.items()}
        parts += [title, _table(some)]
    return "\n\n".join(parts)


def _table(found: dict[str, list[Said]]) -> str:
    polygons = len(next(iter(found.values())))
    if not polygons:
        return "no polygon"
    draws = Resamples(polygons)
    base = _right(found["none"]) if "none" in found else None
    rows = []
    for way, said in found.items():
        right, outcomes = _right(said), [outcome(one) for one in said]
        more = None if base is None or way == "none" else right - base
        named = named_objects(one.caption for one in said)
        rows.append(
            [
                way,
                str(polygons),
                f"{_percent(right)} {_interval(draws.means(right))}",
                "" if more is None else f"{100 * more.mean():+.1f} {_interval(draws.means(more), '+.1f')}",
                *(_percent([one == name for one in outcomes]) for name in ("neighbour", "both", "neither")),
                *(
                    _percent([r for r, one in zip(right, said, strict=True) if one.removed == g])
                    for g in (0, 1)
                ),
                _percent(["building" in one.classes for one in named]),
                _percent([number_is_right(one) for one in said]),
            ]
        )
    return table(HEAD, rows)


def _right(said: Sequence[Said]) -> np.ndarray:
    return np.array([outcome(one) == "this" for one in said], float)


def _percent(values: Sequence[bool] | np.ndarray) -> str:
    return f"{100 * np.mean(values):.1f}" if len(values) else "-"


def _interval(draws: np.ndarray, form: str = ".1f") -> str:
    found = percentile_interval(100 * draws)
    return "" if found is None else f"({found[0]:{form}} to {found[1]:{form}})"


def main() -> None:
    """Read the options, print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--split", choices=("val", "train"), default="val")
    parser.add_argument("--models", nargs="+", default=["rscc-base", "rscc-small"])
    parser.add_argument("--ways", nargs="+", choices=FOCUS_WAYS, default=list(FOCUS_WAYS))
    parser.add_argument("--surroundings", nargs="+", type=float, default=[focus.SURROUNDINGS])
    parser.add_argument("--scenes", type=int, default=None, help="take the first so many scenes only")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write every caption here, too")
    options = parser.parse_args()
    torch.set_num_threads(1)
    made = []
    for name, before, after, label in islice(scenes(options.data, options.split), options.scenes):
        scene = make(name, before, after, label, options.seed)
        if scene is not None:
            made.append(scene)
    captions: dict[str, dict[str, list[dict[str, object]]]] = {}
    for model in options.models:
        captioner = Captioner.load(model, device="cpu")
        found: dict[str, list[Said]] = {}
        for scene in made:
            for way, said in ask(scene, captioner, options.ways, options.surroundings).items():
                found.setdefault(way, []).extend(said)
        title = f"{model} {captioner.card.version}, {len(made)} scenes of the {options.split} split"
        print(f"### {title}\n\n{report(found)}\n", flush=True)
        captions[model] = {way: [vars(one) for one in said] for way, said in found.items()}
    print(f"{platform.processor() or platform.machine()}, 1 thread, torch {torch.__version__}")
    if options.json:
        options.json.write_text(json.dumps(captions, indent=1))


if __name__ == "__main__":
    main()

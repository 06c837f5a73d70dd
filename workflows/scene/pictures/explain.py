"""Explain one crop of a pair: choose it, read it, and let the captioner say what it sees."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rasterio.transform import GCPTransformer

from tiling import (
    Access,
    NoOverlap,
    NothingValid,
    PixelTypeUnsupported,
    SceneInfo,
    ScenePair,
    TooFewBands,
    Window,
    locate,
    on_map,
    open_scene,
    safe_environment,
    transformer,
)
from workflows.dates import scene_date
from workflows.errors import OptionInvalid, PicturesDiffer
from workflows.options import ExplainOptions
from workflows.printable import counted
from workflows.progress import Progress
from workflows.report.geojson import bbox_of
from workflows.report.record import model_record
from workflows.report.scenes import window_ground
from workflows.scene.group import group
from workflows.scene.opening import OpenPair, open_pair
from workflows.scene.run import detected
from workflows.scene.words.crops import CropPlanner
from workflows.scenes import Scene, centred, read_headers

if TYPE_CHECKING:
    from rscc.captioner import Captioner
    from rscc.facts.explanations import Explanation
    from rscc.model_folder import ModelCard

WGS84 = "EPSG:4326"
PICTURE_DRIVERS = ("PNG", "JPEG")


@dataclass(frozen=True)
class Crop:
    """What the model is shown.

    Attributes:
        before, after: (3, T, T) uint8.
        changed: whether it is known that something changed, so that no "no change" sentence is asked for.
        place: in words, why this crop.
        bounds: west, south, east, north in degrees; None for pictures without georeferencing.
        dates: ISO dates of both images as far as known.
        warnings: what makes the result doubtful, one line each.
    """

    before: np.ndarray
    after: np.ndarray
    changed: bool
    place: str
    bounds: tuple[float, ...] | None = None
    dates: tuple[str | None, str | None] = (None, None)
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class ExplainedPair:
    """A crop, its explanation, and the card of the model."""

    crop: Crop
    explanation: Explanation
    card: ModelCard

    def as_dict(self) -> dict[str, Any]:
        """Return plain values: caption, P(changed), words with their maps (rows of shares), entities."""
        explanation = self.explanation
        return {
            "caption": explanation.caption.text,
            "alternatives": list(explanation.caption.alternatives),
            "score": round(explanation.caption.score, 4),
            "changed": explanation.caption.changed,
            "changed_probability": round(explanation.changed_probability, 4),
            "words": [
                {
                    "word": word.text,
                    "probability": round(word.probability, 4),
                    "ground": None
                    if word.ground is None
                    else np.round(word.ground.astype(float), 5).tolist(),
                }
                for word in explanation.words
            ],
            "entities": list(explanation.entities),
            "place": self.crop.place,
            "bounds": None if self.crop.bounds is None else list(self.crop.bounds),
            "model": model_record(self.card),
        }


def explain_pair(
    before: Scene,
    after: Scene,
    captioner: Captioner,
    options: ExplainOptions | None = None,
    progress: Progress | None = None,
) -> ExplainedPair:
    """Explain one crop of two scenes, or two whole pictures without georeferencing (PNG or JPEG).

    Raises:
        TilingError: an image cannot be read, or the place is not on the ground that both show.
        OptionInvalid: the place is given in a way that these images do not allow.
        PicturesDiffer: two pictures without georeferencing have different sizes.
    """
    options = options or ExplainOptions()
    if not isinstance(before, SceneInfo) and not isinstance(after, SceneInfo):
        before, after = read_pair(before, after, options)
    if isinstance(before, SceneInfo) or isinstance(after, SceneInfo):
        crop = scene_crop(before, after, captioner, options, progress)
    else:
        crop = picture_crop(before, after, captioner.card, options)
    explanation = captioner.explain(crop.before, crop.after, assume_changed=crop.changed)
    return ExplainedPair(crop, explanation, captioner.card)


def read_pair(before: str | Path, after: str | Path, options: ExplainOptions) -> tuple[Scene, Scene]:
    """Return the headers of two scenes, or the names of two pictures."""
    for path in (before, after):
        with open_scene(path, options.access) as file:
            # A picture has no georeferencing.
            is_picture = file.driver in PICTURE_DRIVERS and file.transform.is_identity
        if not is_picture:
            return read_headers(before, after, options)
    return before, after


def scene_crop(
    before: Scene,
    after: Scene,
    captioner: Captioner,
    options: ExplainOptions,
    progress: Progress | None = None,
) -> Crop:
    """Read the crop of two scenes; arguments and errors as :func:`explain_pair`."""
    with open_pair(before, after, captioner.card, options) as opened:
        crops = CropPlanner(opened.pair.grid.width, opened.pair.grid.height, captioner.card.tile_size)
        if options.at is not None or options.pixel is not None:
            col, row, place = pixel_of(opened.pair, options)
            window = crops.around((col, row, col, row))
            changed = False
        else:
            window, changed = _largest_change(opened, crops, captioner, progress)
            place = "the largest change" if changed else "the middle: no change was found"
        first, second, valid = opened.pair.read(window)
        if not valid.any():
            names = " and ".join(info.path for info in opened.infos)
            raise NothingValid(f"{names}: no pixel has data on both dates at {place}")
        return Crop(
            first,
            second,
            changed,
            place,
            bbox_of(window_ground(opened.pair, window)),
            (opened.dates[0].value, opened.dates[1].value),
            tuple(opened.warnings),
        )


def _largest_change(
    opened: OpenPair, crops: CropPlanner, captioner: Captioner, progress: Progress | None
) -> tuple[Window, bool]:
    """Return the crop that describes the largest outline, and True; without one the middle, and False."""
    with detected(opened, captioner, progress) as (maps, regions, _):
        changes = group(regions, maps, opened.options).found
    if not changes:
        focus = opened.pair.focus
        col, row = focus.col_off + focus.width / 2, focus.row_off + focus.height / 2
        return crops.around((col, row, col, row)), False
    outlines = [region.pixel_polygon for change in changes for region in change.regions]
    return crops.crops(max(outlines, key=lambda outline: outline.area))[0][0], True


def pixel_of(pair: ScenePair, options: ExplainOptions) -> tuple[float, float, str]:
    """Return the column and row of the place of ``options`` on the working grid, and the place in words."""
    if options.at is not None:
        place = f"longitude {options.at[0]:.5f}, latitude {options.at[1]:.5f}"
        x, y = transformer(WGS84, pair.grid.crs).transform(*options.at)
    else:
        assert options.pixel is not None
        col, row = options.pixel
        place = f"column {col}, row {row}"
        x, y = _place_of(pair.before, col + 0.5, row + 0.5)
        if pair.before.crs != pair.grid.crs:
            x, y = transformer(pair.before.crs, pair.grid.crs).transform(x, y)
    to_map = pair.grid.transform
    col_off, row_off = (x - to_map.c) / to_map.a, (y - to_map.f) / to_map.e
    if options.pixel is not None:  # the scene before may have been moved
        col_off, row_off = col_off + pair.layers[0].shift[0], row_off + pair.layers[0].shift[1]
    if not (0 <= col_off <= pair.grid.width and 0 <= row_off <= pair.grid.height):
        whole = window_ground(pair, Window(0, 0, pair.grid.width, pair.grid.height))
        west, south, east, north = bbox_of(whole)
        raise NoOverlap(
            f"{pair.before.path}: {place} is not on the ground that both scenes show; give a place within "
            f"longitude {west:.5f} to {east:.5f}, latitude {south:.5f} to {north:.5f}"
        )
    return col_off, row_off, place


def _place_of(info: SceneInfo, col: float, row: float) -> tuple[float, float]:
    if not info.gcps:
        return on_map(info.transform, col, row)
    with GCPTransformer(list(info.gcps)) as curve:
        x, y = curve.xy(row, col, offset="ul")
    return float(x), float(y)


def picture_crop(before: str | Path, after: str | Path, card: ModelCard, options: ExplainOptions) -> Crop:
    """Read two pictures of one size: whole and resized to the model's tile, or cut where ``pixel`` says.

    Raises:
        OptionInvalid: a place in degrees, or a pixel outside, or a picture too small to be cut.
        PicturesDiffer: they have different sizes.
    """
    names = [locate(path).shown for path in (before, after)]
    if options.bounds is not None or options.at is not None:
        raise OptionInvalid(
            f"{names[0]}: it does not say where it lies in degrees; give a place with --window"
        )
    bands = options.bands or (1, 2, 3)
    if not all(isinstance(band, int) for band in bands):
        raise OptionInvalid(f"{names[0]}: the bands of a picture have no names; give --bands by number")
    numbers = [int(band) for band in bands]
    first, second = (_read_picture(path, numbers, options.access) for path in (before, after))
    if first.shape != second.shape:
        sizes = [f"{image.shape[2]} x {image.shape[1]}" for image in (first, second)]
        raise PicturesDiffer(
            f"{names[0]} and {names[1]}: {sizes[0]} and {sizes[1]} pixels; give two pictures of one size"
        )
    dates = (
        scene_date(names[0], {}, options.date_before).value,
        scene_date(names[1], {}, options.date_after).value,
    )
    side = card.tile_size
    if options.pixel is None:
        from rscc.images import resize

        whole = [resize(image, (side, side)) for image in (first, second)]
        return Crop(whole[0], whole[1], False, "the whole picture", dates=dates)
    (col, row), (height, width) = options.pixel, first.shape[1:]
    if not (0 <= col < width and 0 <= row < height):
        raise OptionInvalid(f"{names[0]}: column {col}, row {row} is outside its {width} x {height} pixels")
    if min(height, width) < side:
        raise OptionInvalid(
            f"{names[0]}: {width} x {height} pixels hold no crop of {side}; leave --window out to see "
            "it whole"
        )
    top, left = centred(row, row, side, height), centred(col, col, side, width)
    cut = (..., slice(top, top + side), slice(left, left + side))
    return Crop(first[cut], second[cut], False, f"column {col}, row {row}", dates=dates)


def _read_picture(path: str | Path, bands: list[int], access: Access) -> np.ndarray:
    """Return (3, H, W) uint8."""
    name = locate(path).shown
    with open_scene(path, access) as file, safe_environment():
        if file.count < max(bands):
            raise TooFewBands(
                f"{name}: it has {counted(file.count, 'band')}, not a band {max(bands)}; "
                "give a picture in red, green and blue"
            )
        if any(dtype != "uint8" for dtype in file.dtypes):
            raise PixelTypeUnsupported(f"{name}: its pixels are {file.dtypes[0]}; save it with 8 bits")
        return file.read(bands)

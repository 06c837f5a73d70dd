"""One crop of a pair, explained: which crop, what the captioner makes of it, and the picture of that."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rasterio.transform import GCPTransformer
from shapely.geometry import box

from tiling import (
    NoOverlap,
    NothingValid,
    PixelTypeUnsupported,
    SceneInfo,
    ScenePair,
    TooFewBands,
    Window,
    describe,
    to_wgs84,
)
from tiling.geodesy import on_map, transformer
from tiling.location import locate
from tiling.scene import open_scene, safe_environment
from workflows.crops import CropPlanner, centred
from workflows.dates import scene_date
from workflows.detecting import find_changes, search_area, tile_grid
from workflows.errors import OptionInvalid, PicturesDiffer
from workflows.geojson import rounded
from workflows.memory import bounded_cache
from workflows.opening import open_pair, pair_warnings, scene_dates
from workflows.options import SceneOptions
from workflows.progress import Progress
from workflows.record import model_record

if TYPE_CHECKING:
    from rscc.captioner import Captioner
    from rscc.explanations import Explanation
    from rscc.weights import ModelCard

WGS84 = "EPSG:4326"
PICTURE_DRIVERS = ("PNG", "JPEG")


@dataclass(frozen=True)
class ExplainOptions:
    """Which crop is explained; without a place, that of the largest change.

    Attributes:
        bands, scale, normalize, align, gsd, bounds, beams, date_before, date_after, force: as
            :class:`SceneOptions` has them; in ``bounds`` the largest change is looked for.
        at: longitude and latitude in degrees that the crop is centred on.
        pixel: column and row of the image before, from 0, that the crop is centred on.
    """

    bands: tuple[int | str, int | str, int | str] | None = None
    bounds: tuple[float, float, float, float] | None = None
    at: tuple[float, float] | None = None
    pixel: tuple[int, int] | None = None
    beams: int = 3
    force: bool = False
    scale: tuple[float, float] | str | None = None
    normalize: bool = False
    align: bool = False
    gsd: float | None = None
    date_before: str | None = None
    date_after: str | None = None

    def __post_init__(self) -> None:
        if sum(place is not None for place in (self.bounds, self.at, self.pixel)) > 1:
            raise OptionInvalid("bbox, at and window each say where to look; give one of them")
        self.reading()

    def reading(self) -> SceneOptions:
        """Return what a run over the whole scene would be asked for.

        Raises:
            OptionInvalid, DateInvalid: a value is out of its range.
        """
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        return SceneOptions(**{name: value for name, value in own.items() if name not in ("at", "pixel")})


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
    """A crop, what the model makes of it, and which model that is."""

    crop: Crop
    explanation: Explanation
    card: ModelCard

    def as_dict(self) -> dict[str, Any]:
        """Return plain values: caption, P(changed), words with their maps (rows of shares), entities."""
        found = self.explanation
        return {
            "caption": found.caption.text,
            "alternatives": list(found.caption.alternatives),
            "score": round(found.caption.score, 4),
            "changed": found.caption.changed,
            "changed_probability": round(found.changed_probability, 4),
            "words": [
                {
                    "word": word.text,
                    "probability": round(word.probability, 4),
                    "ground": None
                    if word.ground is None
                    else np.round(word.ground, 5).astype(float).tolist(),
                }
                for word in found.words
            ],
            "entities": list(found.entities),
            "place": self.crop.place,
            "bounds": None if self.crop.bounds is None else list(self.crop.bounds),
            "model": model_record(self.card),
        }


def explain_pair(
    before: str | Path,
    after: str | Path,
    captioner: Captioner,
    options: ExplainOptions | None = None,
    progress: Progress | None = None,
) -> ExplainedPair:
    """Explain one crop of two scenes, or two whole pictures without georeferencing (PNG or JPEG).

    Raises:
        TilingError: an image cannot be read, or the place is not on the ground that both show.
        TooCoarse: a scene is coarser than the model is meant for, and ``options.force`` is not set.
        OptionInvalid: the place is given in a way that these images do not allow.
        PicturesDiffer: two pictures without georeferencing have different sizes.
    """
    options = options or ExplainOptions()
    if is_picture(before) and is_picture(after):
        crop = picture_crop(before, after, captioner.card, options)
    else:
        crop = scene_crop(before, after, captioner, options, progress)
    explanation = captioner.explain(crop.before, crop.after, beams=options.beams, assume_changed=crop.changed)
    return ExplainedPair(crop, explanation, captioner.card)


def check_pair(before: str | Path, after: str | Path) -> None:
    """Refuse files that cannot be read or compared, before a model is loaded.

    Raises:
        TilingError: as said.
    """
    if not (is_picture(before) and is_picture(after)):
        describe(before)
        describe(after)


def is_picture(path: str | Path) -> bool:
    """Tell whether a file is a PNG or JPEG that does not say where on the ground it lies.

    Raises:
        TilingError: it cannot be opened.
    """
    with open_scene(path) as file:
        return file.driver in PICTURE_DRIVERS and file.transform.is_identity


def scene_crop(
    before: str | Path,
    after: str | Path,
    captioner: Captioner,
    options: ExplainOptions,
    progress: Progress | None = None,
) -> Crop:
    """Read the crop of two scenes; arguments and errors as :func:`explain_pair`."""
    infos = (describe(before), describe(after))
    card = captioner.card
    settings = options.reading()
    given = options.at is not None or options.pixel is not None
    dates = scene_dates(infos, settings)
    with bounded_cache(), open_pair(infos, card, settings) as pair:
        if given:
            window, place = _given_window(pair, card.tile_size, options)
            changed = False
        else:
            window, changed = _largest_change(pair, captioner, settings, progress)
            place = "the largest change" if changed else "the middle: no change was found"
        first, second, valid = pair.read(window)
        if not valid.any():
            raise NothingValid(
                f"{infos[0].path} and {infos[1].path}: no pixel has data on both dates at {place}"
            )
        return Crop(
            first,
            second,
            changed,
            place,
            _bounds(pair, window),
            (dates[0].value, dates[1].value),
            tuple(pair_warnings(pair, dates, card)),
        )


def _largest_change(
    pair: ScenePair, captioner: Captioner, settings: SceneOptions, progress: Progress | None
) -> tuple[Window, bool]:
    """Return the crop that describes the largest polygon, and True; without one the middle, and False."""
    card, focus = captioner.card, pair.focus
    grid = tile_grid(pair, card, settings, search_area(pair, card, settings))
    regions, _ = find_changes(pair, grid, captioner, settings, progress)
    if not regions:
        col, row = focus.col_off + focus.width / 2, focus.row_off + focus.height / 2
        return _around(pair, col, row, card.tile_size), False
    largest = max(regions, key=lambda region: region.pixel_polygon.area)
    return CropPlanner(tile_grid(pair, card, settings)).crops(largest.pixel_polygon)[0][0], True


def _given_window(pair: ScenePair, side: int, options: ExplainOptions) -> tuple[Window, str]:
    if options.at is not None:
        place = f"{options.at[0]:.5f},{options.at[1]:.5f}"
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
    if not (0 <= col_off <= pair.grid.width and 0 <= row_off <= pair.grid.height):
        west, south, east, north = _bounds(pair, Window(0, 0, pair.grid.width, pair.grid.height))
        raise NoOverlap(
            f"{pair.before.path}: {place} is not on the ground that both scenes show; give a place within "
            f"{west:.5f},{south:.5f},{east:.5f},{north:.5f} degrees"
        )
    return _around(pair, col_off, row_off, side), place


def _place_of(info: SceneInfo, col: float, row: float) -> tuple[float, float]:
    if not info.gcps:
        return on_map(info.transform, col, row)
    with GCPTransformer(list(info.gcps)) as curve:
        x, y = curve.xy(row, col, offset="ul")
    return float(x), float(y)


def _around(pair: ScenePair, col: float, row: float, side: int) -> Window:
    """Return the crop centred on a pixel, moved inside the scene if it would stick out."""
    return Window(
        centred(col, col, side, pair.grid.width), centred(row, row, side, pair.grid.height), side, side
    )


def _bounds(pair: ScenePair, window: Window) -> tuple[float, ...]:
    west, north = on_map(pair.grid.transform, window.col_off, window.row_off)
    east, south = on_map(pair.grid.transform, window.col_end, window.row_end)
    return rounded(to_wgs84(box(west, south, east, north), pair.grid.crs)).bounds


def picture_crop(before: str | Path, after: str | Path, card: ModelCard, options: ExplainOptions) -> Crop:
    """Read two pictures of one size: whole and resized to the model's tile, or cut where ``pixel`` says.

    Raises:
        OptionInvalid: a place in degrees, or a pixel outside, or a picture too small to be cut.
        PicturesDiffer: they have different sizes.
        TilingError: one cannot be read, has too few bands or more than 8 bits.
    """
    names = [locate(path).shown for path in (before, after)]
    if options.bounds is not None or options.at is not None:
        raise OptionInvalid(
            f"{names[0]}: it does not say where it lies in degrees; give a place with --window"
        )
    bands = options.bands or (1, 2, 3)
    if not all(isinstance(band, int) for band in bands):
        raise OptionInvalid(f"{names[0]}: the bands of a picture have no names; give --bands by number")
    first, second = (_read_picture(path, [int(band) for band in bands]) for path in (before, after))
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
        from rscc.data.pairs import resize

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


def _read_picture(path: str | Path, bands: list[int]) -> np.ndarray:
    """Return (3, H, W) uint8."""
    name = locate(path).shown
    with open_scene(path) as file, safe_environment():
        if file.count < max(bands):
            raise TooFewBands(
                f"{name}: it has {file.count} band{'' if file.count == 1 else 's'}, not a band {max(bands)}; "
                "give a picture in red, green and blue"
            )
        if any(dtype != "uint8" for dtype in file.dtypes):
            raise PixelTypeUnsupported(f"{name}: its pixels are {file.dtypes[0]}; save it with 8 bits")
        return file.read(bands)

"""Small pictures of the scenes of a place, all on one grid, kept beside its state for the page."""

import io
import math
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import numpy as np
import shapely
from affine import Affine
from PIL import Image
from rasterio.crs import CRS as RasterCRS

from rscc.files import atomic_write, read_file
from tiling import (
    Frame,
    Grid,
    GriddedReader,
    GriddedScene,
    TilingError,
    Window,
    choose_bands,
    transformer,
    utm_crs,
)
from workflows.archive.folder import writing
from workflows.monitor.options import MonitorOptions
from workflows.monitor.places import KnownScene, Place
from workflows.report.geojson import CRS, parts_of
from workflows.report.page.imagery import encoded

SIDE = 1024
"""Pixels of the longer side of a picture."""
LOW, HIGH = 2, 98
"""Percentiles of pixel values shown as black and white, where they are not bytes."""
PAGE_BYTES = 6_000_000
"""Of all pictures in a page: 8 MB as text."""
# Smallest side to which a picture is reduced for a budget of bytes.
_LEAST_SIDE = 32
_MOST_BYTES = 2**24
# A picture that is missing, or that is not ours.
_UNREADABLE = (OSError, ValueError, Image.DecompressionBombError)


def frame_of(place: Place) -> Frame:
    """Return the grid of the pictures of a place: north-up in its UTM zone, over its ground."""
    # The largest part: a ground cut at 180 degrees has its centre on the other side of the Earth.
    centre = max(parts_of(place.ground), key=lambda part: part.area).centroid
    crs = RasterCRS.from_user_input(utm_crs(centre.x, centre.y))
    ground = shapely.transform(place.ground, transformer(CRS, crs).transform, interleaved=False)
    west, south, east, north = ground.bounds
    finest = min(scene.gsd for scene in place.scenes)
    cell = max(finest, (east - west) / SIDE, (north - south) / SIDE)
    width, height = (max(1, math.ceil(round(side / cell, 6))) for side in (east - west, north - south))
    grid = Grid(crs, Affine(cell, 0, west, 0, -cell, north), width, height, cell)
    return Frame(grid, Window(0, 0, width, height))


def make_pictures(folder: Path, place: Place, options: MonitorOptions) -> None:
    """Make the pictures that are not there yet; a scene that cannot be read has none.

    Of those that are too large for the page smaller ones are kept, too.

    Raises:
        OutputNotWritable: the system refused.
    """
    pictures, frame = folder / "pictures", frame_of(place)
    with writing(pictures):
        pictures.mkdir(exist_ok=True)
    for scene in place.scenes:
        path = pictures / f"{scene.key}.webp"
        if not path.is_file():
            with suppress(TilingError):
                _write(path, encoded(_picture(scene, place, frame, options)))
        with suppress(*_UNREADABLE):
            shown, most = _for_page(path, len(place.scenes))
            if not shown.is_file():
                _write(shown, _reduced(read_file(path, _MOST_BYTES), most))


def read_pictures(folder: Path, scenes: Sequence[KnownScene]) -> list[bytes | None]:
    """Return the picture of each scene, None without; all take about :data:`PAGE_BYTES` at most."""
    return [_read(folder / "pictures" / f"{scene.key}.webp", len(scenes)) for scene in scenes]


def _read(path: Path, count: int) -> bytes | None:
    with suppress(*_UNREADABLE):
        shown, most = _for_page(path, count)
        if shown.is_file():
            return read_file(shown, _MOST_BYTES)
        return _reduced(read_file(path, _MOST_BYTES), most)
    return None


def _for_page(path: Path, count: int) -> tuple[Path, int]:
    """Return the file of a picture for a page of ``count``, and its most bytes.

    It is a smaller one where the picture has more than its share. That fits until there are twice as many
    scenes, so that it can be kept.
    """
    most = PAGE_BYTES >> (count - 1).bit_length()
    is_small = path.stat().st_size * count <= PAGE_BYTES
    return path if is_small else path.with_suffix(f".{most}.webp"), most


def _write(path: Path, content: bytes) -> None:
    with writing(path), atomic_write(path) as (draft,):
        draft.write_bytes(content)


def _reduced(content: bytes, most: int) -> bytes:
    """Return a picture made smaller until it takes at most so many bytes, or is very small."""
    while len(content) > most:
        # With others of Pillow's formats it would start programs.
        with Image.open(io.BytesIO(content), formats=["WEBP"]) as image:
            scale = max(0.5, math.sqrt(0.8 * most / len(content)))
            size = [max(1, round(side * scale)) for side in image.size]
            if max(size) < _LEAST_SIDE:
                break
            content = encoded(image.convert("RGBA").resize((size[0], size[1]), Image.Resampling.BOX))
    return content


def _picture(scene: KnownScene, place: Place, frame: Frame, options: MonitorOptions) -> Image.Image:
    """Read one scene; ground without data is transparent. Raises TilingError."""
    info = place.header(scene, options.reading)
    bands = choose_bands(info, options.bands).numbers
    with ExitStack() as stack:
        reader = GriddedReader(GriddedScene.of(info, bands, frame.grid), stack)
        pixels, valid = reader.read(frame.focus)  # (3, h, w), (h, w)
    shown = pixels if pixels.dtype == np.uint8 else _stretched(pixels, valid)
    layers = np.concatenate([shown, np.where(valid, 255, 0)[None]]).astype(np.uint8)
    return Image.fromarray(np.ascontiguousarray(layers.transpose(1, 2, 0)), "RGBA")


def _stretched(pixels: np.ndarray, valid: np.ndarray) -> np.ndarray:
    if not valid.any():
        return np.zeros(pixels.shape, np.uint8)
    low, high = np.percentile(pixels[:, valid].astype(float), (LOW, HIGH))
    return np.clip((pixels - low) / max(high - low, 1e-9) * 255, 0, 255)

"""Pictures of both dates within a budget of bytes: one of the whole ground, sharper ones around changes.

Scenes are read in windows, so memory does not grow with them. Nodata is transparent. All functions that read
raise SceneDamaged where pixels of a file cannot be decoded.
"""

import io
import math
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image
from shapely.geometry import MultiPolygon

from tiling import ScenePair, Window
from workflows.progress import Progress, report_progress

# Size of the picture of the whole ground that phones decode without trouble.
MOST_PIXELS = 8_000_000
MOST_SIDE = 8192
QUALITY = 80
# Share of the bytes for the picture of the whole ground where there are changes to show sharper.
WHOLE_SHARE = 0.5
# Working pixels: the side of the sharp parts, and the margin around a change.
PART, AROUND = 256, 24
# Side of the blocks that are read, in pixels.
READ = 1024
# Characters per byte in a page (base64), and for the addresses and the box of a picture.
AS_TEXT, BESIDE = 4 / 3, 150
# Share of the bytes that a shrunk picture aims at.
ENOUGH = 0.9
# Parts that tell the bytes of all, and the side in pixels below which no picture is made smaller.
_SAMPLES, _LEAST_SIDE = 6, 16

Dates = tuple[Image.Image, Image.Image]


@dataclass(frozen=True)
class Picture:
    """A part of the ground on both dates.

    Attributes:
        window: the working pixels that it shows.
        size: its own width and height in pixels.
        before, after: WebP.
        reduced: working pixels per pixel of the picture, a side; 1 at full detail.
    """

    window: Window
    size: tuple[int, int]
    before: bytes
    after: bytes
    reduced: float

    @property
    def bytes_as_text(self) -> int:
        """Its size in a page."""
        return round((len(self.before) + len(self.after)) * AS_TEXT) + BESIDE


def imagery_of(
    pair: ScenePair,
    window: Window,
    outlines: Sequence[MultiPolygon],
    most: int,
    progress: Progress | None = None,
) -> tuple[Picture, tuple[Picture, ...]]:
    """Return the picture of the whole ground, and those of parts of it in more detail.

    Args:
        outlines: of the changes, in working pixels.
        most: bytes that all pictures may take as text.
    """
    dates, reduced = read_whole(pair, window, progress)
    whole = picture_of(window, dates, reduced)
    if whole.reduced == 1 and whole.bytes_as_text <= most:
        return whole, ()
    if whole.bytes_as_text > (share := most * (WHOLE_SHARE if outlines else 1)):
        whole = _shrunk(whole, dates, share)
    return whole, tuple(_parts(pair, window, outlines, whole.reduced, most - whole.bytes_as_text))


def _shrunk(whole: Picture, dates: Dates, share: float) -> Picture:
    """Return the picture made smaller until it takes at most ``share`` bytes, or is very small."""
    made = whole
    # Bytes grow about as the number of pixels.
    while made.bytes_as_text > share and max(made.size) > _LEAST_SIDE:
        scale = math.sqrt(ENOUGH * share / made.bytes_as_text)
        width, height = (max(1, int(side * scale)) for side in made.size)
        before, after = (date.resize((width, height), Image.Resampling.BOX) for date in dates)
        made = picture_of(whole.window, (before, after), whole.window.width / width)
    return made


def read_whole(pair: ScenePair, window: Window, progress: Progress | None = None) -> tuple[Dates, int]:
    """Return both dates of the whole ground, and the working pixels per pixel of them, a side."""
    by_area = math.ceil(math.sqrt(window.width * window.height / MOST_PIXELS))
    by = max(1, by_area, math.ceil(max(window.width, window.height) / MOST_SIDE))
    return read_reduced(pair, window, by, progress), by


def read_reduced(pair: ScenePair, window: Window, by: int, progress: Progress | None = None) -> Dates:
    """Return both dates of a window of any size, each pixel the mean of ``by`` x ``by`` valid ones."""
    dates = empty_dates(window, by)
    blocks = blocks_of(window, by * max(1, READ // by))
    for done, block in enumerate(blocks, start=1):
        corner = ((block.col_off - window.col_off) // by, (block.row_off - window.row_off) // by)
        for date, image in zip(dates, read_dates(pair, block, by), strict=True):
            date.paste(image, corner)
        report_progress(progress, "page", done, len(blocks))
    return dates


def empty_dates(window: Window, by: int) -> Dates:
    """Return two transparent pictures of a window with one pixel for each ``by`` x ``by``."""
    size = (math.ceil(window.width / by), math.ceil(window.height / by))
    return Image.new("RGBA", size), Image.new("RGBA", size)


def blocks_of(window: Window, side: int) -> list[Window]:
    """Return the blocks of a window, squares of ``side`` pixels within it."""
    return [
        Window(window.col_off + col, window.row_off + row, side, side).intersection(window)
        for row in range(0, window.height, side)
        for col in range(0, window.width, side)
    ]


def finer_than(reduced: float) -> list[int]:
    """Return the reductions, powers of two, that are sharper than ``reduced``."""
    return [2**power for power in range(32) if 2 ** (power + 0.5) <= reduced]


def read_dates(pair: ScenePair, window: Window, by: int) -> Dates:
    """Return both dates of a small window, each pixel the mean of ``by`` x ``by`` valid ones."""
    rows, cols = math.ceil(window.height / by), math.ceil(window.width / by)
    padded = Window(window.col_off, window.row_off, cols * by, rows * by)
    before, after, valid = pair.read(padded)
    # Pixels beyond the window do not count.
    valid[window.height :], valid[:, window.width :] = False, False
    count = valid.reshape(rows, by, cols, by).sum(axis=(1, 3))  # (rows, cols)

    def mean(date: np.ndarray) -> Image.Image:
        cells = np.where(valid, date, 0).reshape(3, rows, by, cols, by)
        colour = cells.sum(axis=(2, 4), dtype=np.uint32) // np.maximum(count, 1)
        pixels = np.concatenate([colour, np.where(count > 0, 255, 0)[None]]).astype(np.uint8)
        return Image.fromarray(np.ascontiguousarray(pixels.transpose(1, 2, 0)), "RGBA")

    return mean(before), mean(after)


def _parts(
    pair: ScenePair, window: Window, outlines: Sequence[MultiPolygon], reduced: float, most: float
) -> Iterator[Picture]:
    """Yield parts around changes in more detail than the whole, as many as fit; most changes first."""
    touched = Counter(place for outline in outlines for place in set(_places(window, outline)))
    places = sorted(touched, key=lambda place: (-touched[place], place))
    blocks = [
        Window(window.col_off + col * PART, window.row_off + row * PART, PART, PART).intersection(window)
        for row, col in places
    ]
    sizes = finer_than(reduced)
    if not blocks or not sizes:
        return
    samples = blocks[:: math.ceil(len(blocks) / _SAMPLES)]
    for by in sizes:
        taken = [picture_of(block, read_dates(pair, block, by), by).bytes_as_text for block in samples]
        if sum(taken) / len(taken) * len(blocks) <= most:
            break
    for block in blocks:
        picture = picture_of(block, read_dates(pair, block, by), by)
        if picture.bytes_as_text > most:
            return
        most -= picture.bytes_as_text
        yield picture


def _places(window: Window, outline: MultiPolygon) -> Iterator[tuple[int, int]]:
    """Yield row and column of the parts of a window that an outline and its margin touch."""
    for polygon in outline.geoms:
        west, north, east, south = polygon.bounds
        cols, rows = (
            range(
                max(0, int(low - first - AROUND)) // PART,
                int(min(size - 1, max(0, high - first + AROUND))) // PART + 1,
            )
            for low, high, first, size in (
                (west, east, window.col_off, window.width),
                (north, south, window.row_off, window.height),
            )
        )
        yield from ((row, col) for row in rows for col in cols)


def picture_of(window: Window, dates: Dates, reduced: float) -> Picture:
    """Encode both dates of a window."""
    before, after = map(encoded, dates)
    return Picture(window, dates[0].size, before, after, reduced)


def encoded(image: Image.Image) -> bytes:
    """Return a picture as WebP."""
    content = io.BytesIO()
    opaque = image.getchannel("A").getextrema()[0] == 255
    # Method 2 takes half the time of Pillow's choice for 1 percent more bytes.
    (image.convert("RGB") if opaque else image).save(content, "WEBP", quality=QUALITY, method=2)
    return content.getvalue()


def data_address(picture: bytes) -> str:
    """Return the address of a picture inside the page."""
    return f"data:image/webp;base64,{b64encode(picture).decode()}"

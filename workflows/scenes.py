"""Read the headers of two scenes and open them as one pair, as the options say."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import rasterio

from tiling import Frame, Lattice, SceneInfo, ScenePair, Window, check_pixel_size, describe
from workflows.errors import OptionInvalid
from workflows.options import SceneOptions

Scene = str | Path | SceneInfo
"""A scene by its name, or by its header."""
Infos = tuple[SceneInfo, SceneInfo]
FINEST = 16
"""A scene is enlarged at most this many times."""
CACHE_BYTES = 96 * 2**20
"""Of GDAL's block cache, by default."""


def read_headers(before: Scene, after: Scene, options: SceneOptions) -> Infos:
    """Return :func:`read_header` of two scenes."""
    return read_header(before, options), read_header(after, options)


def read_header(scene: Scene, options: SceneOptions) -> SceneInfo:
    """Return the header of a scene, its first bands named as the options say; a header is not read again.

    Raises:
        OptionInvalid: it has fewer bands than there are names.
    """
    info = scene if isinstance(scene, SceneInfo) else describe(scene, options.access)
    check_pixel_size(info)
    names = options.band_names
    if names is None:
        return info
    if len(names) > info.count:
        raise OptionInvalid(
            f"{info.path}: it has {info.count} bands, and band-names has {len(names)} names; give as many"
        )
    return replace(info, descriptions=(*names, *info.descriptions[len(names) :]))


def open_at(
    gsd: float | None, infos: Infos, options: SceneOptions, lattice: Lattice | None = None
) -> ScenePair:
    """Open two scenes as the options say, at ``gsd`` metres per pixel; None: those of the scene before."""
    return ScenePair.open(
        *infos,
        bands=options.bands,
        gsd=gsd,
        bounds=options.box,
        scale=options.scale,
        normalize=options.normalize,
        align=options.align,
        frame=options.frame,
        lattice=lattice,
    )


def expanded(pair: ScenePair | Frame, window: Window, pixels: int) -> Window:
    """Return ``window`` with ``pixels`` more on every side, within the working grid."""
    return window.expanded(pixels).intersection(Window(0, 0, pair.grid.width, pair.grid.height))


def centred(low: float, high: float, size: int, extent: int) -> int:
    """Return the start of a span of ``size`` pixels centred on ``low..high`` that stays inside ``0..extent``.

    A scene smaller than the span starts at 0 and is padded by the reader.
    """
    start = math.floor((low + high - size) / 2 + 0.5)
    return max(0, min(start, extent - size))


@contextmanager
def bounded_cache(size: int = CACHE_BYTES) -> Iterator[None]:
    """Let GDAL cache at most ``size`` bytes of decoded pixels; by default it takes 5 percent of the memory.

    GDAL has one cache for all threads; the earlier limit is restored afterwards.
    """
    with rasterio.Env(GDAL_CACHEMAX=size):
        yield

"""What GDAL and its bindings raise where a header is damaged, turned into an error of ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rasterio._err import CPLE_BaseError
from rasterio.errors import RasterioError

from tiling.errors import SceneDamaged


@contextmanager
def sound_header(shown: str) -> Iterator[None]:
    """Within this block, a header is read of which GDAL looks at some parts only when asked.

    Raises:
        SceneDamaged: one of them cannot be read, or a text in it is no UTF-8; ``shown`` names the scene.
    """
    try:
        yield
    except (CPLE_BaseError, RasterioError, UnicodeDecodeError) as error:
        raise SceneDamaged(f"{shown}: its header is damaged ({error}); get a sound copy") from error

"""The bytes of a file on a server, read by GDAL as it reads the raster itself: credentials, parts and cache.

GDAL has no driver that gives bytes. A VRT of raw pixels of one byte does.
"""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO
from xml.etree.ElementTree import Element, SubElement, tostring

import rasterio
from rasterio.io import DatasetReader
from rasterio.windows import Window

from tiling.gdal import georeferencing_optional

_WIDTH, _HEIGHT = 4096, 2**31 - 1
# Pinned to the opposite for everything else; VRTs of strangers cannot have raw pixels, see vrt_checks.
_RAW = {"GDAL_VRT_ENABLE_RAWRASTERBAND": "YES", "GDAL_VRT_RAWRASTERBAND_ALLOWED_SOURCE": "ALL"}


@contextmanager
def open_bytes(source: str) -> Iterator[IO[bytes]]:
    """Open a file by GDAL's name of it; its length is not known, and zeros follow its end."""
    root = Element("VRTDataset", rasterXSize=str(_WIDTH), rasterYSize=str(_HEIGHT))
    band = SubElement(root, "VRTRasterBand", dataType="Byte", band="1", subClass="VRTRawRasterBand")
    SubElement(band, "SourceFilename", relativeToVRT="0").text = source
    for name, value in (("ImageOffset", 0), ("PixelOffset", 1), ("LineOffset", _WIDTH)):
        SubElement(band, name).text = str(value)
    with rasterio.Env(**_RAW):
        with georeferencing_optional:
            raster = rasterio.open(tostring(root, encoding="unicode"), driver="VRT")
        with raster, io.BufferedReader(_Bytes(raster), _WIDTH) as file:
            yield file


class _Bytes(io.RawIOBase):
    """The pixels of a raster as a file."""

    def __init__(self, raster: DatasetReader) -> None:
        self._raster, self._position = raster, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a position from the start, or from the present one."""
        if whence == io.SEEK_END:
            raise io.UnsupportedOperation("the length is not known")
        self._position = offset + (self._position if whence == io.SEEK_CUR else 0)
        return self._position

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Read the rest of a row of pixels."""
        row, column = divmod(self._position, _WIDTH)
        if row >= _HEIGHT:
            return 0
        content = self._raster.read(1, window=Window(0, row, _WIDTH, 1)).tobytes()[column:][: len(buffer)]
        buffer[: len(content)] = content
        self._position += len(content)
        return len(content)

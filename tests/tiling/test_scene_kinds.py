import numpy as np
import pytest
from rasterio.shutil import copy
from rasters import PLACE, UTM, band, north_up, source, textured, write_bands, write_scene

from tiling import describe
from tiling.scene import open_scene

IMAGE = textured(300, 400)
COPIES = {
    "striped": {"driver": "GTiff", "TILED": "NO", "BLOCKYSIZE": 16},
    "tiled": {"driver": "GTiff", "TILED": "YES", "BLOCKXSIZE": 128, "BLOCKYSIZE": 64, "COMPRESS": "DEFLATE"},
    "planes": {"driver": "GTiff", "INTERLEAVE": "BAND", "COMPRESS": "LZW", "PREDICTOR": 2},
    "big": {"driver": "GTiff", "BIGTIFF": "YES"},
    "big-endian": {"driver": "GTiff", "ENDIANNESS": "BIG"},
    "cog": {"driver": "COG", "COMPRESS": "ZSTD", "BLOCKSIZE": 128},
    "jpeg 2000": {"driver": "JP2OpenJPEG", "QUALITY": 100, "REVERSIBLE": "YES", "BLOCKXSIZE": 128},
    "png": {"driver": "PNG", "WORLDFILE": "YES"},
}
ENDINGS = {"GTiff": "tif", "COG": "tif", "JP2OpenJPEG": "jp2", "PNG": "png"}


@pytest.mark.parametrize("kind", COPIES)
def test_every_layout_of_a_file_is_opened_with_its_pixels(tmp_path, kind):
    options = COPIES[kind]
    path = tmp_path / f"b.{ENDINGS[options['driver']]}"
    copy(write_scene(tmp_path / "a.tif", IMAGE), path, **options)
    info = describe(path)
    assert info.driver == options["driver"].replace("COG", "GTiff")
    assert (info.width, info.height, info.count) == (400, 300, 3) and info.crs.to_string() == UTM
    assert info.transform == north_up() and info.north_up
    with open_scene(info) as file:
        assert np.array_equal(file.read(), IMAGE)


def test_a_mosaic_with_a_gap(tmp_path):
    """Two scenes side by side, as gdalbuildvrt writes them, with ground between that nobody saw."""
    for name, west in (("a", 0), ("b", 450)):
        write_scene(tmp_path / f"{name}.tif", IMAGE, transform=north_up(500_000 + west / 2), nodata=0)

    def part(name, number, col):
        place = (
            '<SourceProperties RasterXSize="400" RasterYSize="300" DataType="Byte" BlockXSize="400" '
            'BlockYSize="6" /><SrcRect xOff="0" yOff="0" xSize="400" ySize="300" />'
            f'<DstRect xOff="{col}" yOff="0" xSize="400" ySize="300" /><NODATA>0</NODATA>'
        )
        return source(f"{name}.tif", number, more=place, kind="Complex")

    bands = "".join(
        band(n, f"<NoDataValue>0</NoDataValue>{part('a', n, 0)}{part('b', n, 450)}") for n in (1, 2, 3)
    )
    path = write_bands(
        tmp_path / "a.vrt",
        bands + '<OverviewList resampling="average">2 4</OverviewList>',
        (850, 300),
        PLACE.replace("<SRS>", '<SRS dataAxisToSRSAxisMapping="1,2">'),
    )
    info = describe(path)
    assert (info.driver, info.width, info.nodata, info.masked_by) == ("VRT", 850, 0, "nodata")
    with open_scene(info) as file:
        pixels = file.read()
    assert np.array_equal(pixels[:, :, :400], IMAGE) and np.array_equal(pixels[:, :, 450:], IMAGE)
    assert not pixels[:, :, 400:450].any()

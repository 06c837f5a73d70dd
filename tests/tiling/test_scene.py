import struct
import zipfile

import numpy as np
import pytest
import rasterio
from rasterio.windows import Window as RasterWindow
from rasters import band, north_up, read_pair, source, textured, write_bands, write_scene, write_vrt
from rasters import refused_file as refused

from tiling import (
    NotARaster,
    SceneDamaged,
    SceneNotFound,
    ScenePair,
    SceneTooLarge,
    UnsafeReference,
    Window,
    describe,
)

IMAGE = textured(40, 60)


@pytest.mark.parametrize(
    "content", [b"", b"not a picture", b"<html></html>", b"II*\0", b"\x89PNG\r\n\x1a\nrest", b"\xff\xd8\xff"]
)
def test_not_a_raster(tmp_path, content):
    path = tmp_path / "text.tif"
    path.write_bytes(content)
    refused(NotARaster, path)


def test_a_raster_of_another_driver_is_not_read(tmp_path):
    path = tmp_path / "a.asc"
    path.write_text("ncols 2\nnrows 2\nxllcorner 0\nyllcorner 0\ncellsize 1\n1 2\n3 4\n")
    with rasterio.open(path) as file:  # GDAL itself would read it
        assert file.driver == "AAIGrid"
    refused(NotARaster, path)


def test_too_many_bands(tmp_path):
    path = write_scene(tmp_path / "a.tif", np.zeros((257, 4, 4), np.uint8))
    refused(SceneTooLarge, path)
    describe(write_scene(tmp_path / "b.tif", np.zeros((256, 4, 4), np.uint8)))


def write_bomb(path, width, height, **options):
    """A few bytes on disk that say they are ``width`` x ``height`` pixels."""
    place = {"crs": "EPSG:32633", "transform": north_up(), "count": 3, "dtype": "uint8"}
    sparse = {"SPARSE_OK": True, "BIGTIFF": "YES", "tiled": True}
    with rasterio.open(path, "w", driver="GTiff", width=width, height=height, **place, **sparse, **options):
        pass
    assert path.stat().st_size < 2**20
    return path


def test_too_many_pixels(tmp_path):
    path = write_bomb(tmp_path / "bomb.tif", 400_000, 300_000, blockxsize=8192, blockysize=8192)
    refused(SceneTooLarge, path)


def test_too_large_blocks(tmp_path):
    blocks = {"blockxsize": 16_384, "blockysize": 16_384}
    path = write_bomb(tmp_path / "bomb.tif", 20_000, 20_000, interleave="pixel", **blocks)
    refused(SceneTooLarge, path, "blocks of 16384 x 16384 pixels take 768 MiB")
    describe(write_bomb(tmp_path / "a.tif", 9_000, 9_000, interleave="band", **blocks))


def test_a_vrt_of_sources_beside_it(tmp_path):
    write_scene(tmp_path / "a.tif", IMAGE)
    (tmp_path / "deeper").mkdir()
    write_scene(tmp_path / "deeper" / "a.tif", IMAGE)
    for name in ("a.tif", "deeper/a.tif", "deeper/../a.tif"):
        path = write_vrt(tmp_path / "a.vrt", name)
        assert describe(path).driver == "VRT"
        before, after, valid = read_pair(path, tmp_path / "a.tif")
        assert valid.all() and np.array_equal(before, IMAGE) and np.array_equal(after, IMAGE)
    describe(write_vrt(tmp_path / "b.vrt", tmp_path / "a.tif", relative=0))


def test_a_vrt_does_not_reach_out_of_its_folder(folder):
    secret = folder.parent / "secret.tif"
    (folder / "link.tif").symlink_to(secret)
    for name, relative in (
        ("../secret.tif", 1),
        (secret, 0),
        (secret, 1),
        ("link.tif", 1),
        ("/vsicurl/https://example.org/a.tif", 0),
        ("https://example.org/a.tif", 1),
        ("GTIFF_DIR:1:a.tif", 1),
        ("", 1),
    ):
        refused(UnsafeReference, write_vrt(folder / "a.vrt", name, relative=relative), str(name))


@pytest.mark.parametrize(
    "extra",
    [
        '<VRTRasterBand dataType="Byte" band="4" subClass="VRTDerivedRasterBand"></VRTRasterBand>',
        '<VRTRasterBand dataType="Byte" band="4" SUBCLASS="VRTRawRasterBand"></VRTRasterBand>',
        "<GDALWarpOptions></GDALWarpOptions>",
        "<Overview><SourceFilename>a.tif</SourceFilename></Overview>",
        "<sourcefilename>../secret.tif</sourcefilename>",
        "<PixelFunctionCode>import os</PixelFunctionCode>",
    ],
)
def test_a_vrt_with_more_than_a_mosaic_is_refused(folder, extra):
    refused(UnsafeReference, write_vrt(folder / "a.vrt", "a.tif", extra=extra))


def test_a_vrt_with_entities_or_that_is_not_well_formed_is_refused(folder):
    path = write_vrt(folder / "a.vrt", "&e;")
    path.write_text('<!DOCTYPE VRTDataset [<!ENTITY e "a.tif">]>' + path.read_text())
    refused(UnsafeReference, path)
    path.write_text("<VRTDataset><VRTRasterBand></VRTDataset>")
    refused(UnsafeReference, path)


def test_a_vrt_of_a_vrt_of_nothing_or_of_no_raster_is_refused(folder):
    write_vrt(folder / "inner.vrt", "a.tif")
    refused(UnsafeReference, write_vrt(folder / "a.vrt", "inner.vrt"), "inner.vrt")
    refused(SceneNotFound, write_vrt(folder / "a.vrt", "gone.tif"), "gone.tif")
    (folder / "text.tif").write_text("secret")
    with pytest.raises(NotARaster, match=r"text\.tif"):
        describe(write_vrt(folder / "a.vrt", "text.tif"))


def test_a_vrt_of_bands_that_a_source_lacks_is_refused_in_any_order(folder):
    write_scene(folder / "a.tif", IMAGE[:1])
    for order in ((1, 2, 3), (3, 2, 1)):
        path = write_bands(
            folder / "a.vrt", "".join(band(n, source("a.tif", wish)) for n, wish in enumerate(order, 1))
        )
        refused(SceneDamaged, path, "band 3 of a.tif")


def test_gdal_options_end_with_the_read(tmp_path):
    path = write_scene(tmp_path / "a.tif", IMAGE)
    with rasterio.Env(GDAL_NUM_THREADS="3") as env:
        describe(path)
        with ScenePair.open(path, path) as pair:
            pair.read(Window(0, 0, 8, 8))
        assert env.options["GDAL_NUM_THREADS"] == "3"
        assert rasterio.env.getenv()["GDAL_NUM_THREADS"] == "3"


def test_pixels_that_cannot_be_decoded_are_an_error_not_zeros(tmp_path):
    path = write_scene(
        tmp_path / "a.tif", textured(600, 600), tiled=True, blockxsize=128, blockysize=128, compress="deflate"
    )
    whole = write_scene(tmp_path / "b.tif", textured(600, 600))
    content = bytearray(path.read_bytes())
    start = len(content) // 3
    content[start : start + 20_000] = struct.pack("20000B", *[0xA5] * 20_000)
    path.write_bytes(content)
    with pytest.raises(SceneDamaged), ScenePair.open(path, whole) as pair:
        pair.read(Window(0, 0, 600, 600))


def test_a_scene_that_is_nearly_all_empty_is_not_worked_through(tmp_path):
    empty = "".join(band(number, "") for number in (1, 2, 3))
    path = write_bands(tmp_path / "bomb.vrt", empty, (300_000, 300_000))
    assert path.stat().st_size < 400
    refused(SceneTooLarge, path)
    path = write_bomb(tmp_path / "bomb.tif", 20_000, 20_000, blockxsize=512, blockysize=512)
    refused(SceneTooLarge, path)
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w") as archive:
        archive.write(path, "bomb.tif")
    refused(SceneTooLarge, tmp_path / "bomb.zip/bomb.tif")
    refused(SceneTooLarge, write_bands(tmp_path / "a.vrt", empty, (10001, 10000)))
    describe(write_bands(tmp_path / "b.vrt", empty, (10_000, 10_000)))


def test_a_sparse_scene_with_something_in_it_is_read(tmp_path):
    """Of 20,000 x 20,000 pixels 512 x 512 have data, which are not packed."""
    path = write_bomb(tmp_path / "a.tif", 20_000, 20_000, blockxsize=512, blockysize=512)
    with rasterio.open(path, "r+") as file:
        file.write(textured(512, 512), window=RasterWindow(1024, 2048, 512, 512))
    assert path.stat().st_size < 20_000**2 / 400
    describe(path)
    write_bands(tmp_path / "a.vrt", "".join(band(n, source("a.tif", n)) for n in (1, 2, 3)), (20_000, 20_000))
    describe(tmp_path / "a.vrt")

"""Scenes of strangers that would make GDAL read other files, ask servers, or open a file with another driver.

GDAL must see what was checked: neither more of a VRT, nor a file beside a scene in another spelling, nor a
source through another driver.
"""

import os

import numpy as np
import pytest
import rasterio
from rasters import band, read_pair, refused, source, textured, write_scene, write_vrt
from servers import serving

from tiling import ScenePair, UnsafeReference, describe
from tiling.scene import open_scene
from tiling.sidecars import _listed
from tiling.vrt_writing import pinned

IMAGE = textured(40, 60)
HOSTS = {"tif": "GTiff", "png": "PNG", "jpg": "JPEG", "jp2": "JP2OpenJPEG"}
# What GDAL takes for an element without content, and an XML parser for a part of an instruction.
OPENING, CLOSING = '<?x a="b"/>', '<?x a="b"?>'


@pytest.fixture
def server():
    with serving() as files:
        yield files


def write_host(path):
    """A scene of the format that the ending of ``path`` says, its place in a file beside it."""
    write_scene(path, IMAGE, driver=HOSTS[path.suffix[1:].lower()])
    return path


def commented(path, text):
    """Write ``text`` as a comment into a JPEG, right after its start.

    The comment is so long that its size holds no zero: there most drivers would stop to look for text.
    """
    content = path.read_bytes()
    comment = text.encode().ljust(0x101) + b"\0"
    path.write_bytes(
        content[:2] + b"\xff\xfe" + (len(comment) + 2).to_bytes(2, "big") + comment + content[2:]
    )


def tile_index(address):
    return (
        f"<GDALTileIndexDataset><IndexDataset>/vsicurl/{address}/i.gpkg</IndexDataset></GDALTileIndexDataset>"
    )


# Processing instructions


@pytest.mark.parametrize(
    "hidden",
    [
        band(4, source("../secret.tif")),
        band(4, source("a.tif").replace(' relativeToVRT="1">a.tif', ">/secret.tif")),
        '<VRTRasterBand dataType="Byte" band="4" subClass="VRTRawRasterBand">'
        '<SourceFilename relativeToVRT="1">../secret.tif</SourceFilename></VRTRasterBand>',
        band(4, source("/vsicurl/ADDRESS/a.tif", relative="0")),
    ],
    ids=["above", "absolute", "raw bytes", "request"],
)
def test_nothing_is_hidden_between_processing_instructions(folder, server, hidden):
    hidden = hidden.replace("ADDRESS", server.address)
    path = write_vrt(folder / "a.vrt", extra=OPENING + hidden + CLOSING)
    refused(UnsafeReference, path)
    assert not server.asked


def test_pairs_refuse_a_hidden_band(folder):
    path = write_vrt(folder / "b.vrt", extra=OPENING + band(4, source("../secret.tif")) + CLOSING)
    for dates in ((folder / "a.tif", path), (path, folder / "a.tif")):
        with pytest.raises(UnsafeReference, match=r"b\.vrt"):
            ScenePair.open(*dates)


# What GDAL is given


def test_gdal_is_given_what_was_checked(folder):
    path = write_vrt(folder / "a.vrt", extra="<!-- a note -->")
    with open_scene(path) as file:
        assert file.name.startswith("<VRTDataset") and "note" not in file.name
        named = pinned("", str((folder / "a.tif").resolve()), "GTiff")
        assert file.name.count(f">{named}<") == 3
        assert np.array_equal(file.read(), IMAGE)


def test_a_vrt_that_changes_after_the_check_is_not_what_is_read(folder):
    path = write_vrt(folder / "a.vrt")
    info = describe(path)
    with open_scene(info) as file:
        write_vrt(path, "../secret.tif")
        assert np.array_equal(file.read(), IMAGE)


@pytest.mark.parametrize("name", ["SourceFilename", "sourcefilename", "SimpleSource", "subclass"])
def test_attributes_that_gdal_takes_for_elements_are_refused(folder, name):
    content = source("a.tif").replace("<SimpleSource>", f'<SimpleSource {name}="../secret.tif">')
    refused(UnsafeReference, write_vrt(folder / "a.vrt", extra=band(4, content)))


def test_a_vrt_nested_deeper_than_a_mosaic_is_refused(folder):
    deep = "<Metadata>" * 3000 + "</Metadata>" * 3000
    refused(UnsafeReference, write_vrt(folder / "a.vrt", extra=deep))


@pytest.mark.parametrize("relative", ["2", "yes", "true", "", "-1", "01"])
def test_relative_is_0_or_1(folder, relative):
    """GDAL and we must not differ in where a source lies."""
    (folder / "scenes").mkdir()
    refused(UnsafeReference, write_vrt(folder / "a.vrt", folder / "a.tif", relative=relative))


# Drivers


@pytest.mark.parametrize(("name", "driver"), [("b.jpg", "JPEG"), ("b.vrt", "VRT")])
def test_a_jpeg_is_read_as_a_jpeg_whatever_its_comment_says(folder, server, name, driver):
    """Also as a source of a VRT: with the driver of its check."""
    jpeg, path = write_host(folder / "b.jpg"), folder / name
    write_vrt(folder / "b.vrt", "b.jpg")
    before, _, _ = read_pair(path)
    commented(jpeg, tile_index(server.address))
    assert describe(path).driver == driver
    after, _, valid = read_pair(path)
    assert valid.all() and np.array_equal(after, before)
    assert not server.asked


def test_a_source_is_not_opened_as_something_else_later(folder):
    info = describe(write_vrt(folder / "b.vrt"))
    with open_scene(info) as file:
        write_vrt(folder / "a.tif", "../secret.tif")
        with pytest.raises(rasterio.errors.RasterioError):
            file.read(1)


def test_a_question_mark_in_a_path_cannot_shed_the_driver(folder, server):
    tiff = folder / "a.tif"
    named = tiff.rename(folder / "a?if=JPEG.tif")
    assert read_pair(named)[2].all()
    jpeg = write_host(folder / "b.jpg")
    commented(jpeg, tile_index(server.address))
    folder.joinpath("b.jpg.aux.xml").rename(folder / "b?.jpg.aux.xml")
    jpeg = jpeg.rename(folder / "b?.jpg")
    with pytest.raises(UnsafeReference):
        ScenePair.open(jpeg, jpeg)
    assert not server.asked


def test_what_is_pinned_opens_with_that_driver_alone(folder):
    tiff = str(folder / "a.tif")
    with rasterio.open(pinned(tiff, tiff, "GTiff")) as file:
        assert np.array_equal(file.read(), IMAGE)
    with pytest.raises(rasterio.errors.RasterioIOError):
        rasterio.open(pinned(tiff, tiff, "PNG"))


# Files beside a scene


@pytest.mark.parametrize("kind", HOSTS)
@pytest.mark.parametrize(
    "spelling", ["in.{}.msk", "in.{}.Msk", "IN.{}.msk", "In.{}.MSK", "in.{}.ovr", "in.{}.Ovr", "IN.{}.ovr"]
)
def test_masks_and_overviews_are_checked_in_any_spelling(folder, kind, spelling):
    path = write_host(folder / f"in.{kind}")
    describe(path)
    beside = write_vrt(folder / spelling.format(kind if spelling.startswith("in") else kind.upper()))
    refused(UnsafeReference, path, beside.name)


@pytest.mark.parametrize("spelling", ["a.tif.Msk", "A.TIF.msk", "a.TIF.Ovr"])
def test_those_of_the_sources_of_a_vrt_are_checked_too(folder, spelling):
    path = write_vrt(folder / "b.vrt")
    describe(path)
    beside = write_vrt(folder / spelling, "../secret.tif")
    refused(UnsafeReference, path, beside.name)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("a.tif.Msk", "A.TIF.MSK.Msk"),
        ("a.tif.ovr", "a.tif.ovr.ovr"),
        ("a.tif.msk", "a.tif.msk.ovr"),
        ("a.tif.ovr", "a.tif.ovr.msk"),
    ],
)
def test_those_of_masks_and_overviews_are_checked_in_any_spelling(folder, first, second):
    write_scene(folder / first, IMAGE[:1])
    describe(folder / "a.tif")
    write_vrt(folder / second, "../secret.tif")
    refused(UnsafeReference, folder / "a.tif", second)


def test_a_mask_beside_a_vrt_counts(folder):
    mask = np.full((1, 40, 60), 255, np.uint8)
    mask[:, 30:] = 0
    tags = {f"INTERNAL_MASK_FLAGS_{number}": "2" for number in (1, 2, 3)}
    write_scene(folder / "m.tif", mask, tags=tags).rename(folder / "b.vrt.msk")
    path = write_vrt(folder / "b.vrt")
    assert describe(path).masked_by == "mask"
    assert np.array_equal(read_pair(path)[2], mask[0] > 0)


@pytest.mark.parametrize("host", ["a.tif", "b.vrt"])
@pytest.mark.parametrize("key", ["OVERVIEW_FILE", "overview_file"])
def test_no_scene_source_or_mask_names_a_file_of_overviews(folder, host, key):
    write_vrt(folder / "b.vrt")
    write_scene(folder / "a.tif.msk", IMAGE[:1])
    for named in ("a.tif.msk", "a.tif"):
        describe(folder / host)
        before = (folder / named).read_bytes()
        with rasterio.open(folder / named, "r+") as file:
            file.update_tags(ns="OVERVIEWS", **{key: "../secret.tif"})
        refused(UnsafeReference, folder / host, named)
        (folder / named).write_bytes(before)


@pytest.mark.parametrize("name", ["a.aux", "a.tif.aux", "A.AUX", "a.tif.Aux"])
def test_an_auxiliary_file_that_is_no_true_one_is_refused(folder, name):
    (folder / name).write_bytes(b"EHFA_HEADER_TAG\0" + bytes(40))
    describe(folder / "a.tif")
    (folder / name).write_bytes(b"\\relax % of another program")
    describe(folder / "a.tif")
    (folder / name).write_bytes(b"ehfa_HEADER_TAG<VRTDataset/>")
    refused(UnsafeReference, folder / "a.tif", name)


def test_files_beside_a_scene_are_found_where_the_folder_cannot_be_listed(folder, monkeypatch):
    def failing(path):
        raise PermissionError

    monkeypatch.setattr("tiling.sidecars.os.listdir", failing)
    describe(folder / "a.tif")
    write_vrt(folder / "a.tif.MSK", "../secret.tif")
    refused(UnsafeReference, folder / "a.tif", "a.tif.MSK")


def test_a_folder_that_has_been_as_it_is_for_a_while_is_listed_like_a_new_one(tmp_path):
    (tmp_path / "A.tif").touch()
    new = _listed(tmp_path)
    os.utime(tmp_path, (1, 1))
    assert _listed(tmp_path) == new and new[0] == {"a.tif": ["A.tif"]}

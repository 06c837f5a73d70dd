"""Pipes, sockets and devices where a file is expected; texts beside a scene that are too large or damaged.

Nobody writes into the pipes: what opens one would wait without end.
"""

import os

import pytest
from rasters import refused, textured, write_scene, write_vrt

from tiling import MAX_TEXT_BYTES, SceneNotFound, SceneTooLarge, SceneUnreadable, UnsafeReference, describe

IMAGE = textured(40, 60)
ENDINGS = {"tif": "GTiff", "png": "PNG", "jpg": "JPEG", "jp2": "JP2OpenJPEG"}
pytestmark = [
    pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes"),
    pytest.mark.timeout(60),
]


def host(path):
    return write_scene(path, IMAGE, driver=ENDINGS[path.suffix[1:]])


def test_a_pipe_is_no_scene(folder):
    pipe = folder / "b.tif"
    os.mkfifo(pipe)
    refused(SceneUnreadable, pipe, "b.tif")
    (folder / "link.tif").symlink_to(pipe)
    refused(SceneUnreadable, folder / "link.tif")
    refused(SceneNotFound, write_vrt(folder / "c.vrt", "b.tif"), "b.tif")
    (folder / "d.zip").symlink_to(pipe)
    refused(SceneUnreadable, folder / "d.zip")


def test_a_device_is_no_scene():
    refused(SceneUnreadable, "/dev/zero")


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("name", ["{}.aux.xml", "{}.AUX.XML", "{}.msk", "{}.ovr", "{}.aux"])
def test_no_pipe_beside_a_scene_is_opened(folder, ending, name):
    path = host(folder / f"in.{ending}")
    beside = folder / name.format(path.name)
    beside.unlink(missing_ok=True)
    os.mkfifo(beside)
    refused(UnsafeReference, path, beside.name)


@pytest.mark.parametrize(
    "name",
    [
        *("in.tfw", "IN.TFW", "in.wld", "in.imd", "in.RPB", "in_rpc.txt", "in_metadata.txt", "in.xml"),
        *("in.tab", "in.pvl", "in.pass", "summary.txt", "METADATA.DIM", "HDR_in.txt", "RPC_in.XML"),
        *("DIM_in.XML", "LC08_MTL.txt"),
    ],
)
def test_no_pipe_that_a_provider_would_have_put_there_is_opened(folder, name):
    path = host(folder / "in.tif")
    os.mkfifo(folder / name)
    refused(UnsafeReference, path)


def test_a_pipe_beside_a_source_or_a_mask_is_not_opened(folder):
    path = write_vrt(folder / "b.vrt")
    host(folder / "a.tif").rename(folder / "a.tif.msk")
    host(folder / "a.tif")
    os.mkfifo(folder / "a.tif.msk.aux.xml")
    refused(UnsafeReference, path, "a.tif.msk.aux.xml")
    (folder / "a.tif.msk.aux.xml").unlink()
    os.mkfifo(folder / "a.tfw")
    refused(UnsafeReference, path, "a.tfw")


@pytest.mark.parametrize("name", ["in.tif.aux.xml", "in.TIF.AUX.XML", "in.imd", "in.xml", "in_rpc.txt"])
@pytest.mark.parametrize("host_name", ["in.tif", "b.vrt"])
def test_a_text_beside_a_scene_has_a_limit(folder, name, host_name):
    path = host(folder / "in.tif")
    if host_name == "b.vrt":
        path = write_vrt(folder / "b.vrt", "in.tif")
    beside = folder / name
    start, end = b"<PAMDataset><!--", b"--></PAMDataset>"
    room = MAX_TEXT_BYTES - len(start + end)
    beside.write_bytes(start + b"x" * room + end)
    describe(path)
    beside.write_bytes(start + b"x" * (room + 1) + end)
    refused(SceneTooLarge, path)


@pytest.mark.parametrize(
    "text",
    [
        "<PAMDataset>" + "<x>" * 100_000 + "</x>" * 100_000 + "</PAMDataset>",
        '<?xml version="1.0" encoding="unheard-of"?><PAMDataset/>',
        "<PAMDataset><PAMRasterBand band='1'><NoDataValue>",
        "\0",
    ],
    ids=["nested", "encoding", "cut off", "zero"],
)
def test_a_damaged_text_beside_a_scene_says_nothing(folder, text):
    path = host(folder / "in.tif")
    (folder / "in.tif.aux.xml").write_text(text)
    assert describe(path).nodata is None

"""Pipes, sockets and devices where a file is expected; texts beside a scene that are too large or damaged.

Nobody writes into the pipes: what opens one would wait without end.
"""

import os
import socket

import pytest
from opened_scenes import refused
from rasters import textured, write_scene
from virtual_rasters import write_vrt

from tiling import MAX_TEXT_BYTES, SceneNotFound, SceneTooLarge, SceneUnreadable, UnsafeReference, describe
from tiling.plain import is_odd, plain_only

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
    refused(SceneUnreadable, pipe, "b.tif: ", "a pipe")
    (folder / "link.tif").symlink_to(pipe)
    refused(SceneUnreadable, folder / "link.tif")
    refused(SceneNotFound, write_vrt(folder / "c.vrt", "b.tif"), "b.tif")
    (folder / "d.zip").symlink_to(pipe)
    refused(SceneUnreadable, folder / "d.zip")


def test_a_device_is_no_scene():
    refused(SceneUnreadable, "/dev/zero", "a device")


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
    refused(UnsafeReference, path, f"in.tif: {name} beside it is no plain file; remove it")


def test_pipes_of_other_programs_do_not_matter(folder):
    path = host(folder / "in.tif")
    for name in ("debug-pipe-in", "in2.tfw", "notes.txt", "in"):
        os.mkfifo(folder / name)
    assert describe(path).count == 3


def test_a_pipe_beside_a_source_or_a_mask_is_not_opened(folder):
    path = write_vrt(folder / "b.vrt")
    host(folder / "a.tif").rename(folder / "a.tif.msk")
    host(folder / "a.tif")
    os.mkfifo(folder / "a.tif.msk.aux.xml")
    refused(UnsafeReference, path, "a.tif.msk.aux.xml")
    (folder / "a.tif.msk.aux.xml").unlink()
    os.mkfifo(folder / "a.tfw")
    refused(UnsafeReference, path, "a.tfw")


def test_a_socket_beside_a_scene_is_not_opened(folder):
    path = host(folder / "in.tif")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "in.tif.aux.xml"))
        refused(UnsafeReference, path, "no plain file")


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
    refused(SceneTooLarge, path, f"{name} beside it has 4 MiB, ", "; move")


def test_large_files_that_are_not_about_the_scene_do_not_matter(folder):
    path = host(folder / "in.tif")
    for name in ("points.xml", "index.txt", "in2.aux.xml"):
        (folder / name).write_bytes(b"x" * (MAX_TEXT_BYTES + 1))
    assert describe(path).count == 3


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


def test_what_is_odd(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").touch()
    (tmp_path / "broken").symlink_to("nowhere")
    odd = [name for name in ("pipe", "file", "broken", "missing", ".") if is_odd(tmp_path / name)]
    assert odd == ["pipe"] and is_odd("/dev/null") and not is_odd("a\0b")
    for name, error in (("pipe", "a pipe"), (".", "directory"), ("missing", "No such file")):
        with pytest.raises(OSError, match=error), open(tmp_path / name, "rb", opener=plain_only):
            pass
    with open(tmp_path / "file", "rb", opener=plain_only) as file:
        assert file.read() == b""

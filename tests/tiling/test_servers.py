"""Rasters on servers."""

import os
import struct
from contextlib import ExitStack

import numpy as np
import pytest
from rasters import north_up, refused, textured, write_scene
from servers import serving
from test_crs_texts import BASE, jpeg2000

from tiling import (
    NotARaster,
    SceneNotFound,
    ScenePair,
    SceneTooLarge,
    SceneUnreachable,
    SceneUnreadable,
    UnsafeReference,
    Window,
    describe,
)
from tiling.gridded import GriddedReader, GriddedScene
from tiling.scene import open_scene
from tiling.working_grid import plan_grid

IMAGE = textured(40, 60)
SECRET = "X-Amz-Signature=0123456789abcdef"


@pytest.fixture
def server(monkeypatch):
    """A server whose failures are not tried again, which would take seconds."""
    monkeypatch.setenv("GDAL_HTTP_MAX_RETRY", "0")
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with serving() as served:
        yield served


@pytest.mark.slow
@pytest.mark.parametrize("prefix", ["", "/vsicurl/"])
def test_a_raster_on_a_server_is_read_in_parts(tmp_path, server, tiff, prefix):
    large = write_scene(tmp_path / "large.tif", textured(1200, 1500), tiled=True)
    server.files["/x/2020-05-06.tif"] = large.read_bytes()
    name = f"{prefix}{server.address}/x/2020-05-06.tif?{SECRET}"
    info = describe(name)
    assert info.path == f"{prefix}{server.address}/x/2020-05-06.tif" and info.width == 1500
    assert SECRET not in repr(info) and all(SECRET in path for _, path in server.asked)
    with ScenePair.open(name, large) as pair:
        before, after, valid = pair.read(Window(100, 100, 64, 64))
    assert valid.all() and np.array_equal(before, after)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (404, SceneNotFound),
        (410, SceneNotFound),
        (401, SceneUnreadable),
        (403, SceneUnreadable),
        (500, SceneUnreachable),
        (503, SceneUnreachable),
    ],
)
def test_what_a_server_refuses_is_one_clear_line(server, status, error):
    server.statuses["/a.tif"] = status
    caught = refused(error, f"{server.address}/a.tif?{SECRET}", f"{server.address}/a.tif: ")
    assert caught.exit_code == (1 if error is SceneUnreachable else 2)


@pytest.mark.slow
def test_a_server_that_is_not_there_or_silent(server, monkeypatch):
    with serving() as closed:
        address = closed.address
    refused(SceneUnreachable, f"{address}/a.tif?{SECRET}")
    monkeypatch.setenv("GDAL_HTTP_TIMEOUT", "1")
    server.delays["/late.tif"] = 1.5
    refused(SceneUnreachable, f"{server.address}/late.tif?{SECRET}")


def test_what_is_no_raster_on_a_server(tmp_path, server, tiff):
    large = write_scene(tmp_path / "large.tif", textured(300, 300)).read_bytes()
    server.files |= {
        "/page.tif": b"<html>log in</html>",
        "/short.tif": tiff[:4],
        "/half.tif": large[: len(large) // 2],
        "/virtual.tif": b'<VRTDataset rasterXSize="6" rasterYSize="4"></VRTDataset>',
        "/whole.tif": large,
    }
    server.whole.add("/whole.tif")
    for name in server.files:
        refused(NotARaster, f"{server.address}{name}?{SECRET}", f"{server.address}{name}: ")


@pytest.mark.parametrize("query", [SECRET, "sp=r&se=2030-01-01&sig=0123456789abcdef", "token=hunter2"])
def test_addresses_that_are_signed_for_reading_alone(server, tiff, query):
    server.files["/a.tif"] = tiff
    server.get_only.add("/a.tif")
    assert describe(f"{server.address}/a.tif?{query}").width == 60
    assert {method for method, _ in server.asked} == {"GET"}


@pytest.mark.parametrize("cell", [0.5, 0.4])
def test_a_server_that_fails_while_pixels_are_read(tmp_path, server, cell):
    noise = np.random.default_rng(1).integers(1, 255, (3, 600, 600), dtype=np.uint8)
    local = describe(write_scene(tmp_path / "a.tif", noise))
    there = write_scene(tmp_path / "b.tif", noise, tiled=True, transform=north_up(cell=cell))
    server.files["/b.tif"] = there.read_bytes()
    info = describe(f"{server.address}/b.tif?{SECRET}")
    layer = GriddedScene.of(info, (1, 2, 3), plan_grid(local, info))
    with ExitStack() as stack:
        reader = GriddedReader(layer, stack)
        server.statuses["/b.tif"] = 503

        def read(window):
            reader.read(window)

        window = Window(0, 0, 400, 400)
        error = refused(SceneUnreachable, window, f"{server.address}/b.tif: ", describing=read)
    assert error.exit_code == 1


def test_nothing_is_asked_for_beside_a_raster_on_a_server(server, tiff):
    server.files["/c/a.tif"] = tiff
    server.files["/c/a.tif.msk"] = server.files["/c/a.tif.ovr"] = b"<VRTDataset/>"
    name = f"{server.address}/c/a.tif"
    with open_scene(name) as file:
        file.dataset_mask()
        file.overviews(1)
    info = describe(name)
    layer = GriddedScene.of(info, (1, 2, 3), plan_grid(info, info))
    with ExitStack() as stack:
        values, valid = GriddedReader(layer, stack).read(Window(0, 0, 60, 40))
    assert valid.all() and np.array_equal(values, IMAGE)
    assert {path for _, path in server.asked} == {"/c/a.tif"}


def _geotiff_that_names(pipe, tmp_path):
    """Return a GeoTIFF whose CRS, in GDAL's reading, is a text that names a file."""
    stand_in = str(pipe).replace("pipe", "pipX")
    crs = BASE.format(f',EXTENSION["PROJ4_GRIDS","{stand_in}"]')
    written = write_scene(tmp_path / "a.tif", IMAGE, crs=crs, geotiff_keys_flavor="ESRI_PE").read_bytes()
    assert stand_in.encode() in written
    return written.replace(stand_in.encode(), str(pipe).encode())


@pytest.mark.parametrize("name", ["a.tif", "a.jp2", "later.tif"])
def test_a_pipe_that_the_crs_of_a_raster_on_a_server_names_is_never_opened(server, tmp_path, name):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    geotiff = _geotiff_that_names(pipe, tmp_path)
    server.files |= {
        "/a.tif": geotiff,
        "/a.jp2": jpeg2000(f"+proj=utm +zone=33 +nadgrids={pipe}"),
        "/later.tif": _with_directory_at_the_end(geotiff),
    }
    refused(UnsafeReference, f"{server.address}/{name}", f"{server.address}/{name}: ")


def _with_directory_at_the_end(tiff):
    """Return a TIFF whose directory, and the texts in it, lie behind a megabyte of nothing."""
    room = 2**20
    (start,) = struct.unpack_from("<I", tiff, 4)
    (count,) = struct.unpack_from("<H", tiff, start)
    directory = bytearray(tiff[start : start + 2 + 12 * count + 4])
    for entry in range(2, 2 + 12 * count, 12):
        tag, _, _, value = struct.unpack_from("<HHII", directory, entry)
        if tag == 34737:
            struct.pack_into("<I", directory, entry + 8, value + len(tiff) + room)
    return tiff[:4] + struct.pack("<I", 2 * len(tiff) + room) + tiff[8:] + bytes(room) + tiff + directory


def test_limits_hold_for_rasters_on_a_server(tmp_path, server, monkeypatch):
    server.files["/a.tif"] = write_scene(tmp_path / "a.tif", np.zeros((257, 4, 4), np.uint8)).read_bytes()
    refused(SceneTooLarge, f"{server.address}/a.tif?{SECRET}")


@pytest.mark.parametrize(
    ("name", "place", "environment"),
    [
        (
            "s3://bucket/x/a.tif",
            "/bucket/x/a.tif",
            {
                "AWS_S3_ENDPOINT": "127.0.0.1:{port}",
                "AWS_HTTPS": "NO",
                "AWS_VIRTUAL_HOSTING": "FALSE",
                "AWS_NO_SIGN_REQUEST": "YES",
            },
        ),
        (
            "gs://bucket/x/a.tif",
            "/bucket/x/a.tif",
            {"CPL_GS_ENDPOINT": "http://127.0.0.1:{port}/", "GS_NO_SIGN_REQUEST": "YES"},
        ),
        (
            "az://bucket/x/a.tif",
            "/devstoreaccount1/bucket/x/a.tif",
            {
                "AZURE_STORAGE_CONNECTION_STRING": "AccountName=devstoreaccount1;AccountKey=aGk=;"
                "DefaultEndpointsProtocol=http;BlobEndpoint=http://127.0.0.1:{port}/devstoreaccount1"
            },
        ),
    ],
)
def test_clouds_are_read_with_the_credentials_of_the_environment(
    server, tiff, monkeypatch, name, place, environment
):
    for variable in [variable for variable in os.environ if variable.startswith(("AWS_", "GS_", "AZURE_"))]:
        monkeypatch.delenv(variable)
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value.format(port=server.port))
    server.files[place] = tiff
    with open_scene(describe(name)) as file:
        assert np.array_equal(file.read(), IMAGE)
    assert describe(name).path == name
    assert {path.partition("?")[0] for _, path in server.asked} == {place}
    refused(SceneNotFound, name.replace("a.tif", "b.tif"))
    server.statuses[place.replace("a.tif", "c.tif")] = 403
    refused(SceneUnreadable, name.replace("a.tif", "c.tif"))

import os
import struct
import zipfile
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
import rasterio
from file_server import serving
from hypothesis import given
from hypothesis import strategies as st
from rasters import north_up, textured, write_scene

import tiling.archives
from tiling import (
    ArchiveUnclear,
    LocationUnsupported,
    MissingGeoreferencing,
    NotARaster,
    SceneNotFound,
    ScenePair,
    SceneTooLarge,
    SceneUnreachable,
    SceneUnreadable,
    TilingError,
    UnsafeReference,
    Window,
    describe,
)
from tiling.frame import plan_grid
from tiling.layer import Layer
from tiling.location import locate
from tiling.scene import open_scene, safe_environment

IMAGE = textured(40, 60)
SECRET = "X-Amz-Signature=0123456789abcdef"


def refused(error, path, *words, describing=describe):
    """The message of ``error``: one line with a remedy and ``words``, without any secret."""
    with pytest.raises(error) as caught:
        describing(path)
    assert type(caught.value) is error
    message = str(caught.value)
    assert "\n" not in message and "; " in message
    for word in words:
        assert word in message
    for text in (message, repr(caught.value)):
        assert "0123456789abcdef" not in text and "hunter2" not in text
    return caught.value


# Names


@pytest.mark.parametrize(
    ("name", "shown", "source"),
    [
        ("https://example.org/x/a.tif", None, "/vsicurl/https://example.org/x/a.tif"),
        ("HTTP://example.org/a.tif", "http://example.org/a.tif", "/vsicurl/http://example.org/a.tif"),
        (
            f"https://example.org/a.tif?{SECRET}#p",
            "https://example.org/a.tif",
            f"/vsicurl/https://example.org/a.tif?{SECRET}#p",
        ),
        (
            "https://me:hunter2@example.org:8080/a.tif",
            "https://example.org:8080/a.tif",
            "/vsicurl/https://me:hunter2@example.org:8080/a.tif",
        ),
        (
            f"/vsicurl/https://me:hunter2@example.org/a.tif?{SECRET}",
            "/vsicurl/https://example.org/a.tif",
            f"/vsicurl/https://me:hunter2@example.org/a.tif?{SECRET}",
        ),
        ("s3://bucket/x/a.tif", None, "/vsis3/bucket/x/a.tif"),
        ("gs://bucket/x/a.tif", None, "/vsigs/bucket/x/a.tif"),
        ("az://container/x/a.tif", None, "/vsiaz/container/x/a.tif"),
        ("/vsis3/bucket/a.tif", None, "/vsis3/bucket/a.tif"),
        ("/vsigs/bucket/a.tif", None, "/vsigs/bucket/a.tif"),
        ("/vsiaz/bucket/a.tif", None, "/vsiaz/bucket/a.tif"),
        (f"s3://bucket/a.tif?{SECRET}", "s3://bucket/a.tif", f"/vsis3/bucket/a.tif?{SECRET}"),
    ],
)
def test_addresses_become_what_gdal_opens_and_show_no_secret(name, shown, source):
    location = locate(name)
    assert (location.shown, location.source, location.local) == (shown or name, source, None)
    assert locate(location.source).source == location.source
    assert "0123456789abcdef" not in repr(location) and "hunter2" not in repr(location)


@pytest.mark.parametrize("name", ["https://example.org/x/a.tif", "s3://bucket/x/a.tif"])
def test_an_address_that_went_through_a_path_is_mended(name):
    assert str(Path(name)) != name
    assert locate(Path(name)) == locate(name)


def test_a_local_file_is_shown_as_given_and_opened_by_its_whole_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    location = locate("x/../a.tif")
    assert (location.shown, location.local) == ("x/../a.tif", Path("x/../a.tif"))
    assert location.source == str(tmp_path / "a.tif")
    assert locate("GTIFF_DIR:1:a.tif").source == str(tmp_path / "GTIFF_DIR:1:a.tif")


@pytest.mark.parametrize(
    "name",
    [
        "ftp://me:hunter2@example.org/a.tif",
        "file:///etc/passwd",
        f"foo://example.org/a.tif?{SECRET}",
        "zip://a.zip!a.tif",
        "/vsistdin/",
        "/vsisubfile/0_10,a.tif",
        "/vsigzip/a.tif.gz",
        "/vsitar/a.tar/a.tif",
        "/vsimem/a.tif",
        "/vsicurl/file:///etc/passwd",
        "/vsicurl/ftp://example.org/a.tif",
        f"/vsicurl?url=https://example.org/a.tif&{SECRET}",
        "/vsicurl_streaming/https://example.org/a.tif",
        "/vsis3_streaming/bucket/a.tif",
        "/vsizip/vsicurl/https://example.org/a.zip/a.tif",
        "/vsizip//vsicurl/https://example.org/a.zip/a.tif",
        "https://example.org/a.zip",
        "s3://bucket/a.zip/a.tif",
        "https://example.org",
        "https://example.org/",
        "https:///a.tif",
        f"https://example.org?{SECRET}",
        f"https://user:hunter2?{SECRET}@example.org/a.tif",
        "s3://bucket",
        "s3://bucket/",
        "/vsis3/bucket",
    ],
)
def test_other_names_are_refused(name):
    error = refused(LocationUnsupported, name)
    assert error.exit_code == 2


@given(
    st.text(max_size=60), st.sampled_from(["", "https://", "/vsicurl/http://", "s3://", "/vsi", "/vsizip/"])
)
def test_any_text_is_located_or_refused_in_one_line(text, prefix):
    try:
        location = locate(prefix + text)
    except TilingError as error:
        assert "\n" not in str(error) or "\n" in text
    else:
        assert location.source.startswith("/")


# Archives


def write_zip(path, members, **options):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content, **options)
    return path


@pytest.fixture
def tiff(tmp_path):
    """The bytes of a scene."""
    return write_scene(tmp_path / "plain.tif", IMAGE).read_bytes()


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("member", ["a.tif", "deep/er/ä b.TIF"])
def test_the_only_raster_of_an_archive_is_read(tmp_path, tiff, method, member):
    extra = {"readme.txt": b"hello", "preview.jpg": b"x", "__MACOSX/deep/._a.tif": b"x"}
    path = write_zip(tmp_path / "a.zip", {member: tiff, **extra}, compress_type=method)
    info = describe(path)
    assert info.path == f"{path}/{member}" and info.driver == "GTiff" and info.width == 60
    with open_scene(info) as file:
        assert np.array_equal(file.read(), IMAGE)
    with ScenePair.open(path, tmp_path / "plain.tif") as pair:
        before, after, valid = pair.read(Window(0, 0, 60, 40))
    assert valid.all() and np.array_equal(before, IMAGE) and np.array_equal(after, IMAGE)


def test_the_ways_to_name_a_member(tmp_path, tiff, monkeypatch):
    path = write_zip(tmp_path / "a.zip", {"one.tif": tiff, "x/two.tif": tiff})
    for name in (f"{path}/x/two.tif", f"/vsizip/{path}/x/two.tif", f"/vsizip/{{{path}}}/x/two.tif"):
        info = describe(name)
        assert info.path == name
        assert (locate(name).local, locate(name).member) == (path, "x/two.tif")
        assert locate(info.source).source == info.source
    monkeypatch.chdir(tmp_path)
    for name in ("a.zip/x/two.tif", "/vsizip/a.zip/x/two.tif", Path("a.zip/x/two.tif")):
        assert describe(name).path == str(name)


def test_an_archive_of_any_name_is_read_when_it_is_said_to_be_one(tmp_path, tiff):
    path = write_zip(tmp_path / "a{1}.scene", {"one.tif": tiff})
    refused(NotARaster, path)
    assert describe(f"/vsizip/{path}/one.tif").width == describe(f"/vsizip/{path}").width == 60


def test_an_archive_of_several_rasters_lists_them(tmp_path, tiff):
    path = write_zip(tmp_path / "a.zip", {"b04.tif": tiff, "b03.jp2": b"x", "view.png": b"x"})
    refused(ArchiveUnclear, path, "2 rasters", "b03.jp2, b04.tif", "ARCHIVE.zip/NAME")
    many = write_zip(tmp_path / "b.zip", {f"{number:02}.tif": b"" for number in range(14)})
    refused(ArchiveUnclear, many, "14 rasters", "09.tif and 4 more")
    refused(ArchiveUnclear, write_zip(tmp_path / "c.zip", {"a.txt": b""}), "no raster")
    refused(ArchiveUnclear, write_zip(tmp_path / "d.zip", {}), "no raster")


def test_a_member_that_is_not_there(tmp_path, tiff):
    path = write_zip(tmp_path / "a.zip", {"a.tif": tiff})
    refused(SceneNotFound, f"{path}/b.tif", "a.tif")
    refused(SceneNotFound, tmp_path / "gone.zip" / "a.tif")
    refused(SceneNotFound, f"/vsizip/{tmp_path}/gone.zip/a.tif")


@pytest.mark.parametrize(
    "name", ["../a.tif", "x/../../a.tif", "/etc/a.tif", "C:/a.tif", "x\\a.tif", "a\x1b[2J.tif"]
)
def test_members_outside_the_archive_are_refused(tmp_path, tiff, name):
    path = write_zip(tmp_path / "a.zip", {name: tiff})
    refused(UnsafeReference, path)
    refused(UnsafeReference, write_zip(tmp_path / "b.zip", {"b.tif": tiff, name: b"x"}))


def test_a_member_cannot_be_left_by_its_name(tmp_path, tiff):
    path = write_zip(tmp_path / "a.zip", {"a.tif": tiff})
    refused(UnsafeReference, f"{path}/../plain.tif")
    refused(UnsafeReference, f"/vsizip/{{{path}}}/../plain.tif")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_member_that_is_there_twice_is_refused(tmp_path, tiff):
    path = write_zip(tmp_path / "a.zip", {"a.tif": tiff})
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("a.tif", b"other")
    refused(UnsafeReference, path, "2 times")


def test_a_vrt_in_an_archive_is_refused(tmp_path, tiff):
    vrt = b'<VRTDataset rasterXSize="60" rasterYSize="40"></VRTDataset>'
    path = write_zip(tmp_path / "a.zip", {"a.vrt": vrt})
    refused(ArchiveUnclear, path)
    refused(UnsafeReference, f"{path}/a.vrt", "VRT")
    refused(UnsafeReference, write_zip(tmp_path / "b.zip", {"a.tif": vrt}), "VRT")


def test_what_lies_beside_a_raster_in_an_archive_is_not_read(tmp_path):
    write_scene(tmp_path / "a.png", IMAGE, driver="PNG")
    names = ["a.png", "a.png.aux.xml", "a.wld"]
    path = write_zip(
        tmp_path / "a.zip",
        {name: (tmp_path / name).read_bytes() for name in names if (tmp_path / name).exists()},
    )
    assert len(zipfile.ZipFile(path).namelist()) > 1
    refused(MissingGeoreferencing, path)


def test_a_bomb_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(tiling.archives, "SUSPICIOUS_BYTES", 10_000)
    path = write_zip(tmp_path / "a.zip", {"a.tif": b"II*\0" + bytes(10**6)})
    refused(SceneTooLarge, path, "1000004", "unpack")
    # As large, but not packed: nothing is gained by it.
    stored = write_zip(
        tmp_path / "b.zip", {"a.tif": b"II*\0" + bytes(10**6)}, compress_type=zipfile.ZIP_STORED
    )
    refused(NotARaster, stored)
    monkeypatch.setattr(tiling.archives, "MAX_RATIO", 10**6)
    refused(NotARaster, path)
    monkeypatch.setattr(tiling.archives, "MAX_UNPACKED_BYTES", 10**6)
    refused(SceneTooLarge, path)


def test_too_many_members_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(tiling.archives, "MAX_MEMBERS", 3)
    refused(SceneTooLarge, write_zip(tmp_path / "a.zip", {f"{n}.txt": b"" for n in range(4)}), "4 members")


def test_a_list_of_members_is_not_read_if_it_is_too_long(tmp_path, tiff, monkeypatch):
    path = write_zip(
        tmp_path / "a.zip", {"a.tif": tiff, **{f"{number:0200}.txt": b"" for number in range(200)}}
    )
    describe(path)
    monkeypatch.setattr(tiling.archives, "MAX_LIST_BYTES", 30_000)
    refused(SceneTooLarge, path, "too many")


def test_an_archive_that_may_not_be_opened(tmp_path, tiff, monkeypatch):
    path = write_zip(tmp_path / "a.zip", {"a.tif": tiff})

    def deny(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tiling.archives.io, "FileIO", deny)
    refused(SceneUnreadable, path, "Permission denied")


def test_a_damaged_archive_is_refused(tmp_path, tiff):
    path = write_zip(tmp_path / "a.zip", {"a.tif": tiff})
    content = path.read_bytes()
    for number, broken in enumerate((b"", b"PK\x03\x04 but nothing follows", content[:-30], content[:200])):
        bad = tmp_path / f"{number}.zip"
        bad.write_bytes(broken)
        refused(NotARaster, bad, "archive")
    start = content.index(b"a.tif") + len("a.tif")
    (tmp_path / "c.zip").write_bytes(content[:start] + b"\xff" * 50 + content[start + 50 :])
    refused(NotARaster, tmp_path / "c.zip")


def test_an_encrypted_or_unusually_packed_member_is_refused(tmp_path, tiff):
    path = write_zip(tmp_path / "a.zip", {"a.tif": tiff}, compress_type=zipfile.ZIP_BZIP2)
    refused(NotARaster, path, "packed in a way that is not read")
    path = write_zip(tmp_path / "b.zip", {"a.tif": tiff})
    content = bytearray(path.read_bytes())
    central = content.index(b"PK\x01\x02")
    content[central + 8 : central + 10] = struct.pack("<H", 1)
    path.write_bytes(content)
    refused(NotARaster, path, "it is encrypted; unpack it with its password")


# Servers


@pytest.fixture
def server(monkeypatch):
    """A server whose failures are not tried again, which would take seconds."""
    monkeypatch.setenv("GDAL_HTTP_MAX_RETRY", "0")
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with serving() as served:
        yield served


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


def test_nothing_beside_a_raster_on_a_server_is_asked_for(server, tiff):
    server.files["/b/a.tif"] = tiff
    server.files["/b/a.tif.msk"] = server.files["/b/a.tif.ovr"] = b"<VRTDataset/>"
    name = f"{server.address}/b/a.tif"
    with open_scene(name) as file:
        file.dataset_mask()
        file.overviews(1)
    assert {path for _, path in server.asked} == {"/b/a.tif"}


@pytest.mark.parametrize(
    ("status", "error", "words"),
    [
        (404, SceneNotFound, "no such file"),
        (410, SceneNotFound, "no such file"),
        (401, SceneUnreadable, "credentials"),
        (403, SceneUnreadable, "credentials"),
        (500, SceneUnreachable, "500"),
        (503, SceneUnreachable, "503"),
    ],
)
def test_what_a_server_refuses_is_one_clear_line(server, status, error, words):
    server.statuses["/a.tif"] = status
    caught = refused(error, f"{server.address}/a.tif?{SECRET}", f"{server.address}/a.tif: ", words)
    assert caught.exit_code == (1 if error is SceneUnreachable else 2)


def test_a_server_that_is_not_there_or_silent(server, monkeypatch):
    with serving() as gone:
        address = gone.address
    refused(SceneUnreachable, f"{address}/a.tif?{SECRET}", "cannot be reached")
    monkeypatch.setenv("GDAL_HTTP_TIMEOUT", "1")
    server.delays["/late.tif"] = 1.5
    refused(SceneUnreachable, f"{server.address}/late.tif?{SECRET}", "in time")


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
        refused(NotARaster, f"{server.address}{name}?{SECRET}", f"{server.address}{name}: ", "in parts")


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
    layer = Layer.of(info, (1, 2, 3), plan_grid(local, info, None), False)
    with ExitStack() as stack:
        reader = layer.open(stack)
        server.statuses["/b.tif"] = 503

        def read(window):
            reader.read(window)

        window = Window(0, 0, 400, 400)
        error = refused(SceneUnreachable, window, f"{server.address}/b.tif: ", describing=read)
    assert error.exit_code == 1


def test_nothing_is_asked_for_beside_a_raster_whose_pixels_are_read(server, tiff):
    server.files["/c/a.tif"] = tiff
    server.files["/c/a.tif.msk"] = server.files["/c/a.tif.ovr"] = b"<VRTDataset/>"
    info = describe(f"{server.address}/c/a.tif")
    layer = Layer.of(info, (1, 2, 3), plan_grid(info, info, None), False)
    with ExitStack() as stack:
        values, valid = layer.open(stack).read(Window(0, 0, 60, 40))
    assert valid.all() and np.array_equal(values, IMAGE)
    assert {path for _, path in server.asked} == {"/c/a.tif"}


def test_limits_hold_for_rasters_on_a_server(tmp_path, server, monkeypatch):
    server.files["/a.tif"] = write_scene(tmp_path / "a.tif", np.zeros((257, 4, 4), np.uint8)).read_bytes()
    refused(SceneTooLarge, f"{server.address}/a.tif?{SECRET}", "257")


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


def test_the_patience_with_servers_is_the_users_if_they_say_so(monkeypatch):
    with safe_environment("/vsis3/bucket/a.tif") as env:
        assert env.options["GDAL_HTTP_MAX_RETRY"] == "3"
        assert env.options["GDAL_DISABLE_READDIR_ON_OPEN"] == "EMPTY_DIR"
    with safe_environment("/folder/a.tif") as env:
        assert "GDAL_DISABLE_READDIR_ON_OPEN" not in env.options
    monkeypatch.setenv("GDAL_HTTP_MAX_RETRY", "7")
    with rasterio.Env(GDAL_HTTP_CONNECTTIMEOUT="5"), safe_environment("/vsis3/bucket/a.tif") as env:
        assert "GDAL_HTTP_MAX_RETRY" not in env.options and "GDAL_HTTP_CONNECTTIMEOUT" not in env.options

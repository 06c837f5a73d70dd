"""Rasters in zip archives."""

import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
from rasters import read_pair, refused, textured, write_scene

import tiling.zip_archives
from tiling import (
    ArchiveUnclear,
    MissingGeoreferencing,
    NotARaster,
    SceneTooLarge,
    TilingError,
    UnsafeReference,
    describe,
)
from tiling.location import locate
from tiling.scene import open_scene

IMAGE = textured(40, 60)


def write_zip(path, members, **options):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content, **options)
    return path


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("member", ["a.tif", "deep/er/ä b.TIF"])
def test_the_only_raster_of_an_archive_is_read(tmp_path, tiff, method, member):
    extra = {"readme.txt": b"hello", "preview.jpg": b"x", "__MACOSX/deep/._a.tif": b"x"}
    path = write_zip(tmp_path / "a.zip", {member: tiff, **extra}, compress_type=method)
    info = describe(path)
    assert info.path == f"{path}/{member}" and info.driver == "GTiff" and info.width == 60
    with open_scene(info) as file:
        assert np.array_equal(file.read(), IMAGE)
    before, after, valid = read_pair(path, tmp_path / "plain.tif")
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


def test_an_archive_of_several_rasters_lists_them(tmp_path, tiff):
    path = write_zip(tmp_path / "a.zip", {"b04.tif": tiff, "b03.jp2": b"x", "view.png": b"x"})
    refused(ArchiveUnclear, path, ": b03.jp2, b04.tif")
    many = write_zip(tmp_path / "b.zip", {f"{number:02}.tif": b"" for number in range(14)})
    refused(ArchiveUnclear, many, ": 00.tif, ", ", 09.tif and 4 more")
    refused(ArchiveUnclear, write_zip(tmp_path / "c.zip", {"a.txt": b""}))
    refused(ArchiveUnclear, write_zip(tmp_path / "d.zip", {}))


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
    refused(UnsafeReference, path)


def test_a_vrt_in_an_archive_is_refused(tmp_path, tiff):
    vrt = b'<VRTDataset rasterXSize="60" rasterYSize="40"></VRTDataset>'
    path = write_zip(tmp_path / "a.zip", {"a.vrt": vrt})
    refused(ArchiveUnclear, path)
    refused(UnsafeReference, f"{path}/a.vrt")
    refused(UnsafeReference, write_zip(tmp_path / "b.zip", {"a.tif": vrt}))


def test_what_lies_beside_a_raster_in_an_archive_is_not_read(tmp_path):
    write_scene(tmp_path / "a.png", IMAGE, driver="PNG")
    names = ["a.png", "a.png.aux.xml", "a.wld"]
    files = [tmp_path / name for name in names if (tmp_path / name).exists()]
    path = write_zip(tmp_path / "a.zip", {file.name: file.read_bytes() for file in files})
    assert len(zipfile.ZipFile(path).namelist()) > 1
    refused(MissingGeoreferencing, path)


def test_a_bomb_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(tiling.zip_archives, "SUSPICIOUS_BYTES", 10_000)
    bomb = {"a.tif": b"II*\0" + bytes(10**6)}
    path = write_zip(tmp_path / "a.zip", bomb)
    refused(SceneTooLarge, path)
    # As large, but not packed: nothing is gained by it.
    refused(NotARaster, write_zip(tmp_path / "b.zip", bomb, compress_type=zipfile.ZIP_STORED))
    monkeypatch.setattr(tiling.zip_archives, "MAX_RATIO", 10**6)
    refused(NotARaster, path)
    monkeypatch.setattr(tiling.zip_archives, "MAX_UNPACKED_BYTES", 10**6)
    refused(SceneTooLarge, path)


def test_too_many_members_are_refused_and_too_long_a_list_is_not_read(tmp_path, tiff, monkeypatch):
    path = write_zip(
        tmp_path / "a.zip", {"a.tif": tiff, **{f"{number:0200}.txt": b"" for number in range(200)}}
    )
    describe(path)
    monkeypatch.setattr(tiling.zip_archives, "MAX_LIST_BYTES", 30_000)
    refused(SceneTooLarge, path)
    monkeypatch.setattr(tiling.zip_archives, "MAX_MEMBERS", 3)
    refused(SceneTooLarge, write_zip(tmp_path / "b.zip", {f"{n}.txt": b"" for n in range(4)}))


def test_a_damaged_archive_is_refused(tmp_path, tiff):
    path = write_zip(tmp_path / "a.zip", {"a.tif": tiff})
    content = path.read_bytes()
    for number, broken in enumerate((b"", b"PK\x03\x04 but nothing follows", content[:-30], content[:200])):
        bad = tmp_path / f"{number}.zip"
        bad.write_bytes(broken)
        refused(NotARaster, bad)
    start = content.index(b"a.tif") + len("a.tif")
    (tmp_path / "c.zip").write_bytes(content[:start] + b"\xff" * 50 + content[start + 50 :])
    refused(NotARaster, tmp_path / "c.zip")


def test_a_member_whose_packed_bytes_are_damaged_is_refused_in_one_line(tmp_path):
    noise = np.random.default_rng(1).integers(0, 255, (3, 200, 200), np.uint8)
    path = write_zip(tmp_path / "a.zip", {"a.tif": write_scene(tmp_path / "a.tif", noise).read_bytes()})
    sound = path.read_bytes()
    for place in range(40, len(sound) - 120, 1009):
        path.write_bytes(sound[:place] + b"\xff" * 60 + sound[place + 60 :])
        with pytest.raises(TilingError, match=r"a\.zip") as caught:
            describe(path)
        assert "\n" not in str(caught.value)


def test_an_encrypted_or_unusually_packed_member_is_refused(tmp_path, tiff):
    path = write_zip(tmp_path / "a.zip", {"a.tif": tiff}, compress_type=zipfile.ZIP_BZIP2)
    refused(NotARaster, path)
    path = write_zip(tmp_path / "b.zip", {"a.tif": tiff})
    content = bytearray(path.read_bytes())
    central = content.index(b"PK\x01\x02")
    content[central + 8 : central + 10] = struct.pack("<H", 1)
    path.write_bytes(content)
    refused(NotARaster, path)

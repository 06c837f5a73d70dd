import os
import shutil
import zipfile
from pathlib import Path

import pytest

from workflows.identity import END_BYTES, SceneIdentities


@pytest.fixture
def scene(tmp_path) -> Path:
    path = tmp_path / "scene.tif"
    path.write_bytes(bytes(range(256)) * 1000)
    return path


@pytest.fixture
def read(monkeypatch) -> list[str]:
    """The files that are read from here on."""
    paths, real = [], SceneIdentities._read
    monkeypatch.setattr(
        SceneIdentities, "_read", lambda self, *file: paths.append(file[0]) or real(self, *file)
    )
    return paths


def identity_of(path, full=False):
    return SceneIdentities({}, full).of(str(path))


def test_the_folder_of_a_scene_has_no_influence_and_its_name_has(scene, tmp_path):
    (tmp_path / "moved").mkdir()
    first = identity_of(scene)
    assert first == identity_of(scene)
    assert len(first) == 32 and set(first) <= set("0123456789abcdef")
    moved = shutil.copy2(scene, tmp_path / "moved")
    assert identity_of(moved) == first
    assert identity_of(shutil.copy2(scene, tmp_path / "moved" / "scene_2019.tif")) != first


@pytest.mark.parametrize(
    "place", [0, END_BYTES - 1, -END_BYTES, -1], ids=["first", "end of head", "start of tail", "last"]
)
def test_a_byte_at_either_end_makes_another_scene(scene, place):
    first, times = identity_of(scene), os.stat(scene)
    content = bytearray(scene.read_bytes())
    content[place] ^= 1
    scene.write_bytes(content)
    os.utime(scene, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert identity_of(scene) != first


def test_every_byte_of_a_file_counts_that_is_hardly_longer_than_its_ends(scene):
    scene.write_bytes(bytes(END_BYTES + 100))
    first, times = identity_of(scene), os.stat(scene)
    scene.write_bytes(bytes(END_BYTES + 99) + b"x")
    os.utime(scene, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert identity_of(scene) != first


def test_time_and_size_make_another_scene(scene):
    first = identity_of(scene)
    os.utime(scene, ns=(1, 1))
    touched = identity_of(scene)
    assert touched != first
    with scene.open("ab") as file:
        file.write(b"\0")
    os.utime(scene, ns=(1, 1))
    assert identity_of(scene) not in (first, touched)


def test_all_bytes_and_no_time_count_when_that_is_asked_for(scene):
    first = identity_of(scene, full=True)
    os.utime(scene, ns=(1, 1))
    assert identity_of(scene, full=True) == first
    content = bytearray(scene.read_bytes())
    content[len(content) // 2] ^= 1
    scene.write_bytes(content)
    assert identity_of(scene, full=True) != first


@pytest.mark.parametrize(
    "name",
    [
        "scene.tif.aux.xml", "scene.tif.msk", "scene.TIF.OVR", "scene.tif.msk.ovr", "scene.tif.ovr.msk",
        "scene.tfw", "scene.TFW", "scene.tifw", "scene.wld", "scene.prj", "scene_rpc.txt", "scene_RPC.TXT",
        "scene.aux", "scene.tif.aux", "scene.imd", "scene_metadata.xml", "scene.jpw",
    ],
)  # fmt: skip
def test_files_that_are_read_with_a_scene_belong_to_it(scene, name):
    alone = identity_of(scene)
    beside = scene.with_name(name)
    beside.write_text("1")
    with_it = identity_of(scene)
    assert with_it != alone
    beside.write_text("22")
    assert identity_of(scene) not in (alone, with_it)
    beside.unlink()
    assert identity_of(scene) == alone


STATISTICS = """<PAMDataset>
  <PAMRasterBand band="1">
    <Histograms><HistItem><HistMin>0</HistMin><HistCounts>1|2</HistCounts></HistItem></Histograms>
    <Metadata><MDI key="STATISTICS_MAXIMUM">255</MDI><MDI key="STATISTICS_MEAN">90</MDI></Metadata>
  </PAMRasterBand>
</PAMDataset>"""


def test_statistics_that_a_viewer_left_beside_a_scene_have_no_influence(scene):
    """QGIS writes them when a scene is looked at; an archive is not to be done again for that."""
    alone = identity_of(scene)
    beside = scene.with_name("scene.tif.aux.xml")
    beside.write_text(STATISTICS)
    assert identity_of(scene) == alone
    beside.write_text(STATISTICS.replace("</PAMRasterBand>", "<NoDataValue>0</NoDataValue></PAMRasterBand>"))
    with_nodata = identity_of(scene)
    assert with_nodata != alone
    beside.write_text(beside.read_text().replace("255", "254").replace("1|2", "2|1"))
    os.utime(beside, ns=(1, 1))
    assert identity_of(scene) == with_nodata
    beside.write_text(beside.read_text().replace(">0</NoData", ">1</NoData"))
    assert identity_of(scene) not in (alone, with_nodata)
    beside.write_text("<PAMDataset>")
    assert identity_of(scene) not in (alone, with_nodata)


VRT = """<VRTDataset rasterXSize="1" rasterYSize="1"><VRTRasterBand dataType="Byte" band="1"><SimpleSource>
<SourceFilename relativeToVRT="1">{}</SourceFilename></SimpleSource></VRTRasterBand></VRTDataset>"""


def test_the_sources_of_a_vrt_belong_to_it(tmp_path):
    (tmp_path / "tiles").mkdir()
    source, mosaic = tmp_path / "tiles" / "1.tif", tmp_path / "mosaic.vrt"
    mosaic.write_text(VRT.format("tiles/1.tif"))
    absent = identity_of(mosaic)
    source.write_bytes(b"1")
    found = [absent, identity_of(mosaic)]
    known = {}
    SceneIdentities(known, full=False).of(str(mosaic))
    source.write_bytes(b"22")
    earlier = dict(known)
    found.append(SceneIdentities(known, full=False).of(str(mosaic)))
    assert known.keys() == earlier.keys() and known[str(mosaic)] is earlier[str(mosaic)]
    assert known[str(source)] != earlier[str(source)], "what the VRT is made of is known"
    source.with_name("1.tif.msk").write_bytes(b"3")
    found.append(identity_of(mosaic))
    assert len(set(found)) == 4
    source.unlink()
    assert not SceneIdentities({}, full=False).on_disk(str(mosaic))
    refused = set()
    for place in ("../elsewhere.tif", "../other.tif"):
        mosaic.write_text(VRT.format(place))
        refused.add(identity_of(mosaic))
    assert len(refused) == 2, "one that will be refused is known by its own bytes"


def test_a_scene_in_a_zip_archive_is_known_by_the_archive(tmp_path):
    archive = tmp_path / "scenes.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("in/a.tif", b"1")
        file.writestr("in/b.tif", b"2")
    names = [archive, archive / "in/a.tif", archive / "in/b.tif"]
    found = [identity_of(name) for name in names]
    assert len(set(found)) == 3
    assert identity_of(f"/vsizip/{archive}/in/a.tif") == found[1]
    assert identity_of(f"/vsizip/{{{archive}}}/in/a.tif") == found[1]
    os.utime(archive, ns=(1, 1))
    assert all(identity_of(name) != before for name, before in zip(names, found, strict=True))
    # GDAL is told that it is one, whatever its name.
    absent = identity_of(f"/vsizip/{archive.with_suffix('.kmz')}/in/a.tif")
    archive = archive.rename(archive.with_suffix(".kmz"))
    assert identity_of(f"/vsizip/{archive}/in/a.tif") != absent


def test_a_remote_scene_is_known_by_its_public_address():
    scenes = SceneIdentities({}, full=False)
    first = scenes.of("https://user:secret@host/a.tif?sig=secret")
    assert identity_of("https://host/a.tif?sig=1") == first
    assert identity_of("https://host/b.tif?sig=1") != first
    assert len({identity_of(f"{kind}bucket/a.tif") for kind in ("s3://", "/vsis3/", "gs://", "/vsigs/")}) == 4
    ends = ["", "?id=1", "?id=2", "?id=1&layer=1", "?id=1&layer=2", "?versionId=3", "?se=1", "?se=2", "?se"]
    assert len({identity_of(f"https://host/get{end}") for end in ends}) == len(ends)


@pytest.mark.parametrize(
    "address", ["https://host/get", "https://host/get?id=1", "/vsicurl/https://host/get?id=1&layer=a%26b"]
)
@pytest.mark.parametrize(
    "signature",
    [
        "X-Amz-Algorithm={0}&X-Amz-Credential={0}&x-amz-date={0}&X-Amz-Security-Token={0}&X-Amz-Signature={0}",
        "AWSAccessKeyId={0}&Signature={0}&Expires={0}",
        "X-Goog-Date={0}&X-Goog-Signature={0}",
        "Policy={0}&Signature={0}&Key-Pair-Id={0}",
        "st={0}&se={0}&sp={0}&sv={0}&sr=c&skoid={0}&sktid={0}&skt={0}&ske={0}&sks={0}&skv={0}&sig={0}",
        "access_token={0}",
        "token={0}#{0}=",
    ],
)
def test_a_new_signature_makes_no_other_scene(address, signature):
    plain = identity_of(address)
    mark = "&" if "?" in address else "?"
    signed = {identity_of(f"{address}{mark}{signature.format(word)}") for word in ("Expires", "sig")}
    assert signed == {plain}


def test_what_is_missing_or_no_file_has_an_identity_and_is_not_opened(tmp_path):
    absent = [identity_of(tmp_path / name) for name in ("a.tif", "b.tif", "a.tif/c.tif", "d.zip/e.tif")]
    os.mkfifo(tmp_path / "pipe.tif")
    assert len({*absent, identity_of(tmp_path / "pipe.tif"), identity_of(tmp_path)}) == 6
    (tmp_path / "a.tif").touch()
    assert identity_of(tmp_path / "a.tif") not in absent

import os
import shutil
import threading
import zipfile
from dataclasses import replace
from time import monotonic, sleep

import pytest
from fakes import card

import rscc
from workflows import identity
from workflows.identity import (
    END_BYTES,
    SceneIdentities,
    Stored,
    keyed,
    pair_key,
    public_location,
    settings_key,
)
from workflows.ledger import Ledger
from workflows.options import SceneOptions
from workflows.pair_table import PairRow

DEADLINE = 60


@pytest.fixture
def scene(tmp_path):
    path = tmp_path / "scene.tif"
    path.write_bytes(bytes(range(256)) * 1000)
    return path


def identity_of(path, full=False):
    return SceneIdentities({}, full).of(str(path))


def test_the_same_scene_has_the_same_identity(scene):
    first = identity_of(scene)
    assert first == identity_of(scene)
    assert len(first) == 32
    assert set(first) <= set("0123456789abcdef")


def test_the_folder_of_a_scene_has_no_influence_and_its_name_has(scene, tmp_path):
    (tmp_path / "moved").mkdir()
    first = identity_of(scene)
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


def test_a_short_file_is_hashed_whole(tmp_path):
    found = set()
    for size in (0, 1, END_BYTES, END_BYTES + 1, 2 * END_BYTES - 1):
        for last in (b"\1", b"\2"):
            path = tmp_path / "short.tif"
            path.write_bytes((b"\0" * size + last)[-size:] if size else b"")
            os.utime(path, ns=(1, 1))
            found.add(identity_of(path))
    assert len(found) == 9  # the empty one twice


def test_known_files_are_read_again_only_when_they_changed(scene, monkeypatch):
    first = SceneIdentities({}, full=False)
    before = first.of(str(scene))
    assert set(first.fresh) == {str(scene)}
    read = []
    own = SceneIdentities._read
    monkeypatch.setattr(
        SceneIdentities, "_read", lambda self, *file: read.append(file[0]) or own(self, *file)
    )
    known = SceneIdentities(first.fresh, full=False)
    assert known.of(str(scene)) == before
    assert (read, known.fresh) == ([], {})
    assert SceneIdentities(first.fresh, full=True).of(str(scene)) != before
    os.utime(scene, ns=(1, 1))
    assert SceneIdentities(first.fresh, full=False).of(str(scene)) != before
    assert read == [str(scene)] * 2


def test_a_scene_is_looked_at_once(scene):
    scenes = SceneIdentities({}, full=False)
    first = scenes.of(str(scene))
    scene.unlink()
    assert scenes.of(str(scene)) == first


@pytest.mark.parametrize(
    "name",
    [
        "scene.tif.aux.xml", "scene.tif.msk", "scene.TIF.OVR", "scene.tif.msk.ovr", "scene.tif.ovr.msk",
        "scene.tfw", "scene.TFW", "scene.tifw", "scene.wld", "scene.prj", "scene_rpc.txt", "scene_RPC.TXT",
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


@pytest.mark.parametrize(
    "name", ["scene.txt", "scene2.tfw", "scene.tif.bak", "my_scene.tif.aux.xml", "scene.tif.tfw"]
)
def test_other_files_beside_a_scene_have_no_influence(scene, name):
    alone = identity_of(scene)
    scene.with_name(name).write_text("1")
    assert identity_of(scene) == alone


def test_the_folder_of_many_scenes_is_listed_once(tmp_path, monkeypatch):
    listed = []
    own = identity._list_beside
    monkeypatch.setattr(identity, "_list_beside", lambda folder: listed.append(folder) or own(folder))
    scenes = SceneIdentities({}, full=False)
    for number in range(5):
        path = tmp_path / f"{number}.tif"
        path.touch()
        scenes.of(str(path))
    assert listed == [str(tmp_path)]


VRT = """<VRTDataset rasterXSize="1" rasterYSize="1"><VRTRasterBand dataType="Byte" band="1"><SimpleSource>
<SourceFilename relativeToVRT="1">{}</SourceFilename></SimpleSource></VRTRasterBand></VRTDataset>"""


def test_the_sources_of_a_vrt_belong_to_it(tmp_path):
    (tmp_path / "tiles").mkdir()
    source, mosaic = tmp_path / "tiles" / "1.tif", tmp_path / "mosaic.vrt"
    mosaic.write_text(VRT.format("tiles/1.tif"))
    absent = identity_of(mosaic)
    source.write_bytes(b"1")
    found = [absent, identity_of(mosaic)]
    known = SceneIdentities({}, full=False)
    known.of(str(mosaic))
    source.write_bytes(b"22")
    later = SceneIdentities(known.fresh, full=False)
    found.append(later.of(str(mosaic)))
    assert set(later.fresh) == {str(source)}, "what the VRT is made of is known"
    source.with_name("1.tif.msk").write_bytes(b"3")
    found.append(identity_of(mosaic))
    assert len(set(found)) == 4


def test_a_vrt_that_will_be_refused_is_known_by_its_own_bytes(tmp_path):
    mosaic = tmp_path / "mosaic.vrt"
    mosaic.write_text(VRT.format("../elsewhere.tif"))
    first = identity_of(mosaic)
    mosaic.write_text(VRT.format("../other.tif"))
    assert identity_of(mosaic) != first


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


def test_an_archive_of_any_name_can_be_named_for_gdal(tmp_path):
    archive = tmp_path / "scenes.kmz"
    before = identity_of(f"/vsizip/{archive}/a.tif")
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("a.tif", b"1")
    assert identity_of(f"/vsizip/{archive}/a.tif") != before


def test_a_remote_scene_is_known_by_its_public_address():
    first = identity_of("https://host/a.tif?sig=1")
    assert identity_of("https://user:pw@host/a.tif?sig=2") == first
    assert identity_of("https://host/b.tif?sig=1") != first
    assert len({identity_of(f"{kind}bucket/a.tif") for kind in ("s3://", "/vsis3/", "gs://", "/vsigs/")}) == 4


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


def test_what_follows_the_path_of_an_address_makes_another_scene():
    ends = ["", "?id=1", "?id=2", "?id=1&layer=1", "?id=1&layer=2", "?versionId=3", "?se=1", "?se=2", "?se"]
    assert len({identity_of(f"https://host/get{end}") for end in ends}) == len(ends)


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        ("/scenes/a?b#c.tif", "/scenes/a?b#c.tif"),
        ("data/a.tif", "data/a.tif"),
        ("https://u:p@host/a.tif?x=1", "https://host/a.tif"),
        ("https:/host/a.tif?x=1", "https://host/a.tif"),
        ("/vsicurl/https://host/a.tif?x=1#y", "/vsicurl/https://host/a.tif"),
        ("/vsis3/bucket/a.tif?x=1", "/vsis3/bucket/a.tif"),
        ("ftp://u:p@host/a.tif?x=1", "ftp://host/a.tif"),
        ("/vsicurl?url=https://host/a.tif&key=1", "/vsicurl"),
    ],
)
def test_what_is_shown_of_a_location_holds_no_secret(location, shown):
    assert public_location(location) == shown


def test_what_is_missing_has_an_identity_until_it_is_there(tmp_path):
    names = [
        tmp_path / "a.tif",
        tmp_path / "b.tif",
        tmp_path / "a.tif" / "c.tif",
        tmp_path / "d.zip" / "e.tif",
    ]
    absent = [identity_of(name) for name in names]
    assert len(set(absent)) == 4
    (tmp_path / "a.tif").touch()
    assert identity_of(tmp_path / "a.tif") not in absent


def remembered(scene, full=False):
    """What is known after a scene was looked at, as the next run has it."""
    scenes, known = SceneIdentities({}, full), {}
    scenes.of(str(scene))
    scenes.keep(known.update)
    return known


@pytest.mark.parametrize("full", [False, True])
def test_what_a_scene_was_is_known_when_it_is_gone(scene, full):
    scene.with_name("scene.tfw").write_text("1")
    sound, known = identity_of(scene, full), remembered(scene, full)
    for path in scene.parent.iterdir():
        path.unlink()
    later = SceneIdentities(known, full)
    assert later.of(str(scene)) != sound == later.last(str(scene))
    assert not later.are_there(str(scene))
    assert later.last(str(scene.with_name("other.tif"))) is None, "it was never there"
    assert SceneIdentities(known, not full).last(str(scene)) is None
    # Nor is what was missing taken for what it was.
    assert remembered(scene, full) == {}


def test_it_is_the_last_that_was_seen_of_a_scene(scene):
    known = remembered(scene)
    scene.write_bytes(b"2")
    later = SceneIdentities(known, full=False)
    second = later.of(str(scene))
    assert later.last(str(scene)) == second and later.are_there(str(scene))
    later.keep(known.update)
    scene.unlink()
    assert SceneIdentities(known, full=False).last(str(scene)) == second


def test_a_scene_that_cannot_be_read_now_is_what_it_was(scene, monkeypatch):
    def refuse(*_):
        raise PermissionError

    sound, known = identity_of(scene), remembered(scene)
    del known[str(scene)]
    monkeypatch.setattr(SceneIdentities, "_read", refuse)
    later = SceneIdentities(known, full=False)
    assert later.of(str(scene)) != sound == later.last(str(scene))
    assert later.seen == {}


def test_a_mosaic_without_its_tiles_is_gone(tmp_path):
    (tmp_path / "tiles").mkdir()
    source, mosaic = tmp_path / "tiles" / "1.tif", tmp_path / "mosaic.vrt"
    mosaic.write_text(VRT.format("tiles/1.tif"))
    source.write_bytes(b"1")
    sound, known = identity_of(mosaic), remembered(mosaic)
    source.unlink()
    assert SceneIdentities(known, full=False).last(str(mosaic)) == sound


def test_members_of_an_archive_are_remembered_each(tmp_path):
    archive, known = tmp_path / "scenes.zip", {}
    archive.write_bytes(b"1")
    names = [f"{archive}/a.tif", f"/vsizip/{archive}/b.tif", f"/vsizip/{{{archive}}}/c.tif"]
    first = SceneIdentities({}, full=False)
    sound = [first.of(name) for name in names]
    first.keep(known.update)
    archive.unlink()
    later = SceneIdentities(known, full=False)
    assert [later.last(name) for name in names] == sound
    assert not any(later.are_there(name) for name in names)


def test_nothing_of_a_remote_scene_is_remembered():
    scenes = SceneIdentities({}, full=False)
    scenes.of("https://user:secret@host/a.tif?sig=secret")
    assert scenes.seen == {}


def test_what_is_no_file_is_not_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe.tif")
    assert identity_of(tmp_path / "pipe.tif") != identity_of(tmp_path)


def test_what_cannot_be_read_is_looked_at_again_later(scene, monkeypatch):
    def refuse(*_):
        raise PermissionError

    sound = identity_of(scene)
    monkeypatch.setattr(SceneIdentities, "_read", refuse)
    scenes = SceneIdentities({}, full=False)
    assert scenes.of(str(scene)) != sound
    assert scenes.fresh == {}


def test_the_key_of_a_pair_depends_on_scenes_dates_and_settings(scene, tmp_path):
    other = shutil.copy(scene, tmp_path / "other.tif")
    row = PairRow("a", str(scene), str(other), "2019")
    scenes = SceneIdentities({}, full=False)
    key = pair_key(row, scenes, "settings")
    others = [
        replace(row, before=str(other), after=str(scene)),
        replace(row, date_before="2020"),
        replace(row, date_before=None, date_after="2019"),
    ]
    keys = {
        key,
        pair_key(row, scenes, "others"),
        *(pair_key(another, scenes, "settings") for another in others),
    }
    assert len(keys) == 5
    same = replace(row, pair="b", site="town", cloud_before=3.0)
    assert pair_key(same, scenes, "settings") == key


def test_what_was_read_is_handed_over_while_pairs_are_looked_through(tmp_path, monkeypatch):
    monkeypatch.setattr(identity, "_AT_ONCE", 2)
    monkeypatch.setattr(identity, "_KEPT", 4)
    rows = []
    for number in range(5):
        for date in (1, 2):
            (tmp_path / f"{number}_{date}.tif").write_bytes(b"x")
        rows.append(PairRow(f"p{number}", *(str(tmp_path / f"{number}_{date}.tif") for date in (1, 2))))
    handed = []
    scenes = SceneIdentities({}, full=False)
    found = list(keyed(rows, scenes, "s", lambda files: handed.append(len(files))))
    assert [row for row, _ in found] == rows
    assert handed == [8, 8, 4], "files and scenes"
    assert scenes.seen == {}
    assert scenes.fresh == {}


def test_a_restart_reads_no_scene_again_and_repeats_nothing(tmp_path, monkeypatch):
    for name in ("a1", "a2", "b1", "b2"):
        (tmp_path / f"{name}.tif").write_bytes(name.encode())
    rows = [PairRow(name, str(tmp_path / f"{name}1.tif"), str(tmp_path / f"{name}2.tif")) for name in "ab"]

    def plan(ledger):
        scenes = SceneIdentities(ledger.files(), full=False)
        return ledger.plan(keyed(rows, scenes, "s", ledger.keep_files), retry_failed=False)

    with Ledger.open(tmp_path, create=True) as ledger:
        assert plan(ledger).new == 2
        for row in ledger.next(2):
            ledger.start(row.pair, 1)
            ledger.done(row.pair, "w", 1.0, 0, 0.0, 1)
    (tmp_path / "b2.tif").write_bytes(b"other")
    read = []
    own = SceneIdentities._read
    monkeypatch.setattr(
        SceneIdentities, "_read", lambda self, *file: read.append(file[0]) or own(self, *file)
    )
    with Ledger.open(tmp_path, create=False) as ledger:
        planned = plan(ledger)
        assert (planned.done, planned.changed) == (1, 1)
        assert [row.pair for row in ledger.next(9)] == ["b"]
    assert read == [str(tmp_path / "b2.tif")]


def test_settings_and_model_make_another_key():
    base = settings_key(SceneOptions(), card())
    assert base == settings_key(SceneOptions(), card())
    options = [
        {"threshold": 0.3}, {"overlap": 20}, {"bands": (3, 2, 1)}, {"bounds": (0, 0, 1, 1)}, {"beams": 1},
        {"batch_size": 4}, {"memory": 10**9}, {"date_before": "2019"}, {"scale": (0, 9)}, {"align": True},
        {"focus_captions": "zoom"}, {"refine": "sam:/x"}, {"group_distance": 5.0}, {"simplify": 0.0},
    ]  # fmt: skip
    cards = [
        {"weights_sha256": "1" * 64},
        {"tile_size": 128},
        {"gsd": 1.0},
        {"version": "2"},
        {"draws": 3},
        {"support": 3},
    ]
    keys = {base}
    keys |= {settings_key(SceneOptions(**values), card()) for values in options}
    keys |= {settings_key(SceneOptions(), card(**values)) for values in cards}
    assert len(keys) == 1 + len(options) + len(cards)


def test_what_has_no_influence_on_reports_leaves_the_key(tmp_path):
    base = settings_key(SceneOptions(), card())
    assert settings_key(SceneOptions(tile_cache=tmp_path), card()) == base
    assert settings_key(SceneOptions(), card(description="Other words.", licence="MIT")) == base
    assert settings_key(SceneOptions(threshold=card().threshold), card()) == base


def test_another_version_of_rscc_makes_another_key(monkeypatch):
    base = settings_key(SceneOptions(), card())
    monkeypatch.setattr(rscc, "__version__", "99.0")
    assert settings_key(SceneOptions(), card()) != base


def test_another_file_of_the_segmenter_makes_another_key(tmp_path):
    weights = tmp_path / "sam.pt"
    options = SceneOptions(refine=f"mobile_sam:{weights}")
    absent = settings_key(options, card())
    weights.write_bytes(b"1")
    first = settings_key(options, card())
    weights.write_bytes(b"22")
    assert len({absent, first, settings_key(options, card())}) == 3
    folder = SceneOptions(refine=f"sam:{tmp_path}")
    before = settings_key(folder, card())
    (tmp_path / "config.json").write_text("{}")
    assert settings_key(folder, card()) != before


def many(folder, count=40):
    for number in range(count):
        (folder / f"{number}.tif").write_bytes(bytes([number]))
        (folder / f"{number}.tfw").write_bytes(bytes([number]))
    return [str(folder / f"{number}.tif") for number in range(count)]


@pytest.mark.parametrize("full", [False, True])
def test_slow_files_are_looked_at_several_at_once_with_the_same_result(tmp_path, monkeypatch, full):
    names = [*many(tmp_path), "https://host/a.tif", str(tmp_path / "absent.tif")]
    one_by_one = [identity_of(name, full) for name in names]
    monkeypatch.setattr(identity, "SLOW", 0)
    own, meeting = SceneIdentities._read, threading.Barrier(4)

    def read(self, path, status):
        if path in names[1:5]:  # only four threads at once get past this
            meeting.wait(DEADLINE)
        return own(self, path, status)

    monkeypatch.setattr(SceneIdentities, "_read", read)
    with Ledger.open(tmp_path, create=True) as ledger:
        scenes = SceneIdentities(ledger.files(), full)
        scenes.look_at(names[:1])
        assert scenes._is_slow
        scenes.look_at(names)
        assert [scenes.of(name) for name in names] == one_by_one
        scenes.keep(ledger.keep_files)
        assert len(ledger.files()) == 80 + 40, "files and scenes"


def test_near_files_are_looked_at_without_threads(tmp_path, monkeypatch):
    monkeypatch.setattr(identity, "SLOW", 1e9)
    monkeypatch.setattr(SceneIdentities, "_look_at_once", None)
    scenes = SceneIdentities({}, full=False)
    scenes.look_at(many(tmp_path))
    assert len(scenes.fresh) == 80


def test_an_interrupt_ends_looking_at_scenes(tmp_path, monkeypatch):
    names = many(tmp_path)
    scenes = SceneIdentities({}, full=True)
    scenes._is_slow = True
    read = set()

    def interrupted(self, path, status):
        read.add(path)
        if path == names[0]:
            raise KeyboardInterrupt
        deadline = monotonic() + DEADLINE
        while not self._stopped and monotonic() < deadline:
            sleep(0.01)
        sleep(0.2)  # else one thread could look at all that is left before it is called off
        return Stored(0, 0, True, b"", None)

    monkeypatch.setattr(SceneIdentities, "_read", interrupted)
    with pytest.raises(KeyboardInterrupt):
        scenes.look_at(names)
    assert len(read.intersection(names)) <= identity.THREADS + 1
    assert scenes._stopped

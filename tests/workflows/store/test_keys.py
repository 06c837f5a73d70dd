"""What a pair is known by: its scenes, its dates, the settings and the model; looked through many at once."""

import shutil
import threading
from dataclasses import replace
from time import monotonic, sleep

import pytest
from fakes import card

import rscc
from workflows.options import SceneOptions
from workflows.pairs.rows import PairRow
from workflows.store import identity
from workflows.store.identity import SceneIdentities, Stored, keyed, pair_key, settings_key
from workflows.store.ledger import Ledger

DEADLINE = 60


def test_the_key_of_a_pair_depends_on_scenes_dates_and_settings(scene, tmp_path):
    other = shutil.copy(scene, tmp_path / "other.tif")
    row = PairRow("a", str(scene), str(other), "2019")
    scenes = SceneIdentities({}, full=False)
    key = pair_key(row, scenes, "settings")
    changes = (
        {"before": str(other), "after": str(scene)},
        {"date_before": "2020"},
        {"date_before": None, "date_after": "2019"},
    )
    others = {pair_key(replace(row, **values), scenes, "settings") for values in changes}
    assert len({key, pair_key(row, scenes, "others"), *others}) == 5
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


def test_a_restart_reads_no_scene_again_and_repeats_nothing(tmp_path, read):
    for name in ("a1", "a2", "b1", "b2"):
        (tmp_path / f"{name}.tif").write_bytes(name.encode())
    rows = [PairRow(name, str(tmp_path / f"{name}1.tif"), str(tmp_path / f"{name}2.tif")) for name in "ab"]

    def plan(ledger):
        scenes = SceneIdentities(ledger.files(), full=False)
        return ledger.plan(keyed(rows, scenes, "s", ledger.keep_files), retry_failed=False)

    with Ledger.open(tmp_path) as ledger:
        assert plan(ledger).new == 2
        for row in ledger.next(2):
            ledger.start(row.pair, 1)
            ledger.done(row.pair, "w", 1.0, 0, 0.0, 1)
    (tmp_path / "b2.tif").write_bytes(b"other")
    read.clear()
    with Ledger.open(tmp_path) as ledger:
        planned = plan(ledger)
        assert (planned.done, planned.changed) == (1, 1)
        assert [row.pair for row in ledger.next(9)] == ["b"]
    assert read == [str(tmp_path / "b2.tif")]


def test_settings_model_and_version_make_another_key(monkeypatch):
    base = settings_key(SceneOptions(), card())
    assert base == settings_key(SceneOptions(), card())
    options = [
        {"threshold": 0.3}, {"overlap": 20}, {"bands": (3, 2, 1)}, {"bounds": (0, 0, 1, 1)}, {"beams": 1},
        {"batch_size": 4}, {"memory": 10**9}, {"date_before": "2019"}, {"scale": (0, 9)}, {"align": True},
        {"align": True, "frame": "after"},
        {"focus_captions": "zoom"}, {"refine": "sam:/x"}, {"group_distance": 5.0}, {"simplify": 0.0},
    ]  # fmt: skip
    cards = [
        {"weights_sha256": "1" * 64}, {"tile_size": 128}, {"gsd": 1.0}, {"version": "2"}, {"support": 3},
    ]  # fmt: skip
    keys = {base}
    keys |= {settings_key(SceneOptions(**values), card()) for values in options}
    keys |= {settings_key(SceneOptions(), card(**values)) for values in cards}
    monkeypatch.setattr(rscc, "__version__", "99.0")
    keys.add(settings_key(SceneOptions(), card()))
    assert len(keys) == 1 + len(options) + len(cards) + 1


def test_what_has_no_influence_on_reports_leaves_the_key(tmp_path):
    base = settings_key(SceneOptions(), card())
    assert settings_key(SceneOptions(tile_cache=tmp_path), card()) == base
    assert settings_key(SceneOptions(), card(description="Other words.", licence="MIT")) == base
    assert settings_key(SceneOptions(threshold=card().threshold), card()) == base


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
    one_by_one = [SceneIdentities({}, full).of(name) for name in names]
    monkeypatch.setattr(identity, "SLOW", 0)
    own, meeting = SceneIdentities._read, threading.Barrier(4)

    def read(self, path, status):
        if path in names[1:5]:  # only four threads at once get past this
            meeting.wait(DEADLINE)
        return own(self, path, status)

    monkeypatch.setattr(SceneIdentities, "_read", read)
    with Ledger.open(tmp_path) as ledger:
        scenes = SceneIdentities(ledger.files(), full)
        scenes.look_at(names[:1])
        assert scenes._is_slow
        scenes.look_at(names)
        assert [scenes.of(name) for name in names] == one_by_one
        scenes.keep(ledger.keep_files)
        assert len(list(ledger.files().all())) == 80 + 40, "files and scenes"


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

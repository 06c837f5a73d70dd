"""A table of pairs is compared with an archive by keys: scenes, dates, settings and model."""

import shutil
from dataclasses import replace

import pytest
from captioners import card
from shapely.geometry import Point

import rscc
from workflows.archive.index import Counts, Index
from workflows.archive.plan import Plan, keyed_rows, pair_key, settings_key
from workflows.identity import SceneIdentities
from workflows.options import SceneOptions
from workflows.pairs.rows import PairRow


def test_the_key_of_a_pair_depends_on_scenes_dates_and_settings(tmp_path):
    scene = tmp_path / "scene.tif"
    scene.write_bytes(b"a scene")
    other = shutil.copy(scene, tmp_path / "other.tif")
    row = PairRow("a", str(scene), str(other), "2019")
    scenes = SceneIdentities({}, full=False)
    key = pair_key(row, scenes, "settings")
    changes = (
        {"before": str(other), "after": str(scene)},
        {"date_before": "2020"},
        {"date_before": None, "date_after": "2019"},
        {"changes": str(scene)},
        {"changes": f"{scene}|layername=a"},
        {"changes": str(tmp_path / "missing.gpkg")},
    )
    others = {pair_key(replace(row, **values), scenes, "settings") for values in changes}
    assert len({key, pair_key(row, scenes, "others"), *others}) == 8
    same = replace(row, pair="b", site="town", cloud_before=3.0)
    assert pair_key(same, scenes, "settings") == key


def plan(index, rows, **options):
    comparison = Plan(index, options.get("retry_failed", False))
    for number, (row, key) in enumerate(keyed_rows(rows, index, "s", missing=options.get("missing"))):
        comparison.compare(number, row, key)
    comparison.write(set(options.get("kept", ())))
    return comparison


def finish(index, pair):
    index.update(pair, state="done", key=index.one(pair).wanted, stamp=1)


@pytest.fixture
def rows(tmp_path):
    for name in ("a1", "a2", "b1", "b2"):
        (tmp_path / f"{name}.tif").write_bytes(name.encode())
    return [PairRow(name, str(tmp_path / f"{name}1.tif"), str(tmp_path / f"{name}2.tif")) for name in "ab"]


def test_a_report_of_the_settings_of_before_counts_when_they_come_back(rows):
    index = Index("id")
    plan(index, rows)
    finish(index, "a")
    other = [replace(row, date_before="2019") for row in rows]
    plan(index, other)
    assert index.counts() == Counts(pending=2)
    plan(index, rows)
    assert index.names("done") == ["a"]


def test_a_kept_report_takes_its_place_in_the_table_but_not_dates_that_it_is_not_made_of(rows):
    index = Index("id")
    plan(index, rows)
    finish(index, "a")
    ground = Point(15, 50).buffer(0.1)
    plan(
        index,
        [replace(rows[1], footprint=ground), replace(rows[0], date_before="2019", site="town")],
        kept=["a"],
    )
    assert index.one("b").footprint == ground.wkb
    kept = index.one("a")
    assert (kept.state, kept.number, kept.site, kept.date_before) == ("done", 1, "town", None)


def test_a_plan_that_changes_nothing_writes_nothing_however_many_pairs_are_done():
    index, said = Index("id"), []
    rows = [PairRow(f"p{number:05d}", "/s/b.tif", "/s/a.tif") for number in range(2_000)]

    def planned() -> None:
        comparison = Plan(index, False)
        for number, row in enumerate(rows):
            comparison.compare(number, row, "k-k-k")
        comparison.write(set())

    planned()
    for row in rows:
        index.update(row.pair, state="done", key="k-k-k", stamp=1)
    planned()
    index._connection.set_trace_callback(said.append)
    planned()
    index._connection.set_trace_callback(None)
    assert len(said) < 20 and index.counts() == Counts(done=2_000)


def test_settings_model_and_version_make_another_key(monkeypatch):
    base = settings_key(SceneOptions(), card())
    assert base == settings_key(SceneOptions(), card())
    options = [
        {"threshold": 0.3}, {"overlap": 20}, {"bands": (3, 2, 1)}, {"bounds": (0, 0, 1, 1)},
        {"batch_size": 4}, {"memory": 10**9}, {"date_before": "2019"}, {"scale": (0, 9)}, {"align": True},
        {"align": True, "frame": "after"},
        {"group_distance": 5.0}, {"simplify": 0.0},
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
    assert settings_key(SceneOptions(keep_maps=tmp_path), card()) == base
    assert settings_key(SceneOptions(), card(description="Other words.", licence="MIT")) == base
    assert settings_key(SceneOptions(threshold=card().threshold), card()) == base

"""A report on given changes: the whole run, all formats, and what is made of the report afterwards."""

from __future__ import annotations

import csv

import geopandas
import numpy as np
import pyogrio
import pytest
import shapely
from captioners import FactCaptioner, captioned, kept
from report_checks import faults
from scene_pairs import make_pair
from shapely.affinity import scale, translate

import rscc
from tiling import NoOverlap
from workflows import SceneOptions
from workflows.errors import GivenInvalid
from workflows.report.reading import open_report
from workflows.scene.given.read import read_changes
from workflows.scene.inspect import inspect as inspect_module
from workflows.scene.inspect.inspect import inspect_pair
from workflows.scene.remake import remake

SPOTS = [(30, 30, 20, 20, 250), (30, 310, 20, 20, 250), (350, 30, 20, 20, 240)]
SIZE = (400, 400)
COLUMNS = {
    "id": ["a1", "b2", "c3"],
    "score": [1, 2, 3],
    "owner": ["=x", None, "z\n"],
    "part": [0.1, 1, None],
}


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return make_pair(tmp_path_factory.mktemp("given"), SPOTS, size=SIZE)


@pytest.fixture(scope="module")
def frame(pair):
    """Polygons around what changed, in WGS84, with corners of 15 digits."""
    shapes = [change.geometry for change in captioned(pair, group_distance=0).changes]
    moved = [translate(scale(one, 1.1, 0.9), 1e-8 * np.pi, 0) for one in shapes]
    return geopandas.GeoDataFrame(COLUMNS, geometry=moved, crs="EPSG:4326")


@pytest.fixture(scope="module")
def report(pair, frame):
    return rscc.caption(pair.before, pair.after, captioner=FactCaptioner(), changes=frame)


def same(report, frame):
    """Whether a report has exactly these outlines, by their ids."""
    found = {change.source_id: change.geometry for change in report.changes}
    return all(
        shapely.normalize(found[name]).equals_exact(shapely.normalize(shape), 0)
        for name, shape in zip(frame["id"], frame.geometry, strict=True)
    )


def test_each_polygon_has_words_and_keeps_its_outline_and_columns(report, frame):
    assert same(report, frame) and faults(report.to_geojson()) == []
    for change in report.changes:
        assert change.outline_of == "given" and change.count == 1 and change.not_judged is None
        assert change.supported > 0.8 and "house" in change.caption and 0 < change.score <= 1
    assert {change.attributes["source_score"] for change in report.changes} == {1, 2, 3}
    assert report.run["given"]["features"] == 3 and report.run["given"]["mended"] == 0


@pytest.mark.parametrize("suffix", ["geojson", "gpkg", "parquet"])
def test_a_report_is_read_again_as_it_was(report, frame, tmp_path, suffix):
    read = open_report(report.write(tmp_path / f"r.{suffix}"))
    assert same(read, frame)
    assert [change.properties() for change in read.changes] == [
        change.properties() for change in report.changes
    ]
    again = open_report(read.write(tmp_path / f"again.{suffix}"))
    assert again.to_geojson()["features"] == read.to_geojson()["features"]


@pytest.mark.parametrize("suffix", ["fgb", "csv", "kml", "shp", "geojsonl"])
def test_other_formats_have_the_columns(report, tmp_path, suffix):
    path = report.write(tmp_path / f"r.{suffix}")
    if suffix == "csv":
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        assert {row["owner"] for row in rows} == {"'=x", "", "z\n"}
        return
    table = pyogrio.read_dataframe(path)
    assert len(table) == 3 and set(table["owner"].dropna()) == {"=x", "z\n"}


@pytest.mark.slow
def test_only_the_ground_around_the_polygons_is_computed(pair, frame):
    whole, part = FactCaptioner(), FactCaptioner()
    everything = captioned(pair, whole, changes=None, batch_size=1)
    few = rscc.caption(pair.before, pair.after, captioner=part, changes=frame.iloc[:1], batch_size=1)
    assert part.surveyed < whole.surveyed / 2
    # What is computed there is what a whole run computes.
    every = captioned(pair, FactCaptioner(), changes=None, group_distance=0)
    assert few.changes[0].change_probability == pytest.approx(every.changes[0].change_probability, abs=0.2)
    assert few.run["tiling"]["width"] == everything.run["tiling"]["width"]


@pytest.mark.slow
def test_shifted_polygons_are_less_supported_and_far_ones_not_at_all(pair, frame):
    width = frame.geometry[0].bounds[2] - frame.geometry[0].bounds[0]
    shares = []
    for shift in (0, 0.5, 2):
        moved = frame.assign(geometry=frame.geometry.translate(shift * width, 0))
        report = rscc.caption(pair.before, pair.after, captioner=FactCaptioner(), changes=moved)
        shares.append([change.supported for change in report.changes])
    # The fact heads of this model see houses everywhere, its change head only where the dates differ.
    assert not any("building" in change.came for change in report.changes)
    assert np.all(np.diff(shares, axis=0) < 0) and np.all(np.array(shares[2]) == 0)


def test_polygons_outside_are_kept_and_all_outside_refused(pair, frame):
    away = frame.assign(geometry=[frame.geometry[0], *frame.geometry[1:].translate(3, 0)])
    with pytest.warns(UserWarning, match="2 outlines"):
        report = rscc.caption(pair.before, pair.after, captioner=FactCaptioner(), changes=away)
    assert [change.not_judged for change in report.changes].count("outside the scenes") == 2
    assert len(report.changes) == 3 and faults(report.to_geojson()) == []
    with pytest.raises(NoOverlap, match="changes"):
        captioned(pair, FactCaptioner(), changes=read(frame.translate(3, 0)))


def read(shapes):
    from workflows.scene.given.read import read_changes

    return read_changes(geopandas.GeoDataFrame(geometry=shapes))


def test_a_layer_without_features_gives_a_report_without_changes(pair):
    report = rscc.caption(
        pair.before,
        pair.after,
        captioner=FactCaptioner(),
        changes={"type": "FeatureCollection", "features": []},
    )
    assert len(report) == 0 and report.run["given"]["features"] == 0
    with pytest.raises(GivenInvalid, match="changes"):
        rscc.caption(pair.before, pair.after, captioner=FactCaptioner(), changes=5)


@pytest.mark.slow
def test_it_is_made_again_from_its_maps_with_the_same_outlines(pair, frame, tmp_path):
    path = tmp_path / "given.gpkg"
    frame.to_file(path)
    report, _ = kept(pair, tmp_path, FactCaptioner(), changes=path)
    wanted = captioned(pair, FactCaptioner(), changes=path, threshold=0.95)
    made = remake(report, SceneOptions(threshold=0.95))
    assert made.to_geojson()["features"] == wanted.to_geojson()["features"]
    assert made.run["summary"] == wanted.run["summary"]
    (one,) = remake(report, SceneOptions(group_distance=1000.0)).changes
    assert set(one.source_id.split("; ")) == set(frame["id"])


def test_a_polygon_on_ground_without_data_says_so(tmp_path, frame):
    empty = make_pair(tmp_path, SPOTS, size=SIZE, nodata_rows=100)
    with pytest.warns(UserWarning, match="2 outlines not judged"):
        report = rscc.caption(empty.before, empty.after, captioner=FactCaptioner(), changes=frame)
    assert [change.not_judged for change in report.changes] == ["fill", "fill", None]
    assert [change.score > 0 for change in report.changes] == [False, False, True]


@pytest.mark.slow
def test_an_inspection_counts_the_tiles_that_the_given_changes_need(pair, frame, monkeypatch):
    monkeypatch.setattr(inspect_module, "measured_speed", lambda *_: inspect_module.Speed(0.0, 1.0, "cpu"))
    options = SceneOptions(changes=read_changes(frame.iloc[[0, 2]]))
    model = FactCaptioner()
    expected = inspect_pair(pair.before, pair.after, model.card, options, lambda: model).expected
    report = captioned(pair, model, changes=options.changes)
    tiling = report.run["tiling"]
    assert 0 < expected["seconds"] == model.seen < tiling["tiles"]

"""``workflows.caption``: a pair captioned from Python, and what its report does."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pyogrio
import pytest
from fakes import BrightnessCaptioner
from page_checks import PageTexts
from rfc7946 import load_valid
from scene_pairs import make_pair

from rscc.errors import ExtraNotInstalled, ModelNotFound
from tiling import SceneNotFound
from workflows import SceneOptions, caption, caption_scene
from workflows.errors import FormatUnsupported, OptionInvalid, OutputExists
from workflows.files import SUPPORTED_SUFFIXES
from workflows.inspection.event import read_report
from workflows.report.expressions import CHIP_FIELDS

TWO = [(20, 20, 30, 30, 240), (100, 150, 30, 40, 10)]


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return make_pair(tmp_path_factory.mktemp("pair"), TWO)


@pytest.fixture(scope="module")
def report(pair):
    return caption(pair.before, pair.after, captioner=BrightnessCaptioner())


def test_it_finds_what_caption_scene_finds_with_the_same_options(pair, report):
    plain = caption_scene(pair.before, pair.after, BrightnessCaptioner())
    assert len(report.changes) == 2 and report.changes == plain.changes
    assert repr(report).startswith("<SceneReport: 2 changes were found") and "settings" not in repr(report)
    assert report._repr_html_() == plain._repr_html_()
    options = {"min_area": 250.0, "group_distance": 0.0}
    few = caption(str(pair.before), str(pair.after), captioner=BrightnessCaptioner(), **options)
    same = caption_scene(pair.before, pair.after, BrightnessCaptioner(), SceneOptions(**options))
    assert len(few.changes) == 1 and few.changes == same.changes
    assert few.run["settings"] == same.run["settings"]


def test_what_is_wrong_is_said_before_a_model_is_looked_for(pair, tmp_path):
    with pytest.raises(SceneNotFound, match=r"nothing\.tif"):
        caption(tmp_path / "nothing.tif", pair.after, model="no such model")
    with pytest.raises(OptionInvalid, match="threshold is 3"):
        caption(pair.before, pair.after, model="no such model", threshold=3)
    with pytest.raises(TypeError, match="treshold"):
        caption(pair.before, pair.after, model="no such model", treshold=0.4)
    with pytest.raises(ModelNotFound, match="no such model"):
        caption(pair.before, pair.after, model="no such model")


def test_what_makes_it_doubtful_is_warned_of(pair):
    with pytest.warns(UserWarning, match="given twice"):
        twice = caption(pair.before, pair.before, captioner=BrightnessCaptioner())
    assert not twice.changes


def test_options_may_be_numbers_of_numpy_and_are_of_their_types(pair):
    numbers = {"threshold": np.float32(0.5), "min_area": np.int64(250), "batch_size": np.int64(4)}
    plain = {"threshold": 0.5, "min_area": 250, "batch_size": 4}
    few, same = (
        caption(pair.before, pair.after, captioner=BrightnessCaptioner(), **o) for o in (numbers, plain)
    )
    assert few.changes == same.changes and few.run["settings"] == same.run["settings"]
    for wrong in ({"threshold": "0.4"}, {"min_area": "large"}, {"memory": "2GB"}):
        with pytest.raises(OptionInvalid, match="it must be"):
            caption(pair.before, pair.after, captioner=BrightnessCaptioner(), **wrong)


def test_changes_that_were_taken_out_are_in_no_summary(pair, tmp_path):
    report = caption(pair.before, pair.after, captioner=BrightnessCaptioner())
    del report.changes[0]
    assert report.recounted().run["summary"]["changes"] == 1
    assert (
        read_report(report.save(tmp_path / "one.geojson")).run["summary"]["text"].startswith("1 change was")
    )


def test_a_summary_is_of_the_counts_and_classes_as_they_are(pair, tmp_path):
    report = caption(pair.before, pair.after, captioner=BrightnessCaptioner())
    report.changes[:] = [replace(report.changes[0], direction="appeared", came=("building",), count=40)]
    assert "about 40 houses were built" in report.recounted().run["summary"]["text"]
    named = report.recounted()
    assert named.recounted() is named, "nobody edited it"
    named.changes[0] = replace(named.changes[0], count=1)
    assert "1 house was built" in named.recounted().run["summary"]["text"]


def test_it_is_saved_in_the_format_of_the_suffix(report, tmp_path):
    for suffix in (*SUPPORTED_SUFFIXES, ".html"):
        path = tmp_path / f"as_{suffix[1:]}{suffix}"
        assert report.save(path) == path and path.stat().st_size > 0
        with pytest.raises(OutputExists):
            report.save(path)
        report.save(path, overwrite=True)
    written = load_valid(tmp_path / "as_geojson.geojson")
    assert [one["properties"]["caption"] for one in written["features"]] == [
        one.caption for one in report.changes
    ]
    with pytest.raises(FormatUnsupported, match=r"r\.shp"):
        report.save(tmp_path / "r.shp")


def test_a_geopackage_has_the_pictures_that_the_command_writes(rscc_command, report, pair, tmp_path):
    ours, theirs = report.save(tmp_path / "r.gpkg"), tmp_path / "command.gpkg"
    assert rscc_command("caption", pair.before, pair.after, "--output", theirs)[0] == 0
    tables = [pyogrio.read_dataframe(path, layer="changes") for path in (ours, theirs)]
    for name in CHIP_FIELDS:
        assert list(tables[0][name]) == list(tables[1][name]) and all(tables[0][name])


def test_a_geopackage_is_saved_without_pictures_where_a_scene_is_gone(report, tmp_path):
    gone = replace(report, scenes=(tmp_path / "gone.tif", report.scenes[1]))
    with pytest.warns(UserWarning, match=r"no pictures: .*gone\.tif"):
        path = gone.save(tmp_path / "r.gpkg")
    assert len(pyogrio.read_dataframe(path, layer="changes")) == len(report.changes)


def test_its_page_is_that_of_the_command(rscc_command, report, pair, tmp_path):
    page = report.page(tmp_path / "r.html")
    texts = PageTexts()
    texts.page = page
    shown = texts.values("data")
    assert shown["name"] == "r.geojson"
    assert [one["caption"] for one in shown["changes"]] == [one.caption for one in report.changes]
    report.save(tmp_path / "r.geojson")
    assert rscc_command("convert", tmp_path / "r.geojson", tmp_path / "again.html")[0] == 0
    assert (tmp_path / "again.html").read_bytes() == page.read_bytes()
    with pytest.raises(OptionInvalid, match="html-size"):
        report.page(tmp_path / "small.html", size=1000)
    assert not (tmp_path / "small.html").exists()


def test_a_plot_shows_each_outline_with_its_id_under_the_summary(report):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    axes = report.plot()
    (outlines,) = axes.collections
    drawn = {tuple(corner) for path in outlines.get_paths() for corner in path.vertices}
    expected = {
        corner for change in report.changes for ring in rings(change.geometry) for corner in ring.coords
    }
    assert drawn == expected
    assert [one.get_text() for one in axes.texts] == ["1", "2"]
    assert axes.get_title().replace("\n", " ") == report.run["summary"]["text"]
    again = report.plot(axes)
    assert again is axes and len(axes.collections) == 2
    pyplot.close("all")


def rings(geometry):
    return [part.exterior for part in getattr(geometry, "geoms", [geometry])]


def test_a_plot_of_no_change_has_nothing_but_its_title(pair):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    with pytest.warns(UserWarning, match="given twice"):
        axes = caption(pair.before, pair.before, captioner=BrightnessCaptioner()).plot()
    assert not axes.collections and axes.get_title().startswith("No change")
    pyplot.close("all")


def test_without_matplotlib_a_plot_says_what_to_install(report, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ExtraNotInstalled, match="pip install matplotlib"):
        report.plot()

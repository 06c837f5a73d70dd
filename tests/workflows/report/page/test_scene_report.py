"""``workflows.caption``: a pair captioned from Python, and what its report does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from captioners import BrightnessCaptioner
from report_checks import load_valid
from scene_pairs import make_pair

from workflows import SceneOptions, caption, caption_scene
from workflows.errors import FormatUnsupported, OutputExists
from workflows.files import SUPPORTED_SUFFIXES

TWO = [(20, 20, 30, 30, 240), (100, 150, 30, 40, 10)]


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return make_pair(tmp_path_factory.mktemp("pair"), TWO)


@pytest.fixture(scope="module")
def report(pair):
    return caption(pair.before, pair.after, captioner=BrightnessCaptioner())


@pytest.mark.slow
def test_it_finds_what_caption_scene_finds_with_the_same_options(pair, report):
    plain = caption_scene(pair.before, pair.after, BrightnessCaptioner())
    assert len(report.changes) == 2 and report.changes == plain.changes
    assert repr(report).startswith("<Report: 2 changes were found") and "settings" not in repr(report)
    assert report._repr_html_().count("<img") == 4 and "<img" not in plain._repr_html_()
    options = {"min_area": 250.0, "group_distance": 0.0}
    few = caption(str(pair.before), str(pair.after), captioner=BrightnessCaptioner(), **options)
    same = caption_scene(pair.before, pair.after, BrightnessCaptioner(), SceneOptions(**options))
    assert len(few.changes) == 1 and few.changes == same.changes
    assert few.run["settings"] == same.run["settings"]


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
    with pytest.raises(FormatUnsupported, match=r"r\.dxf"):
        report.save(tmp_path / "r.dxf")


def test_a_plot_shows_each_outline_with_its_id_under_the_summary(report):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    axes = report.plot()
    (outlines,) = axes.collections
    drawn = np.array([corner for path in outlines.get_paths() for corner in path.vertices])
    expected = report.to_geodataframe().to_crs(32633).get_coordinates().to_numpy()
    assert np.allclose(np.unique(drawn, axis=0), np.unique(expected, axis=0)), "in the CRS of the scene below"
    (image,) = axes.images
    west, east, south, north = image.get_extent()
    assert west <= drawn[:, 0].min() < drawn[:, 0].max() <= east
    assert south <= drawn[:, 1].min() < drawn[:, 1].max() <= north
    assert axes.get_xlabel() == "easting (m)"
    plain = replace(report, scenes=None).plot()
    assert plain.get_xlabel() == "longitude" and not plain.images
    assert [one.get_text() for one in axes.texts] == ["1", "2"]
    assert axes.get_title().replace("\n", " ") == report.run["summary"]["text"]
    again = report.plot(axes)
    assert again is axes and len(axes.collections) == 2
    pyplot.close("all")

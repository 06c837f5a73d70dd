"""``workflows.caption``: a pair captioned from Python, and what its report does."""

from __future__ import annotations

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


@pytest.mark.slow
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

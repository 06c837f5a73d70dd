"""rscc-medium on real scenes, through the command: the city is one that it was not trained on."""

from __future__ import annotations

import pytest
from report_checks import load_valid
from scene_pairs import run_here

from rscc.text.no_change import is_no_change

pytestmark = [pytest.mark.real]


@pytest.fixture
def run(capfd, tmp_path, shared_data):
    """Run ``rscc caption`` on two dates of a folder of scenes: exit code, stderr and the report's path."""

    def caption(folder, before, after, *options):
        scenes = shared_data / "data" / "scenes" / folder
        report = tmp_path / "r.geojson"
        words = ["caption", scenes / before, scenes / after, "-o", report, "-q", "--device", "cpu", *options]
        code, _, err = run_here(capfd, *words)
        return code, err, report

    return caption


def test_a_city_gets_changes_in_words_of_its_scale(run):
    code, err, report = run("oscd_beirut", "20150820.tif", "20171003.tif", "--model", "rscc-medium")
    assert code == 0 and "error" not in err
    content = load_valid(report)
    features = [feature["properties"] for feature in content["features"]]
    assert 10 <= len(features) <= 200
    assert content["rscc"]["tiling"]["gsd"] == pytest.approx(10, abs=0.1)
    area = content["rscc"]["tiling"]["width"] * content["rscc"]["tiling"]["height"] * 100
    assert 0.002 < sum(one["area_m2"] for one in features) / area < 0.1, (
        "as in the mask, a few percent at most"
    )
    for one in features:
        assert not is_no_change(one["caption"])
        assert not {"house", "houses", "villas", "road"} & set(one["caption"].split())

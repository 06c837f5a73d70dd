import numpy as np
import pytest
from make_demo_scene import make_scene
from shapely.geometry import box, mapping

pytest.importorskip("matplotlib", reason="drawing needs matplotlib (extra 'train')")

from draw_report import COLOR, draw
from matplotlib import colors, image


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    return make_scene(tmp_path_factory.mktemp("scene"), seed=3, size=(600, 520))


def report_of(*places):
    features = [{"properties": {"caption": caption}, "geometry": mapping(place)} for caption, place in places]
    dates = {"before": {"date": "2016-03-14"}, "after": {"date": None}}
    return {"rscc": {"inputs": dates}, "features": features}


def test_polygons_are_drawn_on_the_scene_after_where_they_are(scene, tmp_path):
    # A box in the upper left quarter of the scene, in degrees.
    place = box(-97.82735, 30.47295, -97.82655, 30.47345)
    empty, full = tmp_path / "pictures" / "empty.png", tmp_path / "full.png"
    draw(scene.before, scene.after, report_of(), empty)
    draw(scene.before, scene.after, report_of(("a villa is built", place)), full)
    without, drawn = image.imread(empty)[..., :3], image.imread(full)[..., :3]
    assert drawn.shape == without.shape
    assert without.std() > 0.05

    different = np.abs(drawn - without).max(-1) > 0.05
    half = drawn.shape[1] // 2
    assert not different[:, :half].any()
    assert different[:, half:].any()
    outline = np.abs(drawn - np.array(colors.to_rgb(COLOR))).max(-1) < 0.05
    rows, columns = np.nonzero(outline & different)
    assert rows.size > 50
    assert rows.mean() < 0.55 * drawn.shape[0]
    assert 1.2 * half < columns.mean() < 1.55 * half
    white = drawn.min(-1) > 0.95
    assert (white & different).any(), "no caption was written"


def test_a_caption_is_written_once(scene, tmp_path):
    places = [
        ("a villa is built", box(-97.8272, 30.4730, -97.8270, 30.4732)),
        ("a villa is built", box(-97.8262, 30.4722, -97.8260, 30.4724)),
    ]
    drawn = []
    for number in (1, 2):
        target = tmp_path / f"{number}.png"
        draw(scene.before, scene.after, report_of(*places[:number]), target)
        drawn.append(image.imread(target)[..., :3].min(-1) > 0.95)
    assert 0 < np.count_nonzero(drawn[1]) < 1.2 * np.count_nonzero(drawn[0])

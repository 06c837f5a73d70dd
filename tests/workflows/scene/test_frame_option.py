"""Where outlines lie when the scenes are shifted against each other: on BEFORE, or on AFTER."""

from __future__ import annotations

import numpy as np
import pytest
from captioners import BrightnessCaptioner
from rasters import ORIGIN, UTM, write_scene
from scipy import ndimage

from tiling import transformer
from workflows import caption
from workflows.options import ExplainOptions
from workflows.report.reading import open_report
from workflows.report.scenes import open_scenes
from workflows.scene.pictures.explain import explain_pair

# Pixels of 0.5 m by which AFTER lies to the right and down, and a square in BEFORE: row, column, side.
SHIFT, SQUARE = (8, 6), (150, 200, 60)


@pytest.fixture(scope="module")
def shifted(tmp_path_factory):
    """A textured pair; the ground of the second lies farther right and down, and has a new bright square."""
    folder = tmp_path_factory.mktemp("shifted")
    noise = ndimage.gaussian_filter(np.random.default_rng(4).normal(size=(3, 320, 400)), (0, 1.5, 1.5))
    image = (100 + 15 * noise / noise.std()).clip(40, 160).astype(np.uint8)
    later = image.copy()
    row, col, side = SQUARE
    later[:, row : row + side, col : col + side] = 245
    later = np.roll(later, SHIFT[::-1], (1, 2))
    return write_scene(folder / "before.tif", image), write_scene(folder / "after.tif", later)


def on_the_map(report):
    """Return the bounds of the one change in metres from the corner of the scenes, right and down."""
    (change,) = report.changes
    west, south, east, north = change.geometry.bounds
    xs, ys = transformer("EPSG:4326", UTM).transform([west, east], [north, south])
    return np.array([xs[0] - ORIGIN[0], ORIGIN[1] - ys[0], xs[1] - ORIGIN[0], ORIGIN[1] - ys[1]])


def captioned(shifted, frame):
    return caption(*shifted, captioner=BrightnessCaptioner(), align=True, frame=frame, min_area=400.0)


@pytest.mark.parametrize(("frame", "moved"), [("before", (0, 0)), ("after", SHIFT)])
def test_outlines_lie_as_the_scene_that_stays_shows_them(shifted, frame, moved):
    report = captioned(shifted, frame)
    row, col, side = SQUARE
    corner = np.array([col + moved[0], row + moved[1]])
    expected = np.concatenate([corner, corner + side]) * 0.5
    assert on_the_map(report) == pytest.approx(expected, abs=0.75)
    assert report.run["settings"]["frame"] == frame
    assert report.run["registration"]["moved"] == ("after" if frame == "before" else "before")
    assert not report.run["warnings"]


@pytest.mark.slow
def test_a_report_is_read_again_in_its_frame(shifted, tmp_path):
    report = captioned(shifted, "after")
    path = report.save(tmp_path / "r.geojson")
    with open_scenes(open_report(path)) as pair:
        assert pair.frame == "after" and pair.registration.moved == "before"
    assert report.page(tmp_path / "r.html").stat().st_size > 0


@pytest.mark.slow
def test_a_pixel_of_the_scene_before_is_found_where_it_was_moved_to(shifted):
    row, col, side = SQUARE
    crops = [
        explain_pair(
            *shifted,
            BrightnessCaptioner(),
            ExplainOptions(pixel=(col + side // 2, row + side // 2), align=True, frame=frame),
        ).crop
        for frame in ("before", "after")
    ]
    assert np.abs(crops[0].before.astype(int) - crops[1].before).mean() < 3, "the same ground"
    moved = np.array(crops[1].bounds[:2]) - crops[0].bounds[:2]
    assert moved[0] > 0 > moved[1], "right and down, where AFTER shows it"

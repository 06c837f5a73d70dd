"""The pictures of a page: what they show, at what scale, and that they keep their bytes."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image
from scene_pairs import GROUND, make_pair
from shapely.geometry import MultiPolygon, box

from tiling import ScenePair, Window
from workflows.report.page import imagery
from workflows.report.page.imagery import imagery_of

SIZE = (600, 900)
BRIGHT = [(100, 200, 60, 80, 240)]


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    made = make_pair(tmp_path_factory.mktemp("pair"), BRIGHT, size=SIZE, nodata_rows=40)
    with ScenePair.open(made.before, made.after) as opened:
        yield opened


def pixels(picture):
    return np.asarray(Image.open(io.BytesIO(picture)).convert("RGBA")).astype(int)


def outline(col, row, side):
    return MultiPolygon([box(col, row, col + side, row + side)])


def test_what_fits_is_shown_at_full_detail_and_nodata_is_transparent(pair):
    whole, parts = imagery_of(pair, Window(0, 0, 900, 600), [outline(200, 100, 60)], 8_000_000)
    assert (whole.size, whole.reduced, parts) == ((900, 600), 1, ())
    before, after = pixels(whole.before), pixels(whole.after)
    assert (after[:40, :, 3] == 0).all() and (before[:40, :, 3] == 0).all()
    assert (after[40:, :, 3] == 255).all()
    assert after[110:150, 210:270, :3].mean() == pytest.approx(240, abs=4)
    assert before[110:150, 210:270, :3].mean() == pytest.approx(GROUND, abs=4)


def test_a_tight_budget_is_kept_and_the_changes_stay_sharp(pair):
    entire, _ = imagery_of(pair, Window(0, 0, 900, 600), [], 8_000_000)
    most = entire.bytes_as_text // 3
    whole, parts = imagery_of(
        pair, Window(0, 0, 900, 600), [outline(210, 120, 40), outline(600, 500, 9)], most
    )
    assert whole.reduced > 1.4
    assert whole.bytes_as_text + sum(part.bytes_as_text for part in parts) <= most
    (first, *_) = parts
    assert first.window == Window(0, 0, 256, 256) and first.reduced < whole.reduced
    scale = first.size[0] / 256
    rows, cols = (slice(round(low * scale), round(high * scale)) for low, high in ((115, 150), (205, 250)))
    assert pixels(first.after)[rows, cols, :3].mean() == pytest.approx(240, abs=6)


def test_large_ground_is_read_in_windows_and_each_pixel_is_the_mean_of_valid_ones(pair, monkeypatch):
    monkeypatch.setattr(imagery, "MOST_PIXELS", 70_000)
    monkeypatch.setattr(imagery, "READ", 64)
    read = []

    class Watched:
        def read(self, window):
            read.append(window)
            return pair.read(window)

    told = []
    whole, _parts = imagery_of(
        Watched(), Window(0, 0, 899, 598), [], 8_000_000, lambda *values: told.append(values)
    )
    assert whole.size == (300, 200) and whole.reduced == pytest.approx(3, rel=0.01)
    assert max(max(window.width, window.height) for window in read) <= 64
    assert told[-1] == ("page", len(read), len(read))
    after = pixels(whole.after)
    # Rows 39 to 41: one of nodata and two of ground.
    assert (after[12, :, 3] == 0).all() and (after[13, :, 3] == 255).all()
    assert after[13, :, :3].mean() == pytest.approx(GROUND, abs=5)
    assert after[40:50, 72:90, :3].mean() == pytest.approx(240, abs=5)

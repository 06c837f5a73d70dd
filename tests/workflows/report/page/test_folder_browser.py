"""The page as a folder in a real Chromium: sharper than one file, with nothing but its own pictures."""

from __future__ import annotations

import io
import shutil

import numpy as np
import pytest
from pages import made_page, square
from PIL import Image

from workflows.report.page import folder as folder_module
from workflows.report.page import imagery
from workflows.report.page import page as page_module

pytestmark = [pytest.mark.slow, pytest.mark.chromium]
SIZE, BUDGET = (900, 1260), 120_000
# Bright stripes of two pixels with two between them, far from the change: details that a reduction mixes.
STRIPES = [(500, col, 300, 2, 220) for col in range(600, 1200, 4)]
AT = "#at=900,650,2&split=0"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The same report in one file and as a folder."""
    root = tmp_path_factory.mktemp("page")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(imagery, "MOST_PIXELS", 150_000)
        patched.setattr(folder_module, "TILE", 128)
        patched.setattr(page_module, "LEAST_SIZE", 0)
        in_one = made_page(root, [square(1, 100, 100, 40)], size=SIZE, rectangles=STRIPES)
        in_one.report.page(in_one.page, size=BUDGET, overwrite=True)
        in_one.report.page_folder(root / "page")
    return in_one, type(in_one)(in_one.pair, in_one.report, in_one.source, root / "page" / "index.html")


def seen(page):
    """The middle of the map on the screen, (rows, cols), without outlines; once it is the same twice."""
    frame = page.locator("#ground").bounding_box()
    clip = {
        "x": frame["x"] + frame["width"] / 2 - 100,
        "y": frame["y"] + frame["height"] / 2 - 100,
        "width": 200,
        "height": 200,
    }
    last = None
    for _ in range(50):
        shot = page.screenshot(clip=clip)
        if shot == last:
            break
        last = shot
        page.wait_for_timeout(300)
    return np.asarray(Image.open(io.BytesIO(last)).convert("L")).astype(float)


def test_zoomed_in_a_folder_shows_what_one_file_has_no_bytes_for(opened, made):
    in_one, in_folder = made
    assert in_one.page.stat().st_size <= BUDGET and in_one.data["imagery"]["reduced"] > 2
    blurred, sharp = (seen(opened(one, AT)) for one in (in_one, in_folder))
    # 100 pixels of the scene at twice their size: stripes of 220 on ground of 100.
    assert sharp.std() > 40 and np.ptp(sharp.mean(axis=0)) > 90
    assert blurred.std() < sharp.std() / 2
    assert abs(blurred.mean() - sharp.mean()) < 12, "it is the same place"


def test_only_the_tiles_that_are_seen_are_loaded_and_no_more_detail_than_fits_the_screen(opened, made):
    page = opened(made[1], "#at=630,450,0.45")
    seen(page)
    loaded = []
    page.on("request", lambda request: loaded.append(request.url.rpartition("/tiles/")[2]))
    page.evaluate("hash => { location.hash = hash; }", AT)
    seen(page)
    there = [part for part in made[1].data["imagery"]["parts"] if part["reduced"] == 1]
    assert loaded and all(name.startswith("1_") for name in loaded), "none of the finest was there before"
    assert len(set(loaded)) == len(loaded) < len(there)


def test_a_page_without_its_pictures_says_so_and_keeps_its_words(browser, made, tmp_path):
    alone = shutil.copy(made[1].page, tmp_path / "index.html")
    page = browser.new_page()
    page.goto(alone.as_uri())
    page.wait_for_selector("html[data-ready]", state="attached")
    assert "1 warning" in page.locator("#notes").text_content()
    assert page.locator("#list .caption").text_content() == "house 1 is built"
    page.close()


def test_a_tile_that_is_missing_leaves_what_lies_under_it(browser, made, tmp_path):
    copied = shutil.copytree(made[1].page.parent, tmp_path / "page")
    for tile in copied.glob("tiles/1_*"):
        tile.unlink()
    page, wrong = browser.new_page(), []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto((copied / "index.html").as_uri() + AT)
    page.wait_for_selector("html[data-ready]", state="attached")
    assert seen(page).mean() > 100 and wrong == []
    page.close()

"""The page of an archive in a real Chromium, driven as a person drives it; nothing is asked of any server."""

from __future__ import annotations

import io
import json
from base64 import b64encode
from math import cos, radians

import pytest
from archive_rows import fill
from pages import found, free_rows, made_archive_page, on_screen, page_of, pair, usual_rows
from PIL import Image
from shapely.geometry import box
from test_page import HOSTILE

from workflows.printable import printable

pytestmark = [pytest.mark.slow, pytest.mark.chromium]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("archive")
    fill(folder / "archive", usual_rows())
    (folder / "archive" / "pairs" / "p3" / "changes.html").write_text("a page")
    return page_of(folder / "archive")


def names(page):
    """The pairs in the list, in its order."""
    return page.locator("#list .caption").all_text_contents()


def middle(page, made, number):
    """Where a pair lies on the screen while everything is shown."""
    data = made.data
    ring = data["pairs"][number]["rings"][0]
    x, y = (sum(ring[axis::2]) / len(ring[axis::2]) for axis in (0, 1))
    return on_screen(page, (data["width"], data["height"]), x, y)


def test_sums_times_failures_and_links_are_there(opened, made):
    page = opened(made)
    assert page.locator("#said").text_content() == made.data["summary"]["text"].replace("m2", "m\u00b2")
    assert page.locator("#totals p").all_text_contents() == [
        "+ 4 appeared, 800 m\u00b2", "\u2212 4 disappeared, 1,200 m\u00b2", "\u21c4 2 replaced, 600 m\u00b2",
        "? 2 unnamed, 800 m\u00b2", "Added building in 6, road in 4", "Removed trees in 4, building in 2",
    ]  # fmt: skip
    bars = page.locator("#times li").evaluate_all("all => all.map((one) => one.title)")
    assert bars == ["2018: 10 changes", "2019: 0 changes", "2020: 2 changes"]
    tall = page.locator("#times li").evaluate_all(
        "all => all.map((one) => [...one.querySelectorAll('i')].reduce((sum, i) => sum + i.offsetHeight, 0))"
    )
    assert tall[1] == 0 and tall[0] == pytest.approx(5 * tall[2], abs=4)
    assert page.locator("#notes summary").text_content() == "2 pairs failed"
    assert page.locator("#notes li").all_text_contents() == [
        "2 refused: FILE: there is no such file [SceneNotFound] (p4, p5)"
    ]
    assert page.locator("#list a").evaluate_all("all => all.map((one) => one.getAttribute('href'))") == [
        *[f"archive/pairs/p{n}/changes.geojson" for n in range(3)],
        "archive/pairs/p3/changes.html", "archive/pairs/p3/changes.geojson",
    ]  # fmt: skip
    assert page.get_by_role("link", name="Report of p2").is_visible()
    assert page.title() == "What changed \u00b7 archive"


def test_pairs_are_searched_sorted_and_filtered_by_state(opened, made):
    page = opened(made)
    assert names(page) == [f"p{n}" for n in range(7)] and page.locator("#count").text_content() == "7 pairs"
    page.select_option("#sort", "changes")
    assert names(page)[:3] == ["p3", "p0", "p2"]
    page.select_option("#sort", "latest")
    assert names(page)[0] == "p2"
    page.select_option("#sort", "table")
    page.locator("#states button", has_text="failed").click()
    assert names(page) == ["p4", "p5"] and page.locator("#count").text_content() == "2 of 7 pairs"
    page.locator("#search").fill("SITE p5 no such")
    assert names(page) == ["p5"]
    page.locator("#search").fill("nowhere")
    assert names(page) == [] and page.locator("#empty").is_visible()


SCALE = "whole => document.querySelector('#scale span').textContent"


def test_a_pair_is_chosen_on_the_map_in_the_list_and_by_keys(opened, made):
    page = opened(made, reduced_motion="reduce")
    whole = page.locator("#scale span").text_content()
    page.mouse.move(*middle(page, made, 3))
    told = "p3 \u00b7 site 3 \u00b7 2015 \u2192 2018 \u00b7 6 changes, 2,100 m\u00b2"
    assert page.locator("#tip").text_content() == told
    page.mouse.click(*middle(page, made, 3))
    current = page.locator("#list button[aria-current] .caption")
    assert current.text_content() == "p3"
    assert page.locator("#live").text_content().endswith("longitude 13.15500, latitude 52.00500")
    page.keyboard.press("ArrowRight")
    assert current.text_content() == "p4"
    page.keyboard.press("Escape")
    assert current.count() == 0
    page.wait_for_function(f"{SCALE} !== whole", arg=whole)  # a frame later
    page.keyboard.press("f")
    page.wait_for_function(f"{SCALE} === whole", arg=whole)
    assert whole.endswith(" km")
    page.get_by_role("button", name="Zoom in").click()
    page.locator("#list button").nth(6).press("Enter")
    assert current.text_content() == "p6"


def test_changes_of_all_pairs_are_listed_filtered_and_lead_to_the_page_of_their_pair(opened, tmp_path):
    fill(tmp_path / "archive", usual_rows())
    pair_folder = tmp_path / "archive" / "pairs" / "p3"
    (pair_folder / "changes.html").write_text("<title>the page of p3</title>")
    shown = io.BytesIO()
    Image.new("RGB", (8, 8), "red").save(shown, "JPEG")
    dates = [b64encode(shown.getvalue()).decode()] * 2
    (pair_folder / "thumbnails.json").write_text(json.dumps({str(n): dates for n in range(1, 7)}))
    made = page_of(tmp_path / "archive")
    page = opened(made, reduced_motion="reduce")
    assert page.locator("#directions").is_hidden() and page.locator("#list img").count() == 0
    page.get_by_role("button", name="Changes", exact=True).click()
    assert page.locator("#states").is_hidden() and page.locator("#count").text_content() == "12 changes"
    assert names(page)[:2] == ["house 6 appears", "house 5 appears"], "the largest first"
    assert page.locator("#list img").count() == 12
    wide = "all => all.map((one) => one.naturalWidth)"
    assert page.locator("#list li:first-child img").evaluate_all(wide) == [8, 8]
    page.locator("#kinds button", has_text="trees").click()
    assert page.locator("#count").text_content() == "4 of 12 changes"
    page.locator("#search").fill("p3")
    assert names(page) == ["house 6 appears", "house 2 appears"]
    page.locator("#list button").first.click()
    assert "longitude 13.15500, latitude 52.00500" in page.locator("#live").text_content()
    link = page.get_by_role("link", name="Page of change 6 of p3")
    assert link.get_attribute("href") == "archive/pairs/p3/changes.html#change=6"
    page.get_by_role("button", name="Pairs", exact=True).click()
    assert names(page) == ["p3"] and page.locator("#list button[aria-current]").count() == 0


def test_the_world_is_below_the_pairs_and_unknown_dates_are_dashes(opened, tmp_path):
    at_sea = pair(0, footprint=box(-30, 30, -29.9, 30.1), date_before=None)
    on_land = pair(1, footprint=box(20, 20, 20.1, 20.1), date_before=None, date_after=None)
    page = opened(made_archive_page(tmp_path, {at_sea: None, on_land: None}), reduced_motion="reduce")
    facts = page.locator("#list .facts").all_text_contents()
    assert (
        facts[0].startswith("site 0 \u00b7 \u2013 \u2192 2018")
        and facts[1] == "site 1 \u00b7 \u2013 \u00b7 not done"
    )
    page.keyboard.press("w")
    page.wait_for_function("() => document.querySelector('#scale span').textContent === '2000 km'")
    image = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    width, (high, low) = page.locator("#ground").bounding_box()["width"], free_rows(page)

    def colour(longitude, latitude):
        # The map has its scale at 25 degrees north, the middle of both pairs.
        unit = min(width / (360 * cos(radians(25.05))), (low - high) / 180)
        x = width / 2 + longitude * unit * cos(radians(25.05))
        return image.getpixel((round(x), round((high + low) / 2 - latitude * unit)))

    land = [min(colour(*place)) for place in ((90, 60), (-110, 46), (134, -24))]
    sea = [min(colour(*place)) for place in ((-140, 10), (80, -30), (160, 45))]
    assert min(land) > max(sea) + 20


def test_hostile_texts_are_shown_as_they_are(opened, tmp_path):
    rows = {}
    for n, text in enumerate(HOSTILE):
        row = pair(n, site=text, date_before=None, date_after=None)
        kind = {"came": (text,), "gone": (text,), "direction": text}
        made = found(row, 2, **kind)
        made.run["inputs"]["before"]["date"] = made.run["inputs"]["after"]["date"] = None if n % 2 else text
        made.run["model"] |= {"name": text, "version": text}
        rows[row] = made if n % 3 else f"{text}: cannot be read"
    page = opened(made_archive_page(tmp_path, rows, "<img src=x onerror=alert(1)>`${1}`"))
    assert page.locator("h1 span").text_content() == "<img src=x onerror=alert(1)>`${1}`"
    facts = page.locator("#list li .facts:not(.reason)").all_text_contents()
    assert all(printable(text) in fact for text, fact in zip(HOSTILE, facts, strict=True))
    for _ in HOSTILE:
        page.keyboard.press("ArrowRight")
    elements = page.locator("img, svg, iframe, b b, script").count()
    assert elements == 3, "the script of the page, its data, and the world"
    page.get_by_role("button", name="Changes", exact=True).click()
    assert page.locator("#list li").count() > len(HOSTILE)
    assert page.locator("img, svg, iframe, b b, script").count() == elements
    page.get_by_role("button", name="Pairs", exact=True).click()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.locator("#list li").nth(7).bounding_box()["height"] < 200

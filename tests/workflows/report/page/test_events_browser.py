"""The page of a place over time in a real Chromium, driven as a person drives it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from pages import CONTRAST, PHONE, PageTexts, nameless
from painted_series import find_squares, write_series

from workflows.monitor.monitor import run_monitor
from workflows.monitor.options import MonitorOptions

pytestmark = [pytest.mark.slow, pytest.mark.chromium]


@dataclass
class Made(PageTexts):
    """The page of a place."""

    page: Path

    @property
    def data(self):
        """What the page shows but the pictures."""
        return self.values("data")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("events")
    write_series(folder / "town")
    run_monitor([str(folder / "town")], folder / "out", MonitorOptions(), None, finder=find_squares)
    return Made(folder / "out" / "places" / "town" / "events.html")


def listed(page):
    return page.locator("#list .caption").count()


def slide(page, at):
    page.locator("#date").fill(str(at))


def test_events_appear_at_their_dates(opened, made):
    page = opened(made)
    assert page.locator("#day").text_content() == "September 2018"
    assert [made.data["events"][n]["begun"] for n in range(3)] == [2, 3, 4]
    numbers = []
    for at in range(5):
        slide(page, at)
        numbers.append(listed(page))
    assert numbers == [0, 0, 1, 2, 3]
    assert page.locator("#said li").all_text_contents() == made.data["stories"]


def test_an_event_has_a_strip_of_all_dates_and_a_chart(opened, made):
    page = opened(made)
    page.locator("#list button").first.click()
    strip = page.locator("#strip button")
    assert strip.evaluate_all("all => all.map((one) => one.className)") == list("aasss")
    context = "document.querySelector('#strip canvas').getContext('2d')"
    page.wait_for_function(f"() => {context}.getImageData(48, 48, 1, 1).data[3] > 0")
    strip.nth(0).click()
    assert page.locator("#day").text_content() == "January 2018"
    heights = page.locator("#chart rect").evaluate_all(
        "all => all.map((one) => Number(one.getAttribute('height')))"
    )
    assert heights[0] == 0 and heights[-1] > 50
    page.keyboard.press("ArrowRight")
    assert page.locator("#day").text_content() == "March 2018"
    page.keyboard.press("Escape")
    assert page.locator("#card").is_hidden()


def test_keys_keep_the_place_in_the_list_and_space_presses_a_button(opened, made):
    page = opened(made)
    row = page.locator("#list button").nth(1)
    row.focus()
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowRight")
    focused = "document.activeElement.closest('#list li') === document.querySelectorAll('#list li')[1]"
    assert page.evaluate(focused)
    page.locator("#card h2").focus()
    page.keyboard.press("Escape")
    assert page.evaluate(focused)
    page.locator("[data-key=o]").focus()
    page.keyboard.press("Space")
    assert page.locator("[data-key=o]").get_attribute("aria-pressed") == "false"
    assert page.locator("#time button").text_content() == "Play"


def test_the_map_shows_the_picture_of_the_date(opened, made):
    page = opened(made)

    def colour(at):
        slide(page, at)
        page.wait_for_timeout(300)
        return page.evaluate("""() => {
          const ground = document.querySelector("#ground");
          const [x, y] = [ground.width / 2, ground.height / 2];
          return [...ground.getContext("2d").getImageData(x, y, 1, 1).data];
        }""")

    assert abs(colour(0)[0] - 90) < 12 and colour(0)[3] == 255


def test_the_page_fits_a_phone_and_everybody(opened, made):
    page = opened(made, viewport=PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    page.locator("#list button").first.click()
    assert page.locator("#strip").is_visible() and page.locator("#date").is_visible()
    page.locator("#card summary").click()
    low = page.locator("#map").bounding_box()["height"]
    assert page.locator("#card").bounding_box()["y"] >= low - 1, "the map stays free"
    assert nameless(page) == 0
    assert page.evaluate(CONTRAST) == []

"""The page in a real Chromium for fingers, for the keyboard alone, and for those who hear or see little."""

from __future__ import annotations

import json

import pytest
from pages import CONTRAST, PHONE, address, listed_ids, nameless

pytestmark = [pytest.mark.slow, pytest.mark.chromium]


def test_on_a_phone_a_finger_gives_verdicts_and_moves_the_map(opened, made):
    page = opened(made, viewport=PHONE, has_touch=True, is_mobile=True)
    page.locator("#list button").first.tap()
    assert page.locator("#card").is_visible()
    for name in ("Confirmed", "Wrong place", "Wrong words", "Next change"):
        box = page.get_by_role("button", name=name).bounding_box()
        assert min(box["width"], box["height"]) >= 44, "large enough for a finger"
    page.get_by_role("button", name="Close").tap()
    before = address(page, "at=")["at"]
    touch = page.context.new_cdp_session(page)
    for kind, points in (
        ("touchStart", [(150, 200), (240, 200)]),
        ("touchMove", [(110, 200), (280, 200)]),
        ("touchMove", [(90, 200), (300, 200)]),
        ("touchEnd", []),
    ):
        at = [{"x": x, "y": y, "id": number} for number, (x, y) in enumerate(points)]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": at})
    page.wait_for_function("before => !location.hash.includes(before)", arg=before)
    assert float(address(page, "at=")["at"].split(",")[2]) > 1.5 * float(before.split(",")[2])


def test_what_can_be_pressed_has_a_name_and_texts_have_contrast(opened, either):
    for scheme in ("light", "dark"):
        page = opened(either, color_scheme=scheme)
        page.keyboard.press("ArrowRight")
        assert nameless(page) == 0 and page.evaluate(CONTRAST) == []


def test_everything_is_done_by_the_keyboard_alone(opened, made, tmp_path):
    page = opened(made)

    def tab_to(selector):
        for _ in range(60):
            page.keyboard.press("Tab")
            if page.evaluate("selector => document.activeElement.matches(selector)", selector):
                return
        raise AssertionError(f"no Tab reaches {selector}")

    tab_to(".skip")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.matches('#list button')"), "the link skips to the list"
    page.keyboard.press("Enter")
    assert page.locator("#card h2").text_content() == "Change 1"
    page.keyboard.press("/")
    page.keyboard.type("house")
    assert listed_ids(page) == [1, 2, 3, 5, 6, 7]
    tab_to("#sort")
    page.keyboard.press("ArrowDown")
    tab_to("#filters summary")
    page.keyboard.press("Enter")
    tab_to("#kinds button")
    page.keyboard.press("Space")
    assert page.locator("#filters summary").text_content() == "Filters (1)"
    assert listed_ids(page) == [7, 5, 3, 1], "buildings, the largest first"
    tab_to("#list button")
    page.keyboard.press("Enter")
    page.keyboard.press("2")
    tab_to("#reviewer")
    page.keyboard.type("Zoe")
    tab_to("#download")
    with page.expect_download() as waiting:
        page.keyboard.press("Enter")
    waiting.value.save_as(tmp_path / "marks.json")
    (mark,) = json.loads((tmp_path / "marks.json").read_text(encoding="utf-8"))["marks"]
    assert (mark["id"], mark["verdict"], mark["reviewer"]) == (7, "wrong place", "Zoe")
    tab_to('#tools [data-key="o"]')
    page.keyboard.press("Enter")
    assert page.get_by_role("button", name="Outlines").get_attribute("aria-pressed") == "false"
    tab_to('#tools [data-key="?"]')
    page.keyboard.press("Enter")
    assert page.locator("#keys").is_visible()
    page.keyboard.press("Escape")
    assert page.locator("#keys").is_hidden()

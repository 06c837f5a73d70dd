"""The page in a real Chromium, driven as a person drives it; nothing is asked of any server."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from pages import address, listed_ids, made_page, on_screen, said, squares

pytestmark = [pytest.mark.slow, pytest.mark.chromium]
MANY = 2_000


def pixel(page, x, y):
    """The colour of the map at a place of the screen, after the next frame."""
    return page.evaluate(
        """([x, y]) => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => {
             const context = document.querySelector("#ground").getContext("2d");
             done([...context.getImageData(x, y, 1, 1).data]);
           })))""",
        [x, y],
    )


def corner(made, number):
    """The upper left corner of a change in page pixels."""
    steps = made.data["report"]["changes"][number]["rings"][0]
    return [min(sum(steps[axis : end + 1 : 2]) for end in range(axis, len(steps), 2)) / 8 for axis in (0, 1)]


def test_swipe_shows_one_date_on_each_side_and_keys_show_one_alone(opened, made):
    page = opened(made)
    page.keyboard.press("o")
    # The bright square of the scene after, at columns and rows 60 to 100 of 420 x 300.
    x, y = map(round, on_screen(page, (420, 300), 80, 80))
    assert pixel(page, x, y)[0] < 140, "left of the divider is the date before"
    divider = page.locator("#divider")
    divider.fill("50")
    assert pixel(page, x, y)[0] > 200, "right of it the date after"
    for key, value, is_after in (("a", "1000", False), ("d", "0", True), ("s", "500", False)):
        page.keyboard.press(key)
        assert divider.input_value() == value
        assert (pixel(page, x, y)[0] > 200) == is_after
    divider.focus()
    page.keyboard.press("ArrowLeft")
    assert divider.input_value() == "499", "on the divider, arrows move it"
    assert page.locator("#card").is_hidden()
    frame = page.locator("#ground").bounding_box()
    page.mouse.move(frame["width"] / 2, frame["height"] / 2)
    page.mouse.down()
    page.mouse.move(frame["width"] / 4, frame["height"] / 2, steps=4)
    page.mouse.up()
    assert 200 < int(divider.input_value()) < 300, "it can be dragged"


def test_blink_turns_the_dates_and_not_by_itself_where_motion_is_unwanted(opened, made):
    page = opened(made)
    page.keyboard.press("b")
    for shown in ("1000", "0", "1000"):
        page.wait_for_function("shown => document.querySelector('#divider').value === shown", arg=shown)
    page.keyboard.press("s")
    assert page.get_by_role("button", name="Blink").get_attribute("aria-pressed") == "false"
    calm = opened(made, reduced_motion="reduce")
    for wanted in ("1000", "0", "1000"):
        calm.keyboard.press("b")
        calm.wait_for_timeout(100)
        assert calm.locator("#divider").input_value() == wanted
    assert calm.get_by_role("button", name="Blink").get_attribute("aria-pressed") == "false"


def test_the_list_is_filtered_and_sorted_and_says_how_many(opened, made):
    page = opened(made)
    assert listed_ids(page) == list(range(1, 9)) and page.locator("#count").text_content() == "8 changes"
    page.select_option("#sort", "area")
    assert listed_ids(page) == list(range(8, 0, -1))
    page.select_option("#sort", "doubt")
    assert listed_ids(page) == [4, 8, 3, 7, 2, 6, 1, 5]
    page.select_option("#sort", "score")
    assert listed_ids(page) == [1, 5, 2, 6, 3, 7, 4, 8]
    page.select_option("#sort", "kind")
    assert listed_ids(page) == [1, 5, 3, 7, 4, 8, 2, 6]
    page.select_option("#sort", "id")
    page.locator("#filters summary").click()
    page.locator("#kinds button", has_text="building").click()
    assert listed_ids(page) == [1, 3, 5, 7]
    page.locator("#directions button", has_text="replaced").click()
    assert listed_ids(page) == [3, 7] and page.locator("#count").text_content() == "2 of 8 changes"
    page.locator("#search").fill("HOUSE 7")
    assert listed_ids(page) == [7]
    page.locator("#search").fill("no such words")
    assert listed_ids(page) == [] and page.locator("#empty").is_visible()
    page.locator("#reset").click()
    page.locator("#score").fill("60")
    assert listed_ids(page) == [1, 2, 5, 6]
    page.locator("#area").fill("100")
    assert listed_ids(page) == []
    assert page.locator("#filters summary").text_content() == "Filters (2)"
    page.locator("#reset").click()
    assert listed_ids(page) == list(range(1, 9))


def test_a_change_is_flown_to_and_the_address_brings_back_what_was_seen(opened, made):
    page = opened(made)
    page.locator("#list button").nth(5).click()
    card = page.locator("#card")
    assert card.get_by_role("heading").text_content() == "Change 6"
    assert card.locator(".caption").text_content() == "house 6 is built"
    assert "trees" in card.locator("dl").text_content()
    assert "Changed area60 m²Changed back7 m²" in card.locator("dl").text_content()
    seen = address(page, "change=6&at=.*,4.0000&")
    x, y, _ = map(float, seen["at"].split(","))
    left, top = corner(made, 5)
    assert 0 < x - left < 60 and 0 < y - top < 120, "it is in the middle of what the card leaves of the map"
    again = opened(made, "#" + page.url.partition("#")[2])
    assert again.locator("#card h2").text_content() == "Change 6"
    assert address(again, "change=6") == seen
    # Also while what is seen has just moved and waits to be written into the address.
    # The moment to write what is seen into the address comes between a new address and its event.
    again.evaluate("() => { window.setTimeout = (write) => { window.write = write; }; }")
    again.keyboard.press("+")
    again.evaluate("() => { location.hash = '#change=2&split=0.25'; write(); }")
    again.locator("#card h2", has_text="Change 2").wait_for()
    assert again.locator("#divider").input_value() == "250"
    page.keyboard.press("Escape")
    assert card.is_hidden()
    page.keyboard.press("f")
    address(page, "at=210.0,")


def test_a_change_is_chosen_on_the_map_and_both_dates_of_it_are_shown(opened, made):
    page = opened(made)
    left, top = corner(made, 0)
    page.mouse.click(*on_screen(page, (420, 300), left + 9, top + 9))
    assert page.locator("#card h2").text_content() == "Change 1"
    drawn = page.locator("#card canvas").evaluate_all(
        "all => all.map((one) => new Set(one.getContext('2d').getImageData(0, 0, 176, 176).data).size)"
    )
    assert len(drawn) == 2 and min(drawn) > 10
    assert page.locator("#list li:first-child canvas").count() == 2


def test_keys_go_through_the_changes_and_set_verdicts_that_can_be_downloaded(opened, made, tmp_path):
    page = opened(made)
    page.locator("#reviewer").fill("Zoë <b>")
    page.keyboard.press("Escape")
    for key, number in (
        ("ArrowRight", 1),
        ("ArrowRight", 2),
        ("ArrowDown", 3),
        ("ArrowLeft", 2),
        ("ArrowUp", 1),
        ("ArrowUp", 8),
    ):
        page.keyboard.press(key)
        assert page.locator("#card h2").text_content() == f"Change {number}"
    assert page.locator("#live").text_content() == "Change 8, 8 of 8: something changed"
    page.keyboard.press("3")
    page.get_by_label("Right words").fill("a pond <script>")
    page.get_by_label("Note").fill("it is 1 pond")
    page.keyboard.press("Escape")
    assert page.locator("#card").is_visible(), "the first Escape leaves the field"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("1")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("2")
    page.keyboard.press("2")
    assert page.locator("#live").text_content() == "Change 2: verdict taken back"
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download 2 marks").click()
    assert waiting.value.suggested_filename == "report_marks.json"
    waiting.value.save_as(tmp_path / "marks.json")
    content = json.loads((tmp_path / "marks.json").read_text(encoding="utf-8"))
    assert (content["report"], content["name"]) == (made.data["report"]["report"], "report.geojson")
    first, last = content["marks"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", first.pop("time")) and last.pop("time")
    assert first == {"id": 1, "verdict": "confirmed", "note": "", "caption": "", "reviewer": "Zoë <b>"}
    words = {"note": "it is 1 pond", "caption": "a pond <script>", "reviewer": "Zoë <b>"}
    assert last == {"id": 8, "verdict": "wrong words", **words}
    page.reload()
    page.get_by_role("button", name="Download 2 marks").wait_for()
    page.locator("#filters summary").click()
    page.select_option("#verdict", "wrong words")
    assert listed_ids(page) == [8] and page.locator("#list .mark").text_content() == "wrong words"


def kept_marks(page):
    """The marks that the browser keeps, by the id of their change."""
    kept = page.evaluate("Object.values(localStorage).map((text) => JSON.parse(text))")
    return {one["id"]: one for all_ in kept for one in all_["marks"]}


def test_a_reviewed_change_keeps_its_words_when_it_is_marked_again(opened, tmp_path):
    first, *others = squares(2, (300, 420))
    page = opened(made_page(tmp_path, [replace(first, **said("a pond was dug")), *others]), "#change=1")
    page.keyboard.press("3")
    mark = kept_marks(page)[1]
    assert (mark["caption"], mark["note"]) == ("a pond was dug", "a pond was dug")
    assert page.get_by_label("Right words").input_value() == "a pond was dug"
    page.keyboard.press("Escape")
    page.keyboard.press("3")
    assert page.locator("#live").text_content() == "Change 1: as in the report, wrong words"
    assert not kept_marks(page)
    page.keyboard.press("1")
    mark = kept_marks(page)[1]
    assert (mark["caption"], mark["note"]) == ("", "a pond was dug"), "a confirmed sentence has no other"


def test_a_report_that_was_reviewed_since_is_shown_and_its_old_marks_are_not_given_out(
    opened, made, tmp_path
):
    page = opened(made, "#change=1")
    page.locator("#reviewer").fill("Zoe")
    page.keyboard.press("Escape")
    page.keyboard.press("2")
    kept = page.evaluate("Object.entries(localStorage)")
    first, *others = squares(2, (300, 420))
    after = made_page(tmp_path, [replace(first, review_status="confirmed", reviewer="Ali"), *others])
    later, key = opened(after), f"rscc {after.data['report']['report']}"
    later.evaluate("([key, text]) => localStorage.setItem(key, text)", [key, kept[0][1]])
    later.reload()
    later.wait_for_selector("html[data-ready]", state="attached")
    assert later.locator("#list .mark").first.text_content() == "confirmed"
    assert later.locator("#download").is_disabled()
    later.keyboard.press("ArrowRight")
    assert "Ali" in later.locator("#card dl").text_content()
    later.keyboard.press("ArrowRight")
    later.keyboard.press("1")
    assert later.get_by_role("button", name="Download 1 mark").is_enabled()
    stored = json.loads(later.evaluate("key => localStorage[key]", key))["marks"]
    assert {mark["verdict"] for mark in stored} == {"confirmed", "wrong place"}


def test_two_tabs_of_one_report_keep_the_marks_of_both(opened, made):
    page = opened(made, "#change=1")
    other = page.context.new_page()
    other.goto(made.page.as_uri() + "#change=1")
    other.wait_for_selector("html[data-ready]", state="attached")
    page.locator("#reviewer").fill("Zoe")
    page.keyboard.press("Escape")
    page.keyboard.press("1")
    other.get_by_role("button", name="Download 1 mark").wait_for()
    assert other.locator("#list .mark").first.text_content() == "confirmed"
    assert other.locator('#card [data-key="1"]').get_attribute("aria-pressed") == "true"
    assert other.locator("#reviewer").input_value() == "Zoe"
    other.locator("#reviewer").fill("Ann")
    other.keyboard.press("Escape")
    other.keyboard.press("ArrowRight")
    other.keyboard.press("2")
    page.get_by_role("button", name="Download 2 marks").wait_for()
    verdicts = {number: (mark["verdict"], mark["reviewer"]) for number, mark in kept_marks(page).items()}
    assert verdicts == {1: ("confirmed", "Zoe"), 2: ("wrong place", "Ann")}
    other.keyboard.press("2")
    page.get_by_role("button", name="Download 1 mark").wait_for()
    assert page.locator("#list .mark").all_text_contents()[:2] == ["confirmed", ""]


def test_what_is_being_typed_is_kept_at_once(opened, made):
    page = opened(made, "#change=1")
    page.keyboard.press("3")
    page.get_by_label("Right words").press_sequentially("a pnd")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    page.keyboard.type("o")
    assert page.get_by_label("Right words").input_value() == "a pond", "the cursor stays"
    page.get_by_label("Note").press_sequentially("see it ")
    page.evaluate("location.hash = '#change=2'")
    page.locator("#card h2", has_text="Change 2").wait_for()
    page.locator("#reviewer").press_sequentially("Zoe")
    page.reload()
    page.get_by_role("button", name="Download 1 mark").wait_for()
    mark = kept_marks(page)[1]
    assert (mark["caption"], mark["note"], mark["reviewer"]) == ("a pond", "see it", "Zoe")


def test_two_thousand_changes_are_there_at_once_and_stay_in_bytes(opened, tmp_path):
    made = made_page(tmp_path, squares(MANY, (600, 800)), size=(600, 800))
    assert made.page.stat().st_size <= 8_000_000
    page = opened(made)
    assert page.locator("#list button").count() == MANY
    page.locator("#search").fill("house 1999 ")
    assert listed_ids(page) == [1999]
    page.keyboard.press("Escape")
    page.keyboard.press("ArrowRight")
    assert page.locator("#card h2").text_content() == "Change 1999"
    assert page.locator("#list canvas").count() <= 4, "chips of what is seen alone"
    page.locator("#list button").focus()
    page.locator("#search").fill("")
    page.locator("#list button").nth(MANY - 2).focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#list button:focus .facts").text_content().startswith("#2000 "), "focus goes along"

"""Texts of strangers on the page in a real Chromium: they stay texts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pages import made_page, said, squares
from report_checks import hostile_texts
from test_page import HOSTILE

from workflows.printable import printable

pytestmark = [pytest.mark.slow, pytest.mark.chromium]


def test_ten_thousand_hostile_texts_make_no_element_no_error_and_no_request(opened, tmp_path):
    texts = iter(hostile_texts(10_000))
    changes = [
        replace(
            one,
            caption=next(texts),
            alternatives=(next(texts),),
            reviewer_caption=next(texts),
            reviewer_note=next(texts),
            review_status="wrong words",
        )
        for one in squares(2_500, (600, 800))
    ]
    # The first have one text in every place.
    changes[: len(HOSTILE)] = [
        replace(one, caption=text, place=text, came=(text,), alternatives=(text,), **said(text))
        for one, text in zip(changes, HOSTILE, strict=False)
    ]
    name = "<img src=x onerror=alert(1)>`${alert(1)}`\u202e\x1b[31m'\"&lt;.geojson"
    made = made_page(tmp_path, changes, size=(600, 800), name=name, warnings=hostile_texts(100))
    page = opened(made)
    assert page.locator("#list .caption").all_text_contents() == [printable(one.caption) for one in changes]
    for number in (0, 1, 7, 8, 700, 2_499):
        page.evaluate("number => document.querySelectorAll('#list button')[number].click()", number)
        assert page.locator("#card .caption").text_content() == printable(changes[number].caption)
        assert page.locator("#note").input_value() == printable(changes[number].reviewer_note)
        assert page.get_by_label("Right words").input_value() == printable(changes[number].reviewer_caption)
        others = page.locator("#others option").evaluate_all("all => all.map((one) => one.value)")
        assert others == [printable(text) for text in changes[number].alternatives]
        assert page.locator('#card [data-key="3"]').get_attribute("aria-pressed") == "true"
    assert page.locator("#download").is_disabled(), "what the report says already is no mark of this page"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.locator("#list li").nth(7).bounding_box()["height"] < 240
    assert printable(name) in page.title() and printable(name) in page.locator("#made dl").text_content()
    told = page.locator("#notes li").all_text_contents()
    assert told == list(map(printable, hostile_texts(100)))
    # Whatever a text would have become: elements and their attributes are those of a page of plain words.
    plain = [
        replace(one, caption="x", alternatives=("x",), reviewer_caption="x", reviewer_note="x")
        for one in changes[9:18]
    ]
    (tmp_path / "plain").mkdir()
    quiet = opened(made_page(tmp_path / "plain", plain, warnings=["x"]))
    quiet.keyboard.press("ArrowRight")
    assert page.evaluate(SHAPES) == quiet.evaluate(SHAPES)


SHAPES = """() => [...new Set([...document.querySelectorAll("*")].map(
  (one) => `${one.tagName} ${one.getAttributeNames().sort().join(" ")}`,
))].sort()"""

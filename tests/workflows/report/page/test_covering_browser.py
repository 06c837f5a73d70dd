"""Nothing on the page covers what is fitted, selected or written, on wide screens, phones and paper."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, product

import pytest
from pages import OVER_THE_MAP, found, free_rows, made_archive_page, made_page, pair, square, squares

pytestmark = [pytest.mark.slow, pytest.mark.chromium]
SIZES = ((1400, 840), (900, 700), (390, 800))
SIZE = (300, 420)
# The corners of the view are in the address: the middle of the map in page pixels, and its zoom.
VIEW = "() => location.hash.match(/at=([-\\d.]+),([-\\d.]+),([\\d.]+)/)?.slice(1).map(Number)"


@pytest.fixture(scope="module")
def corners(tmp_path_factory):
    """The page of four changes in the corners of the scenes, the first marked by a reviewer."""
    places = [(n + 1, col, row) for n, (row, col) in enumerate(product((2, 270), (2, 390)))]
    changes = [square(n, col, row, 26) for n, col, row in places]
    marked = replace(changes[0], review_status="wrong words", reviewer_caption="a pond was dug")
    return made_page(tmp_path_factory.mktemp("corners"), [marked, *changes[1:]])


@pytest.fixture(params=SIZES, ids=lambda size: str(size[0]))
def size(request):
    return dict(zip(("width", "height"), request.param, strict=True))


def seen(page):
    """Return how the page shows a box of page pixels: a function to a box of the screen."""
    page.wait_for_function(VIEW)
    page.wait_for_timeout(400)  # the address follows a moment after the last move
    x, y, zoom = page.evaluate(VIEW)
    frame = page.locator("#ground").bounding_box()

    def shown(west, north, east, south):
        left, top = frame["width"] / 2 - x * zoom, frame["height"] / 2 - y * zoom
        return left + west * zoom, top + north * zoom, left + east * zoom, top + south * zoom

    return shown


def boxes(page, selector):
    return page.locator(selector).evaluate_all(
        "all => all.map((one) => one.getBoundingClientRect()).filter((one) => one.height)"
        ".map((one) => [one.left, one.top, one.right, one.bottom])"
    )


def meet(one, other):
    return one[0] < other[2] and one[2] > other[0] and one[1] < other[3] and one[3] > other[1]


def test_what_is_fitted_lies_between_tools_and_labels(opened, corners, size):
    page = opened(corners, viewport=size, reduced_motion="reduce")
    whole = seen(page)(0, 0, SIZE[1], SIZE[0])
    covering = boxes(page, f"#map :is({OVER_THE_MAP})")
    assert len(covering) >= 3 and not any(meet(whole, one) for one in covering)
    assert min(whole) >= -0.5 and whole[2] <= page.locator("#ground").bounding_box()["width"] + 0.5


def test_long_names_of_dates_cover_no_tool_and_no_tool_is_cut(opened, made, size):
    page = opened(made, viewport=size)
    page.locator(".date span").evaluate_all(
        "all => all.forEach((one) => { one.textContent = 'x'.repeat(27); })"
    )
    cut = "all => all.filter((one) => one.scrollWidth > one.clientWidth).length"
    assert page.locator(".tools .group").evaluate_all(cut) == 0
    places = boxes(page, ".date, .tools .group")
    assert not [pair for pair in combinations(places, 2) if meet(*pair)]


def test_a_selected_change_at_the_edge_is_not_covered(opened, corners, size):
    page = opened(corners, viewport=size, reduced_motion="reduce")
    for number, (row, col) in enumerate(product((0, 1), (0, 1))):
        page.keyboard.press("Escape")  # on a phone the card lies over the list
        page.locator("#list button").nth(number).click()
        left, top = (2, 390)[col], (2, 270)[row]
        high, low = free_rows(page)
        box = seen(page)(left, top, left + 26, top + 26)
        assert box[1] >= high and box[3] <= low and box[0] >= 0 and box[2] <= size["width"]
        assert not any(meet(box, one) for one in boxes(page, "#line i, .tools, .date, #card"))
    page.keyboard.press("3")
    assert page.get_by_label("Right words").is_visible() and page.locator("#card").is_visible()
    box = seen(page)(left, top, left + 26, top + 26)
    (card,) = boxes(page, "#card")
    assert not any(meet(one, card) for one in [box, *boxes(page, "#line i")]), "the card has grown"


LABELS = """() => {
  const [drawn, named, texts] = [[], [], []];
  const draw = CanvasRenderingContext2D.prototype.roundRect;
  CanvasRenderingContext2D.prototype.roundRect = function (...box) {
    drawn.push(box.slice(0, 4));
    return draw.apply(this, box);
  };
  const fill = CanvasRenderingContext2D.prototype.fillText;
  CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
    if (/°/.test(text)) named.push([x, y - 12, x + this.measureText(text).width, y]);
    else texts.push(text);
    return fill.call(this, text, x, y);
  };
  Object.assign(window, { drawn, named, texts });
}"""


def labels(page, act):
    """Return the boxes of the labels that the map draws after an action, on the screen."""
    page.evaluate(LABELS)
    act()
    page.wait_for_function("() => drawn.length > 0")
    page.wait_for_timeout(300)
    return [(x, y, x + wide, y + high) for x, y, wide, high in page.evaluate("drawn.splice(0)")]


def test_labels_cover_neither_a_change_nor_a_tool(opened, made, size):
    page = opened(made, viewport=size, reduced_motion="reduce")
    seen(page)
    drawn = labels(page, lambda: page.keyboard.press("f"))
    shown = seen(page)
    changes = [
        shown(*(edge(made, n) for edge in (west, north, east, south))) for n in range(len(squares(8, SIZE)))
    ]
    assert len(drawn) >= 2
    covered = [*changes, *boxes(page, f"#map :is({OVER_THE_MAP}), #line i")]
    assert not [(one, other) for one in drawn for other in covered if meet(one, other)]
    assert not [pair for pair in combinations(drawn, 2) if meet(*pair)]


def test_names_of_degrees_are_neither_cut_nor_covered(opened, archive, size):
    page = opened(archive, viewport=size, reduced_motion="reduce")
    drawn = labels(page, lambda: page.keyboard.press("w"))
    names = page.evaluate("named")
    assert len(drawn) >= 1 and len(names) > 4
    wide = page.locator("#ground").bounding_box()["width"]
    assert all(name[0] >= 0 and name[2] <= wide for name in names)
    assert not [(one, other) for one in names for other in drawn if meet(one, other)]


def test_long_labels_are_cut_where_they_say_so(opened, tmp_path):
    sites = ("x" * 60, "a road of the old town " * 9, "short")
    rows = [pair(3 * n, site=site) for n, site in enumerate(sites)]
    page = opened(made_archive_page(tmp_path, {row: found(row, 1) for row in rows}), reduced_motion="reduce")
    assert len(labels(page, lambda: page.keyboard.press("f"))) == 3
    written = page.evaluate("texts")
    assert "short" in written and "x" * 29 + "…" in written
    assert "a road of the old town a" in written and sum(text.endswith("…") for text in written) == 2


def edges(made, number, axis):
    steps = made.data["report"]["changes"][number]["rings"][0]
    return [sum(steps[axis : end + 1 : 2]) / 8 for end in range(axis, len(steps), 2)]


def west(made, number):
    return min(edges(made, number, 0))


def east(made, number):
    return max(edges(made, number, 0))


def north(made, number):
    return min(edges(made, number, 1))


def south(made, number):
    return max(edges(made, number, 1))


def test_a_verdict_does_not_touch_the_words_of_its_row(opened, corners, size):
    page = opened(corners, viewport=size)
    (mark,) = boxes(page, "#list .mark:not(:empty)")
    words = boxes(page, "#list li:first-child :is(.caption, .said, .facts, .pair, .sign)")
    assert len(words) == 5 and not any(meet(mark, one) for one in words)


def test_facts_of_the_card_can_be_read_whole(opened, made, size):
    page = opened(made, "#change=6", viewport=size)
    cut = "all => all.filter((one) => one.scrollHeight > one.clientHeight + 1).map((one) => one.textContent)"
    assert page.locator("#card :is(dd, .caption)").evaluate_all(cut) == []
    assert "longitude 15.0" in page.locator("#card dl").text_content()


def test_on_paper_the_map_has_numbers_and_nothing_lies_over_it(opened, made, size):
    page = opened(made, "#change=6", viewport=size)
    page.keyboard.press("f")
    seen(page)
    drawn = labels(page, lambda: page.emulate_media(media="print"))
    assert len(drawn) >= len(made.report.changes), "also of the change that is selected"
    assert page.evaluate("document.querySelector('#notes').open"), "warnings are printed"
    (map_,) = boxes(page, "#ground")
    assert not any(meet(map_, one) for one in boxes(page, ".tools, .date, #scale, #legend, #card, #divider"))
    origin = page.locator("#origin").text_content()
    assert page.locator("#origin").is_visible()
    assert all(word in origin for word in ("before.tif", "2016-03-14", "after.tif", "brightness 1.2.3"))
    assert page.pdf()[:5] == b"%PDF-"
    page.emulate_media(media="screen")
    assert not page.evaluate("document.querySelector('#notes').open")

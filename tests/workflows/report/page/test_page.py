"""The text of a page: its policy, its data, and that nothing of a report can be anything but data."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pages import made_page, made_report, square, squares
from shapely.geometry import MultiPolygon, box

from tiling import NoOverlap, Window
from workflows.errors import ReportInvalid
from workflows.printable import printable
from workflows.report.page.content import how_made, placed, rings_of
from workflows.report.page.template import data_text, legible
from workflows.report.report import Report
from workflows.report.scenes import STEPS

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<!-- <script> --> <img src=x onerror=alert(1)>",
    "`${alert(1)}` {{7*7}} %3Cscript%3E &lt;b&gt; &#60;",
    "\"'><svg onload=alert(1)>",
    "line\u2028separator\u2029 and\ttab\r\nnewline \x00\x1b[31m",
    "\u202egnp.exe\u2066 right to left \u200f",
    "[[script]] [[data]] [[policy]]",
    "w" * 10_000,
    "家が建つ 🏠",
]


class Elements(HTMLParser):
    """Collects the elements of a page: name, attributes, and the text of scripts and styles."""

    def __init__(self, text):
        super().__init__()
        self.found, self._inside = [], None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append([tag, dict(attrs), ""])
        self._inside = tag

    def handle_data(self, data):
        if self._inside in ("script", "style"):
            self.found[-1][2] += data

    def handle_endtag(self, tag):
        self._inside = None

    def all(self, tag):
        return [(attributes, text) for name, attributes, text in self.found if name == tag]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    changes = [
        square(n, 20 + 40 * n, 50, 20, caption=text, place=text, came=(text,), alternatives=(text,))
        for n, text in enumerate(HOSTILE, start=1)
    ]
    return made_page(folder, changes, name="<img src=x>`${1}`\u202e.geojson", warnings=HOSTILE)


def test_the_policy_names_the_one_script_and_the_one_style_by_their_hashes(either):
    page = Elements(either.text)
    (policy,) = [one["content"] for one, _ in page.all("meta") if one.get("http-equiv")]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    (style,) = [text for _, text in page.all("style")]
    scripts = page.all("script")
    ((attributes, script),) = [one for one in scripts if "type" not in one[0]]
    assert attributes == {}
    assert {one[0].get("type") for one in scripts} == {None, "application/json"}
    for name, text in (("style-src", style), ("script-src", script)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules.pop(name) == f"'sha256-{digest}'"
    assert rules == {
        "default-src": "'none'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }


def test_a_page_counts_pixels_from_the_corner_of_what_it_shows():
    window, part = Window(100, 40, 300, 200), Window(120, 90, 60, 30)
    assert placed(SimpleNamespace(window=part, reduced=1.25), window, "a", "b")["box"] == [20, 50, 60, 30]
    (ring,) = rings_of(MultiPolygon([box(110, 45, 112, 46)]), window)
    corners = np.cumsum(np.reshape(ring, (-1, 2)), axis=0) / STEPS
    assert {tuple(corner) for corner in corners.tolist()} == {(10, 5), (12, 5), (12, 6), (10, 6)}


def test_nothing_in_a_page_leads_out_of_it(either):
    page = Elements(either.text)
    for _, attributes, _ in page.found:
        assert not {"src", "srcset", "style", "action", "ping", "background"} & set(attributes)
        assert not [name for name in attributes if name.startswith("on")]
        assert attributes.get("href", "#").startswith("#")
    assert {name for name, *_ in page.found}.isdisjoint({"link", "iframe", "object", "embed", "base"})
    code = "".join(text for _, text in (*page.all("style"), page.all("script")[1]))
    assert not re.search(
        r"https?:|//[a-z]|@import|url\(|innerHTML|outerHTML|insertAdjacent|document\.write", code
    )
    assert not re.search(r"\beval\b|new Function|fetch\(|XMLHttpRequest|WebSocket|sendBeacon|import\(", code)


def test_what_a_report_says_is_data_and_stays_readable(hostile):
    page = Elements(hostile.text)
    plain = Elements(re.sub(r'(id="data">).*?(</script>)', r"\1\2", hostile.text, flags=re.S))
    assert [one[:2] for one in page.found] == [one[:2] for one in plain.found], (
        "no element but those of the page"
    )
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e\u2028\u2029\u2066-\u2069\u200f]", hostile.text)
    changes = hostile.data["report"]["changes"]
    assert changes[0]["caption"] == HOSTILE[0] and changes[7]["caption"] == HOSTILE[7]
    assert changes[4]["caption"] == "line\\u2028separator\\u2029 and\\ttab\\r\\nnewline \\x00\\x1b[31m"
    assert changes[8]["came"] == [HOSTILE[8]]
    assert hostile.data["report"]["name"] == "<img src=x>`${1}`\\u202e.geojson"


@given(st.text(st.characters(exclude_categories=()), max_size=200))
def test_any_text_comes_through_as_it_is_shown(text):
    written = data_text(legible({text: [text, {"nested": text}]}))
    assert written.encode() and written.isprintable() and not set(written) & set("<>&")
    assert json.loads(written) == {printable(text): [printable(text), {"nested": printable(text)}]}


def test_outlines_lie_in_the_picture_where_they_lie_in_the_scene(made):
    content = made.data["report"]
    assert (content["width"], content["height"], content["gsd"]) == (420, 300, 0.5)
    wanted = squares(8, (300, 420))
    for change, one in zip(content["changes"], wanted, strict=True):
        (ring,) = change["rings"]
        xs, ys = ring[0::2], ring[1::2]
        corners = [(sum(xs[: i + 1]) / 8, sum(ys[: i + 1]) / 8) for i in range(len(xs))]
        assert len(corners) == 4
        side = max(x for x, _ in corners) - min(x for x, _ in corners)
        assert side == pytest.approx((one.area_m2 / 0.25) ** 0.5, abs=0.3)
        number = change["id"] - 1
        columns = int((8 * 420 / 300) ** 0.5) + 1
        assert min(x for x, _ in corners) == pytest.approx((number % columns + 0.2) * 420 / columns, abs=0.2)
        assert min(y for _, y in corners) == pytest.approx((number // columns + 0.2) * 420 / columns, abs=0.2)


def test_a_report_without_changes_has_a_page(tmp_path):
    content = made_page(tmp_path, []).data
    assert (
        content["report"]["changes"] == [] and content["report"]["summary"]["text"] == "No change was found."
    )
    assert content["imagery"]["whole"]["before"].startswith("data:image/webp;base64,")


def test_scenes_of_another_place_are_refused_and_nothing_is_left(made, tmp_path):
    far = Report([square(1, 5_000, 50, 20)], made.report.run)
    with pytest.raises(NoOverlap):
        far.page(tmp_path / "page.html")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("gsd", [None, "1", 1e-9, 10**400, float("nan")])
def test_a_damaged_resolution_is_refused(made, tmp_path, gsd):
    damaged = made_report(made.pair, [], tiling={"gsd": gsd})
    with pytest.raises(ReportInvalid):
        damaged.page(tmp_path / "page.html")


def test_a_page_tells_how_it_was_made_and_no_folder_of_this_machine(tmp_path):
    made = made_page(tmp_path, squares(2, (300, 420)), warnings=[f"{tmp_path / 'before.tif'}: has no date"])
    assert str(tmp_path) not in made.text
    content = made.data["report"]
    assert content["scenes"]["before"]["name"] == "before.tif"
    assert content["warnings"] == ["before.tif: has no date"]


@pytest.mark.parametrize("odd", [None, [], "x", {"gsd": "1", "threshold": [], "gsd_range": [1, None, "a"]}])
def test_a_damaged_record_tells_less(odd):
    assert dict(how_made({"model": odd, "settings": odd, "tiling": odd})) == {}

"""A report opens in a real QGIS with its colours, labels and map tips, whatever is written in it."""

import base64
import json
import random
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
import rasterio
from archive_rows import change, square_of
from captioners import BrightnessCaptioner
from qgis_runs import QGIS, draw, look, on_ground, run_qgis
from scene_pairs import make_pair

from workflows import Report, SceneOptions, caption_scene
from workflows.report.change import PROPERTIES, VERDICTS
from workflows.report.page.chips import chips_of

pytestmark = QGIS
# Of the style: scales up to which sentences and short labels are shown, and letters of a label.
SENTENCES, SUMMARIES, LONGEST = 12_000, 60_000, 300
CASES = (
    ({"came": ("building", "road"), "gone": ("trees",), "direction": "appeared"}, "appeared"),
    ({"gone": ("road",), "direction": "disappeared", "count": 3}, "disappeared"),
    ({"came": ("grass",), "gone": ("trees",), "direction": "replaced"}, "replaced"),
    ({"came": ("parking lot",), "direction": "appeared", "count": 113, "date_after": None}, "appeared"),
    ({"came": ("building",), "direction": "appeared", "count": 113, "label": "113 houses"}, "appeared"),
    ({}, None),
)
NASTY = (
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "&lt;b&gt; &amp;amp;", "a < b && c > d",
    "[% 1 + 1 %]", "[%eval('1')%]", "%] [% \"score\" %]", '" onload="x', "' || 'x", "`${1+1}`", "@layer_name",
    "{{x}}", "</td></table>", "\x00\x01\x1b[31m", "a\nb\r\nc\td", "\u202eabc\u202c", "\u2028\u2029\ufeff",
    "x" * 10_000, "\\p{C}", "''", "\\", "&#91;", "%s %d", "=1+1", "日本語 ünï", "\U0001f3e0",
)  # fmt: skip


@pytest.fixture(scope="module")
def kinds():
    """A report with a change of each sort."""
    shown = [change(n, 12 + n / 500, **facts) for n, (facts, _) in enumerate(CASES, start=1)]
    return Report(shown, {"tiling": {"crs": "EPSG:32633"}})


@pytest.mark.parametrize("suffix", [".geojson", ".gpkg"])
def test_kind_and_direction_are_told_in_every_format(kinds, tmp_path, suffix):
    path = kinds.write(tmp_path / f"r{suffix}")
    layer = look(f"{path}|layername=changes" if suffix == ".gpkg" else path)
    assert layer["valid"] and layer["style_loaded"], layer["message"]
    assert layer["renderer"] == "categorizedSymbol" and layer["labels"]
    near, far = layer["rules"]
    assert near["scales"] == [1, SENTENCES] and far["scales"] == [SENTENCES, SUMMARIES]
    for rule in (near, far):
        assert rule["is_expression"] and not rule["html"] and not rule["each_part"]
        assert rule["wrapped_after"] > 0 and rule["buffered"]
    assert [said["category"] for said in layer["said"]] == [expected for _, expected in CASES]
    assert [said["labels"][0] for said in layer["said"]] == [one.caption for one in kinds.changes]
    assert [said["labels"][1] for said in layer["said"]] == [*["change"] * 4, "113 houses", "change"]
    names = {name: alias for name, alias in layer["aliases"].items() if name in PROPERTIES}
    assert names.keys() == set(PROPERTIES) and all(names.values())
    assert layer["choices"] == {
        "direction": ["appeared", "disappeared", "replaced", "not stated"],
        "review_status": ["not reviewed", *VERDICTS],
    }
    assert layer["times"] == [True, [*["2020-01-01"] * 3, None, *["2020-01-01"] * 2]]
    rows = dict(Cells.of(layer["said"][0]["tip"]))
    assert rows["dates"] == "2019-08 → 2020" and rows["score"] == "0.75" and rows["area"] == "100 m²"
    assert rows["what"] == "building appeared" and rows["scenes"] == "before.tif → after.tif"
    assert rows["place"] == "–", "what is not known"


def test_labels_lie_beside_small_changes(tmp_path):
    shown = [
        change(n, 12 + n / 1000, geometry=square_of(12 + n / 1000, 41.9, 300), direction="appeared")
        for n in range(3)
    ]
    shown = [replace(one, caption="About 20 houses were built near trees") for one in shown]
    layer, image = draw(Report(shown, {}).write(tmp_path / "r.geojson"), tmp_path / "r.png")
    assert layer["scale"] < SENTENCES
    letters = image.max(2) < 60
    for x, y in layer["points"]:
        assert not letters[int(y) - 8 : int(y) + 8, int(x) - 8 : int(x) + 8].any(), "the change is seen"
    assert letters.sum() > 300, "and labelled"


def test_changes_have_the_colour_of_their_kind_and_one_label(tmp_path):
    # One change of two outlines; the rectangles lie far enough apart for their colours.
    pair = make_pair(tmp_path, [(10, 10, 40, 60, 240), (90, 140, 40, 60, 240)])
    found = caption_scene(pair.before, pair.after, BrightnessCaptioner(), SceneOptions(group_distance=200))
    (only,) = found.changes
    told = Report([type(only)(**{**vars(only), "came": ("road",), "direction": "appeared"})], found.run)
    layer, image = draw(told.write(tmp_path / "r.geojson"), tmp_path / "r.png")
    assert layer["features"] == 1 and layer["scale"] < SENTENCES
    filled = np.abs(image - on_ground("appeared")).max(2) <= 3
    assert filled.mean() > 0.1
    # The letters stand once, beside both outlines, which are the upper left and the lower right one.
    rows, cols = np.nonzero(filled)
    dark = image.max(2) < 90
    assert dark.sum() > 50
    upper, lower = ((rows < 400) & (cols < 500), (rows >= 400) & (cols >= 500))
    assert upper.any() and lower.any()
    corner = (slice(rows[upper].min() + 10, 315), slice(cols[upper].min() + 10, 335))
    other = (slice(485, rows[lower].max() - 10), slice(665, cols[lower].max() - 10))
    assert dark[corner].size > 10_000 and dark[other].size > 10_000
    assert dark[corner].sum() == dark[other].sum() == 0


def test_what_strangers_wrote_stays_text(tmp_path):
    pick = random.Random(4)
    texts = [*NASTY, *("".join(pick.choices(NASTY, k=2)) for _ in range(100))]
    shown = [
        change(n, -179 + n, caption=text, before=text, after="b.tif", place=text, direction=text,
               came=(text,), before_cover=(text,), model=text)
        for n, text in enumerate(texts, start=1)
    ]  # fmt: skip
    layer = look(Report(shown, {}).write(tmp_path / "r.geojson"))
    assert layer["features"] == len(texts)
    for text, said in zip(texts, layer["said"], strict=True):
        assert said["category"] is None
        label = said["labels"][0]
        assert len(label) <= LONGEST and label.isprintable(), json.dumps(label)
        cells = Cells.of(said["tip"])
        assert [name for name, _ in cells][:2] == ["caption", "what"] and len(cells) == 13
        # Nothing is lost but what steers, and nothing is carried out.
        rows = dict(cells)
        assert rows["caption"] == (label or "–")
        assert "[%" not in said["tip"] and rows["what"] == "not stated"
        if text.isprintable() and len(text) < LONGEST / 2:
            assert label == text and rows["scenes"] == f"{text} → b.tif"


def test_a_map_tip_shows_both_dates_of_a_change(tmp_path):
    pair = make_pair(tmp_path, [(30, 40, 40, 50, 240)])
    report = caption_scene(pair.before, pair.after, BrightnessCaptioner())
    chips = chips_of(replace(report, scenes=(pair.before, pair.after)))
    path = report.write(tmp_path / "r.gpkg", chips=chips)
    told = run_qgis("tip", f"{path}|layername=changes", tmp_path / "tip.png")
    assert told["widths"] == [128, 128], "QGIS made pictures of them"
    with rasterio.open(tmp_path / "tip.png") as file:
        shown = np.moveaxis(file.read([1, 2, 3]), 0, -1).astype(int)
    grey = np.abs(shown - 100).max(2) < 20
    bright = np.abs(shown - 240).max(2) < 8
    # The chip before is ground alone, that after has the bright rectangle in it.
    assert grey.sum() > 128 * 128 and bright.sum() > 128 * 128 / 3
    assert "brighter" in told["tip"] or report.changes[0].caption in told["tip"]


@pytest.mark.parametrize("hostile", ['"><script>alert(1)</script>', b'"> onerror=', "[% 1 + 1 %]"])
def test_a_chip_that_is_no_picture_stays_in_its_attribute(kinds, tmp_path, hostile):
    given = hostile if isinstance(hostile, bytes) else hostile.encode()
    path = kinds.write(tmp_path / "r.gpkg", chips={1: (given, given)})
    (tip, *others) = [said["tip"] for said in look(f"{path}|layername=changes")["said"]]
    encoded = base64.b64encode(given).decode()
    image = f'<img src="data:image/jpeg;base64,{encoded}"> '
    assert tip.count(image) == 2 and "alert" not in tip and not any("<img" in other for other in others)
    Cells.of(tip.replace(image, ""))


class Cells(HTMLParser):
    """Reads a map tip; fails on tags and attributes that are not those of its template."""

    def __init__(self):
        super().__init__()
        self.cells, self.tags = [], []

    @classmethod
    def of(cls, tip):
        """Return the name and text of every row, the sentence as ``caption``."""
        reader = cls()
        reader.feed(tip)
        reader.close()
        assert reader.tags == []
        (caption, *cells) = reader.cells
        names, values = cells[::2], cells[1::2]
        return [("caption", caption), *zip(names, values, strict=True)]

    def handle_starttag(self, tag, attrs):
        assert tag in ("div", "p", "b", "table", "tr", "td", "i")
        assert attrs == ([("style", "width:22em")] if tag == "div" else [])
        self.tags.append(tag)
        if tag in ("p", "td"):
            self.cells.append("")

    def handle_endtag(self, tag):
        assert self.tags.pop() == tag

    def handle_data(self, data):
        self.cells[-1] = (self.cells[-1] + data).strip()

    def handle_comment(self, data):
        raise AssertionError(data)

    handle_decl = handle_pi = unknown_decl = handle_comment

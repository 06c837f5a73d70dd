import csv
import io

import numpy as np
import pytest
from PIL import Image, ImageFont

from rscc.data.pairs import PairRecord
from rscc.errors import ConfigInvalid
from rscc.evaluation.drawing import wrapped
from rscc.evaluation.predictions import PairPrediction
from rscc.evaluation.sheet import TABLE_HEAD, Sheet, check_sheet, chosen, outline, table_path

SAID = PairPrediction("two houses are built", True, probability=0.9)


def pairs(changed: int, unchanged: int) -> list:
    """Pairs without files; every second one changed as long as there are both."""
    both = min(changed, unchanged)
    flags = [True, False] * both + [True] * (changed - both) + [False] * (unchanged - both)
    return [
        (PairRecord(str(number), "a", "b", captions=("x",), changed=flag), SAID)
        for number, flag in enumerate(flags)
    ]


def test_every_kth_pair_is_taken_in_order() -> None:
    given = pairs(180, 50)
    shown = chosen(given)
    ids = [record.id for record, _ in shown]
    assert ids == sorted(ids, key=int)
    changed = [record.id for record, _ in given if record.changed]
    assert [record.id for record, _ in shown if record.changed] == changed[::3]
    assert sum(not record.changed for record, _ in shown) == 40
    assert len(shown) == 60 + 40
    assert [len(chosen(pairs(*counts))) for counts in ((5, 3), (0, 3), (0, 0))] == [8, 3, 0]


@pytest.fixture
def sheet(tmp_path) -> Sheet:
    """Twelve pairs: a changed place, its true mask, another one predicted; one has no mask at all."""
    image, mask = tmp_path / "image.png", tmp_path / "mask.png"
    Image.new("RGB", (64, 64), (90, 90, 90)).save(image)
    marked, found = np.zeros((2, 64, 64), bool)
    marked[8:24, 8:24] = found[32:60, 32:60] = True
    Image.fromarray(marked).save(mask)
    captions = ("a house is built", "a house appears", "a house appears")
    drawn = Sheet()
    for number in range(12):
        name, changed = f"pair_{number}.png", bool(number % 2)
        record = PairRecord(
            name, image, image, captions=captions, changed=changed, mask=mask if number else None
        )
        more = (found, 0.75) if number else ()
        drawn.add(record, PairPrediction("a house, and a road", True, *more))
    return drawn


def colours(picture: Image.Image) -> set[tuple[int, int, int]]:
    return {color for _, color in picture.getcolors(1 << 24)}


def test_one_tall_picture_and_the_table_are_made(sheet, tmp_path) -> None:
    files = sheet.files(tmp_path / "out.png", "made up, split val")
    assert list(files) == [tmp_path / "out.png", tmp_path / "out.csv"]
    picture = Image.open(io.BytesIO(files[tmp_path / "out.png"]))
    assert picture.format == "PNG"
    assert picture.height > 12 * 256
    assert {(255, 60, 40), (60, 225, 255)} <= colours(picture), "both outlines are drawn"
    assert not list(tmp_path.glob("out*")), "writing is the caller's"


def test_pages_hold_ten_pairs_each(sheet, tmp_path) -> None:
    files = sheet.files(tmp_path / "sheet-{page}.jpg", "made up")
    assert [path.name for path in files] == ["sheet-1.jpg", "sheet-2.jpg", "sheet.csv"]
    heights = [Image.open(io.BytesIO(content)).height for content in list(files.values())[:2]]
    assert heights[0] > 10 * 256 > heights[1] > 2 * 256


def test_the_table_numbers_the_pairs_and_leaves_the_verdict_open(sheet, tmp_path) -> None:
    text = sheet.files(tmp_path / "sheet-{page}.webp", "made up")[tmp_path / "sheet.csv"].decode()
    lines = list(csv.DictReader(io.StringIO(text)))
    assert tuple(lines[0]) == TABLE_HEAD
    assert [line["number"] for line in lines] == [str(number) for number in range(1, 13)]
    references = "a house is built | a house appears | a house appears"
    second = ["2", "pair_1.png", "1", "1", "0.7500", "a house, and a road", references, ""]
    assert list(lines[1].values()) == second
    assert lines[0]["p_changed"] == ""


def test_an_outline_is_the_edge_and_closes_at_the_border() -> None:
    mask = np.zeros((8, 8), bool)
    mask[0:4, 0:4] = True
    edge = np.asarray(outline(mask, 64))
    assert edge.shape == (64, 64)
    assert edge[0, 16] == edge[16, 0] == edge[16, 31] == edge[31, 16] == 255
    assert edge[16, 16] == edge[40, 40] == edge[16, 40] == 0
    assert not np.asarray(outline(np.zeros((8, 8), bool), 64)).any()


def test_lines_are_broken_at_spaces_to_the_width() -> None:
    text = "some houses are built along the road and many trees are removed"
    lines = wrapped(text, 15, 150)
    assert " ".join(lines) == text
    assert len(lines) > 2
    assert all(ImageFont.load_default(15).getlength(line) <= 150 for line in lines)
    assert wrapped("incomprehensibilities of it", 15, 20)[0] == "incomprehensibilities"


def test_other_formats_are_refused(tmp_path) -> None:
    with pytest.raises(ConfigInvalid, match=r"sheet\.html: sheets are written as \.png"):
        check_sheet(tmp_path / "sheet.html")
    with pytest.raises(ConfigInvalid):
        Sheet().files(tmp_path / "sheet.bmp", "x")


def test_the_table_has_a_name_of_its_own(tmp_path) -> None:
    assert list(Sheet().files(tmp_path / "sheet.png", "x")) == [tmp_path / "sheet.csv"], "without pairs"
    assert table_path(tmp_path / "{page}.png") == tmp_path / "sheet.csv"
    assert table_path(tmp_path / "a_{page}.png") == tmp_path / "a.csv"
    assert table_path(tmp_path / "a.png") == tmp_path / "a.csv"

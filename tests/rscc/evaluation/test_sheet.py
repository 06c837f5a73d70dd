import io

import numpy as np
import pytest
from PIL import Image

from rscc.data.pairs import PairRecord
from rscc.evaluation.picture_sheet import Sheet, chosen
from rscc.evaluation.predictions import PairPrediction

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

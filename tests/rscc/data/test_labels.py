"""Tables of what pairs show: read with their squares, refused with the line that is wrong."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from rscc.data.labels import read_labelled
from rscc.data.pairs import read_pair
from rscc.data.single_dates import read_rows
from rscc.errors import DatasetLayoutInvalid

HEADER = "file,left,top,side,came,gone,named\n"


@pytest.fixture
def folder(tmp_path) -> Path:
    for date, value in (("A", 10), ("B", 200)):
        (tmp_path / date).mkdir()
        pixels = np.zeros((40, 60, 3), np.uint8)
        pixels[8:24, 32:48] = value
        Image.fromarray(pixels).save(tmp_path / date / "a.png")
    return tmp_path


def table(folder: Path, *lines: str, header: str = HEADER) -> Path:
    path = folder / "labels.csv"
    path.write_text(header + "".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def test_classes_and_squares_are_read(folder) -> None:
    table(folder, "a.png,32,8,16,building; parking lot,trees,road", "a.png,,,,,,")
    square, whole = read_labelled(folder)
    (told,) = square.readings
    assert (told.came, told.gone) == ({"building", "parking lot"}, {"trees"})
    assert told.named == {"road", "building", "parking lot", "trees"}, "what came or is gone is named too"
    assert square.record.changed and not whole.record.changed
    sample = read_pair(square.record)
    assert sample.before.shape == sample.after.shape == (3, 16, 16)
    assert (sample.before == 10).all() and (sample.after == 200).all()
    assert read_pair(whole.record).after.shape == (3, 40, 60)


def test_each_row_of_a_pair_is_of_another_reader(folder) -> None:
    table(folder, "a.png,0,0,8,,,", "a.png,8,0,8,road,,", "a.png,0,0,8,building,,")
    first, second = read_labelled(folder)
    assert [one.named for one in first.readings] == [set(), {"building"}]
    assert first.record.changed, "one of two says so"
    assert [one.came for one in second.readings] == [{"road"}]


@pytest.mark.parametrize(
    "line",
    [
        "a.png,,,,huose,,",
        "../a.png,,,,building,,",
        "a.png,0,,16,building,,",
        "a.png,0,0,0,building,,",
        "a.png,-1,0,9,building,,",
    ],
)
def test_a_wrong_line_is_told(folder, line) -> None:
    with pytest.raises(DatasetLayoutInvalid, match=r"labels\.csv, line 2"):
        read_labelled(folder, table(folder, line))


def test_a_table_that_a_spreadsheet_saved_is_read(tmp_path) -> None:
    (tmp_path / "t.csv").write_text("file,gsd_m\na.png,0.5\n", encoding="utf-8-sig")
    assert read_rows(tmp_path / "t.csv") == [{"file": "a.png", "gsd_m": "0.5"}]


def test_a_table_without_a_column_or_none_is_told(folder) -> None:
    with pytest.raises(DatasetLayoutInvalid, match=r"labels\.csv"):
        read_labelled(folder)
    table(folder, "a.png,building", header="file,came\n")
    with pytest.raises(DatasetLayoutInvalid):
        read_labelled(folder)


def test_a_square_outside_of_its_image_is_told(folder) -> None:
    (pair,) = read_labelled(folder, table(folder, "a.png,50,0,16,building,,"))
    with pytest.raises(DatasetLayoutInvalid):
        read_pair(pair.record)

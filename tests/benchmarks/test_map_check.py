"""The check of whole maps, on a made scene whose truth is known."""

from __future__ import annotations

import csv
from pathlib import Path
from types import SimpleNamespace

import map_check
import numpy as np
import pytest
from fakes import BrightnessCaptioner
from false_change_scenes import write_scene
from markdown_tables import cells_of

SIDE = 256
# Two houses that touch and a lone one are found; one is missed, and something appears that is no building.
FOUND = [(30, 30, 24, 20), (40, 50, 4, 6), (30, 56, 24, 20), (180, 30, 20, 20)]
MISSED, OTHER = (100, 200, 20, 20), (200, 200, 24, 24)


@pytest.fixture
def scene(tmp_path) -> Path:
    def painted(*boxes, level):
        image = np.full((3, SIDE, SIDE), 40, np.uint8)
        for row, column, height, width in boxes:
            image[:, row : row + height, column : column + width] = level
        return image

    write_scene(tmp_path / "before.tif", painted(level=40))
    write_scene(tmp_path / "after.tif", painted(*FOUND, OTHER, level=240))
    houses = [box for box in FOUND if box[3] > 6]
    write_scene(tmp_path / "label.tif", painted(*houses, MISSED, level=255) - 40)
    return tmp_path


def test_counts_and_areas_are_held_against_the_mask(scene, monkeypatch, capsys) -> None:
    monkeypatch.setattr(map_check.Captioner, "load", lambda *_, **__: BrightnessCaptioner())
    pictures = scene / "pictures"
    map_check.main(["--scenes", str(scene), "--pictures", str(pictures)])
    changes, (total,) = (cells_of(one)[2:] for one in capsys.readouterr().out.strip().split("\n\n"))
    told = {tuple(row[2:4]): row[6] for row in changes}
    assert told["2", "2"] in ("98", "99", "100", "97")
    assert told["1", "1"] == "100" and told["1", "0"] == "0"
    assert total[1:4] == ["3", "67 (21-94), 2 of 3", "100 (34-100), 2 of 2"]
    assert total[4:6] == ["75 (30-95), 3 of 4", "4 for 4 objects"]
    with (pictures / "changes.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3 and {row["verdict"] for row in rows} == {""}
    assert len(list(pictures.glob("*.png"))) == 3


@pytest.mark.parametrize(
    ("count", "objects", "right"), [(9, 10, True), (8, 10, False), (90, 100, True), (0, 1, True)]
)
def test_a_count_is_right_within_ten_percent_or_one(count, objects, right) -> None:
    change = SimpleNamespace(count=count)
    assert map_check.Checked("scene", change, objects, 0.0, 1.0).count_is_right is right

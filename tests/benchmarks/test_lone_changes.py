"""The count of pairs whose new roads and clearings are found."""

import json

import lone_changes
import numpy as np
import pytest
from levir_cc_fixture import sentences, write_image, write_levir_cc
from lone_captioners import CLEARING_BRIGHTNESS, ROAD_BRIGHTNESS, ClearingCaptioner, RoadCaptioner


@pytest.fixture
def data(tmp_path):
    """Two validation pairs: a new road without a building, and nothing."""
    root = write_levir_cc(tmp_path / "data", train=2, val=2)
    file = root / "LevirCCcaptions.json"
    content = json.loads(file.read_text())
    for number, entry in enumerate(one for one in content["images"] if one["split"] == "val"):
        entry["changeflag"] = int(number == 0)
        said = "a road is built" if number == 0 else "there is no difference"
        entry["sentences"] = sentences((said,) * 3)
        after = np.full((256, 256, 3), 100, np.uint8)
        for date in ("A", "B"):
            if date == "B" and number == 0:
                after[96:112, 16:240] = ROAD_BRIGHTNESS
            write_image(root / "images" / "val" / date / entry["filename"], after)
        write_image(root / "images" / "val" / "label" / entry["filename"], np.zeros((256, 256), np.uint8))
    file.write_text(json.dumps(content))
    return root


def test_pairs_are_counted_by_kind(data, monkeypatch, capsys):
    monkeypatch.setattr(lone_changes.Captioner, "load", lambda *_, **__: RoadCaptioner())
    lone_changes.main(["--data", str(data)])
    nothing, all_of_it = "0 (0-79), 0 of 1", "100 (21-100), 1 of 1"
    assert rows_of(capsys.readouterr().out) == [
        ["clearing", "unchanged", "1", nothing, nothing],
        ["road", "a road came, no building", "1", all_of_it, all_of_it],
        ["road", "unchanged", "1", nothing, nothing],
    ]


def test_pairs_with_masks_are_counted_both_ways(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(lone_changes.Captioner, "load", lambda *_, **__: ClearingCaptioner())
    (tmp_path / "index.csv").write_text("file,dataset,width,height,gsd_m\nx.png,seasons,256,256,0.5\n")
    for folder, brightness in (("A", 100), ("B", CLEARING_BRIGHTNESS)):
        (tmp_path / folder).mkdir()
        write_image(tmp_path / folder / "x.png", np.full((256, 256, 3), brightness, np.uint8))
    (tmp_path / "label").mkdir()
    write_image(tmp_path / "label" / "x.png", np.zeros((256, 256), np.uint8))
    lone_changes.main(["--masks", str(tmp_path), "--collection", "seasons"])
    clearing, road = rows_of(capsys.readouterr().out)
    assert clearing[:3] == ["clearing", "seasons", "2"] and clearing[3].endswith("1 of 2")
    assert road[3].endswith("0 of 2")


def rows_of(printed):
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in printed.splitlines()[2:]]

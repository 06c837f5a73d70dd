"""The count of pairs whose new roads and clearings are found."""

import lone_changes
import numpy as np
import pytest
from benchmark_fixtures import edit_json
from levir_cc_fixture import sentences, write_image, write_levir_cc
from lone_captioners import CLEARING_BRIGHTNESS, ROAD_BRIGHTNESS, ClearingCaptioner, RoadCaptioner
from markdown_tables import cells_of


@pytest.fixture
def data(tmp_path):
    """Two validation pairs: a new road without a building, and nothing."""
    root = write_levir_cc(tmp_path / "data", train=2, val=2)

    def change(content):
        road, nothing = (one for one in content["images"] if one["split"] == "val")
        road |= {"changeflag": 1, "sentences": sentences(("a road is built",) * 3)}
        nothing |= {"changeflag": 0, "sentences": sentences(("there is no difference",) * 3)}

    edit_json(root / "LevirCCcaptions.json", change)
    ground = np.full((256, 256, 3), 100, np.uint8)
    for name in ("val_000000.png", "val_000001.png"):
        for date in ("A", "B"):
            write_image(root / "images" / "val" / date / name, ground)
        write_image(root / "images" / "val" / "label" / name, np.zeros((256, 256), np.uint8))
    ground[96:112, 16:240] = ROAD_BRIGHTNESS
    write_image(root / "images" / "val" / "B" / "val_000000.png", ground)
    return root


def test_pairs_are_counted_by_kind(data, monkeypatch, capsys):
    monkeypatch.setattr(lone_changes.Captioner, "load", lambda *_, **__: RoadCaptioner())
    lone_changes.main(["--data", str(data)])
    nothing, all_of_it = "0 (0-79), 0 of 1", "100 (21-100), 1 of 1"
    assert cells_of(capsys.readouterr().out)[2:] == [
        ["clearing", "unchanged", "1", nothing, nothing],
        ["road", "a road came, no building", "1", all_of_it, all_of_it],
        ["road", "unchanged", "1", nothing, nothing],
    ]


def test_pairs_with_masks_are_counted_both_ways(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(lone_changes.Captioner, "load", lambda *_, **__: ClearingCaptioner())
    (tmp_path / "index.csv").write_text("file,dataset,width,height,gsd_m\nx.png,seasons,256,256,0.5\n")
    for folder, brightness in (("A", 100), ("B", CLEARING_BRIGHTNESS)):
        write_image(tmp_path / folder / "x.png", np.full((256, 256, 3), brightness, np.uint8))
    write_image(tmp_path / "label" / "x.png", np.zeros((256, 256), np.uint8))
    lone_changes.main(["--masks", str(tmp_path), "--collection", "seasons"])
    clearing, road = cells_of(capsys.readouterr().out)[2:]
    assert clearing[:3] == ["clearing", "seasons", "2"] and clearing[3].endswith("1 of 2")
    assert road[3].endswith("0 of 2")

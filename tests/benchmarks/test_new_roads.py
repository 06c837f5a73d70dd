"""The count of pairs whose new roads are found."""

import json

import new_roads
import numpy as np
import pytest
from levir_cc_fixture import sentences, write_image, write_levir_cc
from road_captioner import ROAD_BRIGHTNESS, RoadCaptioner


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
    monkeypatch.setattr(new_roads.Captioner, "load", lambda *_, **__: RoadCaptioner())
    new_roads.main(["--data", str(data)])
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in capsys.readouterr().out.splitlines()[2:]
    ]
    assert rows == [
        ["a road came, no building", "1", "100 (21-100), 1 of 1", "100 (21-100), 1 of 1"],
        ["unchanged", "1", "0 (0-79), 0 of 1", "0 (0-79), 0 of 1"],
    ]

"""What a captioner is asked about: batches of pairs of images, and nothing that looks like them."""

from dataclasses import replace

import numpy as np
import pytest
from saved_models import saved, tiny_facts
from tiny_models import random_arrays

from rscc.captioner import Captioner

pytestmark = pytest.mark.usefixtures("tiny_registered")

PAIR = random_arrays(2, 32, 32)


@pytest.mark.parametrize(
    ("before", "after", "came"),
    [
        (PAIR[0] / 255, PAIR[1] / 255, r"float64 \(2, 3, 32, 32\) and float64"),
        (PAIR[0], PAIR[1].astype(np.uint16), r"uint8 \(2, 3, 32, 32\) and uint16 \(2, 3, 32, 32\)"),
        (PAIR[0][0], PAIR[1][0], r"uint8 \(3, 32, 32\)"),
        (PAIR[0], PAIR[1][:1], r"and uint8 \(1, 3, 32, 32\)"),
        (PAIR[0][:0], PAIR[1][:0], r"\(0, 3, 32, 32\)"),
        (PAIR[0].transpose(0, 2, 3, 1), PAIR[1].transpose(0, 2, 3, 1), r"\(2, 32, 32, 3\)"),
        (PAIR[0].tolist(), PAIR[1], "list and uint8"),
    ],
)
def test_what_is_no_batch_of_pairs_is_refused(before, after, came, tmp_path) -> None:
    captioner = Captioner.load(saved(tmp_path / "model", facts=tiny_facts()).path, device="cpu")
    for way in ("search", "survey", "predict_change", "caption", "describe"):
        with pytest.raises(ValueError):
            getattr(captioner, way)(before, after)


@pytest.fixture
def captioner(tmp_path):
    return Captioner.load(saved(tmp_path / "model").path, device="cpu")


@pytest.mark.parametrize(("height", "width"), [(0, 0), (16, 16), (250, 256), (64, 80)])
def test_sides_are_multiples_of_the_positions_of_the_model(captioner, height, width, monkeypatch) -> None:
    monkeypatch.setattr(captioner, "card", replace(captioner.card, position_size=32))
    pair = np.zeros((2, 1, 3, height, width), np.uint8)
    for ask in (captioner.search, captioner.predict_change, captioner.caption, captioner.describe):
        with pytest.raises(ValueError):
            ask(*pair)
    with pytest.raises(ValueError):
        captioner.explain(*pair[:, 0])

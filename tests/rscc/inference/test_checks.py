"""What a captioner is asked about: batches of pairs of images, and nothing that looks like them."""

import numpy as np
import pytest
from saved_models import saved
from tiny_facts import tiny_facts
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
    for ask in (
        *(captioner.search, captioner.survey, captioner.predict_change),
        *(captioner.caption, captioner.describe),
    ):
        with pytest.raises(ValueError, match=rf"uint8 arrays \(B, 3, H, W\) of one shape.*; got .*{came}"):
            ask(before, after)

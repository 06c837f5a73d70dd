"""A network that answers NaN: the run ends with the tile that it failed on, never with "no change"."""

import numpy as np
import pytest
from captioners import BrightnessCaptioner, captioned
from saved_models import saved, tiny_facts
from scene_pairs import make_pair
from tiny_models import overflowing, tiny_model

from rscc.captioner import Captioner
from rscc.errors import NonFiniteOutput

PLACE = r"before\.tif and .*after\.tif: for the tile at column \d+, row \d+ \(64 x 64 pixels .*; "


class Failing(BrightnessCaptioner):
    """Fails on the pairs of a batch whose first date is bright somewhere, or on all captions and facts."""

    def __init__(self, step):
        super().__init__()
        self.step = step
        self.facts = tiny_facts(None) if step == "survey" else None

    def predict_change(self, before, after):
        broken = np.flatnonzero(after.max((1, 2, 3)) > 230).tolist()
        if self.step == "predict" and broken:
            raise NonFiniteOutput("no numbers", broken)
        return super().predict_change(before, after)

    def caption(self, before, after, **options):
        raise NonFiniteOutput("no numbers", [len(before) - 1])

    def survey(self, before, after):
        if self.step == "survey":
            raise NonFiniteOutput("no numbers", [0, len(before) - 1])
        return self.search(before, after), np.zeros((len(before), 15, 4, 4), np.float16)


@pytest.fixture
def pair(tmp_path):
    return make_pair(tmp_path, [(70, 130, 20, 20, 240), (20, 20, 30, 30, 160)])


@pytest.mark.usefixtures("tiny_registered")
def test_a_network_that_overflows_ends_the_run(pair, tmp_path):
    folder = saved(tmp_path / "model", overflowing(tiny_model(seed=2)))
    with pytest.raises(NonFiniteOutput, match=PLACE) as caught:
        captioned(pair, Captioner.load(folder.path, device="cpu"))
    assert "\n" not in str(caught.value) and caught.value.exit_code == 1


def test_the_tile_that_fails_is_the_one_that_is_named(pair):
    with pytest.raises(NonFiniteOutput, match=PLACE) as caught:
        captioned(pair, Failing("predict"))
    words = str(caught.value).partition("column ")[2]
    column, row = (int("".join(filter(str.isdigit, part))) for part in words.split("(")[0].split(",")[:2])
    assert column < 150 < column + 64 + 20 and row < 90 < row + 64 + 20


@pytest.mark.parametrize("step", ["caption", "survey"])
def test_the_crop_that_has_no_words_is_named(pair, step):
    with pytest.raises(NonFiniteOutput, match=PLACE):
        captioned(pair, Failing(step))

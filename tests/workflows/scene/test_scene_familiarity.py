"""How familiar a scene is: in the record, scores, words and maps; buildings that may be destroyed."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import rasterio
from captioners import BrightnessCaptioner, FactCaptioner, captioned, kept
from scene_pairs import make_pair
from shapely.geometry import MultiPolygon, box

from rscc.facts.answers import ANSWERS
from tiling import Window
from workflows import SceneOptions
from workflows.scene import evidence
from workflows.scene.evidence import familiarities
from workflows.scene.remake import remake

PLACES = [(20, 20, 20, 24, 180), (260, 380, 20, 24, 180)]
GONE, CAME = ANSWERS.index("gone building"), ANSWERS.index("came building")


class Measuring(FactCaptioner):
    """Gives positions left of the middle one logit of familiar ground, and the others another."""

    def __init__(self, left, right, *, gone=False):
        super().__init__(tile_size=512)
        self.card = replace(self.card, facts_sha256="0" * 64)
        self.familiarity, self.logits, self.gone = SimpleNamespace(), (left, right), gone

    def survey(self, before, after):
        found, answers = super().survey(before, after)
        if self.gone:
            answers[:, GONE], answers[:, CAME] = 5.0, -5.0
            answers[:, ANSWERS.index("came road")] = -5.0
        width = answers.shape[-1]
        measure = np.where(np.arange(width) < width // 2, *self.logits)
        channel = np.broadcast_to(measure, (len(answers), 1, *answers.shape[2:]))
        return found, np.concatenate([answers, channel.astype(np.float16)], 1)


@pytest.fixture
def pair(tmp_path):
    return make_pair(tmp_path, PLACES, size=(300, 420))


@pytest.mark.slow
def test_familiar_ground_changes_nothing_and_a_model_without_a_measure_says_null(pair):
    plain, familiar = captioned(pair, FactCaptioner(tile_size=512)), captioned(pair, Measuring(9.0, 9.0))
    assert plain.run["familiarity"] is None and familiar.run["familiarity"] > 0.99
    for one, other in zip(plain.changes, familiar.changes, strict=True):
        assert (one.caption, one.geometry) == (other.caption, other.geometry)
        assert one.familiarity is None and other.familiarity > 0.99
        assert other.score == pytest.approx(one.score, abs=0.001)
    assert "unlike" not in familiar.run["summary"]["text"]


@pytest.mark.slow
def test_unfamiliar_ground_lowers_scores_and_is_said_once(pair):
    known, strange = (captioned(pair, Measuring(logit, logit)) for logit in (9.0, -9.0))
    assert strange.run["familiarity"] < 0.01
    assert strange.run["summary"]["text"].count("unlike") == 1
    for one, other in zip(known.changes, strange.changes, strict=True):
        assert other.score < one.score and other.familiarity < 0.01


@pytest.mark.slow
def test_each_change_is_judged_by_its_own_ground_and_the_scene(pair):
    west, east = captioned(pair, Measuring(2.0, -6.0)).changes
    assert west.familiarity > 0.4 > 0.1 > east.familiarity


@pytest.mark.slow
def test_faint_outlines_are_left_out_on_unfamiliar_ground(tmp_path):
    faint = make_pair(tmp_path, [(20, 20, 20, 24, 160), (260, 380, 20, 24, 220)], size=(300, 420))
    known, strange = (captioned(faint, Measuring(logit, logit)) for logit in (9.0, -9.0))
    assert (len(known.changes), len(strange.changes)) == (2, 1)


@pytest.mark.slow
def test_the_maps_keep_the_measure_also_without_facts(pair, tmp_path):
    report, _ = kept(pair, tmp_path, Measuring(1.0, -1.0))
    again = remake(report, SceneOptions(min_area=25.0))
    assert [c.properties() for c in again.changes] == [c.properties() for c in report.changes]
    assert again.run["familiarity"] == report.run["familiarity"]


class MeasuringDecoder(BrightnessCaptioner):
    """A model without fact heads."""

    familiarity = SimpleNamespace()

    def survey(self, before, after):
        side = self.card.position_size
        shape = (len(before), 1, before.shape[2] // side, before.shape[3] // side)
        return self.search(before, after), np.full(shape, -2.0, np.float16)


def test_a_model_without_facts_measures_too(pair):
    report = captioned(pair, MeasuringDecoder())
    assert report.run["familiarity"] == pytest.approx(0.1192, abs=0.001)
    assert all(change.familiarity == pytest.approx(0.1192, abs=0.001) for change in report.changes)


@pytest.mark.slow
@pytest.mark.parametrize(("is_rough", "logit"), [(False, 9.0), (True, 9.0), (False, -9.0)])
def test_buildings_that_are_gone_were_removed_only_from_clear_and_familiar_ground(tmp_path, is_rough, logit):
    pair = make_pair(tmp_path, [(20, 20, 40, 48, 220)], size=(300, 420))
    _roughen(pair.before, 80, 120)
    if is_rough:
        _roughen(pair.after, 180, 255)
    report = captioned(pair, Measuring(logit, logit, gone=True))
    (change,) = report.changes
    assert change.direction == "disappeared"
    is_doubtful = is_rough or logit < 0
    assert change.may_be_destroyed == is_doubtful
    for text in (change.caption, report.run["summary"]["text"]):
        assert ("removed" in text, "destroyed" in text) == (not is_doubtful, is_doubtful)


def _roughen(path, low, high):
    """Fill the place of the building with noise."""
    with rasterio.open(path, "r+") as file:
        pixels = file.read()
        pixels[:, 20:60, 20:68] = np.random.default_rng(7).integers(low, high, (1, 40, 48))
        file.write(pixels)


def test_a_change_is_as_familiar_as_its_ground_and_the_scene():
    logits = np.full((40, 40), -2.0)
    logits[:, 30:] = np.nan
    logits[:, :10] = 4.0

    def familiarity(window):
        return logits[window.slices(area)]

    area = Window(0, 0, 40, 40)
    maps = SimpleNamespace(area=area, has_familiarity=True, familiarity=familiarity)
    left, nowhere = (MultiPolygon([box(x, 18, x + 1, 20)]) for x in (1, 39))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evidence, "NEAR", 4)
        found = familiarities([left, nowhere], maps)
    assert found == pytest.approx([1 / (1 + np.exp(-2.0)), 0.5])

from __future__ import annotations

import numpy as np
import pytest
from captioners import BrightnessCaptioner, captioned
from scene_pairs import make_pair

from workflows import SceneOptions
from workflows.errors import OptionInvalid
from workflows.scene.network import models

# What is 90 brighter is a change for both models, what is 30 brighter for neither of them.
SPOTS = [(40, 40, 30, 30, 190), (200, 300, 30, 30, 130)]


class Scout(BrightnessCaptioner):
    """Sees changes of brightness as the fake does, but not those of the ground that it is told to miss."""

    def __init__(self, blind=False, **values):
        super().__init__(name=models.SCOUT, **values)
        self.blind = blind

    def search(self, before, after):
        found = super().search(before, after)
        return np.zeros_like(found) if self.blind else found


@pytest.fixture
def pair(tmp_path):
    return make_pair(tmp_path, SPOTS, size=(300, 420))


@pytest.mark.slow
def test_the_model_is_shown_only_what_the_scout_does_not_rule_out(pair, monkeypatch):
    scout, model = Scout(), BrightnessCaptioner()
    monkeypatch.setattr(models, "_load", lambda name, device: scout)
    report = captioned(pair, model, fast=True)
    tiling = report.run["tiling"]
    assert scout.seen == tiling["tiles"]
    assert 0 < model.seen == tiling["tiles"] - tiling["ruled_out"] < tiling["tiles"] / 2
    assert report.run["settings"]["fast"] is True

    plain = BrightnessCaptioner()
    whole = captioned(pair, plain)
    assert (plain.seen, whole.run["tiling"]["ruled_out"]) == (tiling["tiles"], 0)
    assert [change.geometry for change in report.changes] == [change.geometry for change in whole.changes]
    assert len(report.changes) == 1


@pytest.mark.slow
def test_what_the_scout_rules_out_is_not_found(pair, monkeypatch):
    model = BrightnessCaptioner()
    monkeypatch.setattr(models, "_load", lambda name, device: Scout(blind=True))
    report = captioned(pair, model, fast=True)
    assert (report.changes, model.shapes) == ([], [])
    assert report.run["tiling"]["ruled_out"] == report.run["tiling"]["tiles"]


@pytest.mark.parametrize(
    "card",
    [
        {"name": models.SCOUT},
        {"gsd": 10.0},
        {"localiser": "attention"},
        {"tile_size": 48},
    ],
)
def test_a_model_without_a_scout_is_refused(pair, monkeypatch, card):
    monkeypatch.setattr(models, "_load", lambda name, device: Scout(position_size=32))
    with pytest.raises(OptionInvalid) as caught:
        captioned(pair, BrightnessCaptioner(**card), fast=True, force=True)
    assert caught.value.exit_code == 2 and "\n" not in str(caught.value)


@pytest.mark.slow
def test_the_shipped_scout_serves_the_default_model():
    from rscc.captioner import Captioner
    from rscc.devices import fast_int8

    model = Captioner.load("rscc-base", device="cpu", ground=False)
    scout = models.open_scout(model)
    assert scout.int8 == fast_int8(scout.device)
    assert scout is models.open_scout(model), "loaded once for all pairs of an archive"
    assert SceneOptions(fast=True).fast
    before, after = (
        np.random.default_rng(seed).integers(0, 256, (1, 3, 64, 64), np.uint8) for seed in (1, 2)
    )
    assert scout.search(before, after).shape == (1, 64, 64)


@pytest.mark.slow
def test_what_a_low_threshold_asks_for_is_not_ruled_out(pair, monkeypatch):
    search = BrightnessCaptioner.search
    monkeypatch.setattr(BrightnessCaptioner, "search", lambda *given: search(*given) * np.float32(0.07))
    monkeypatch.setattr(models, "_load", lambda name, device: Scout())
    for threshold, count in ((0.05, 1), (0.2, 0)):
        model = BrightnessCaptioner()
        assert len(captioned(pair, model, fast=True, threshold=threshold).changes) == count
        assert (model.seen > 0) == (count > 0), "the model looks at what it is asked for"

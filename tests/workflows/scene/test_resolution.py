"""Scenes that a model does not serve by their resolution."""

from __future__ import annotations

import dataclasses

import pytest
from captioners import BrightnessCaptioner, captioned, card
from scene_pairs import make_pair

from tiling import describe
from workflows.errors import OptionInvalid, TooCoarse
from workflows.scene.pictures.explain import ExplainOptions, explain_pair
from workflows.scene.resolution import (
    check_resolution,
    working_gsd,
)

FINE = card(name="fine")
MEDIUM = card(name="medium", gsd=10.0, gsd_range=(8.0, 100.0))
KNOWN = (FINE, MEDIUM)


@pytest.fixture(scope="module")
def info(tmp_path_factory):
    """The description of a scene at any resolution."""
    pair = make_pair(tmp_path_factory.mktemp("info"), [], size=(64, 64))
    known = describe(pair.before)
    return lambda gsd, path="a.tif": dataclasses.replace(known, path=path, gsd=gsd)


@pytest.fixture
def installed(monkeypatch):
    """Let an installation have other models."""
    target = "workflows.scene.resolution.available_models"
    return lambda cards: monkeypatch.setattr(target, lambda: list(cards))


NO_MODEL = "serves; no model of this installation does; --force"


@pytest.mark.parametrize(
    ("gsds", "known", "words"),
    [
        ((10.0, 0.5), KNOWN, "^a.tif: 10 m .* 2 m up to which fine serves; use --model medium, or --force"),
        ((0.5, 10.0), KNOWN, "^b.tif: 10 m .* 2 m up to which fine serves; use --model medium, or --force"),
        ((10.0, 10.0), (FINE,), NO_MODEL),
        ((5.0, 5.0), (FINE,), NO_MODEL),
        ((120.0, 120.0), KNOWN, NO_MODEL),
        # Between two ranges: the model that reduces it.
        ((5.0, 5.0), KNOWN, "use --model medium, which looks at it at 10 m, or --force"),
        ((2.05, 2.0), (), NO_MODEL),
    ],
)
def test_one_coarse_scene_is_enough_to_refuse_and_the_model_that_serves_is_named(
    info, gsds, known, words, installed
):
    installed(known)
    infos = (info(gsds[0], "a.tif"), info(gsds[1], "b.tif"))
    with pytest.raises(TooCoarse, match=words):
        check_resolution(infos, FINE)
    check_resolution(infos, FINE, force=True)


def test_the_resolution_to_work_at(info):
    assert working_gsd(info(0.3), FINE, None) == 0.5
    assert working_gsd(info(30.0), MEDIUM, None) == 10
    assert working_gsd(info(90.0), MEDIUM, None) is None, "nine times is too much to enlarge"
    assert working_gsd(info(10.0), FINE, None) is None
    assert working_gsd(info(10.0), FINE, 1.0) == 1
    with pytest.raises(OptionInvalid):
        working_gsd(info(10.0), FINE, 0.5)
    with pytest.raises(OptionInvalid):
        working_gsd(info(0.5), FINE, 0.0312)
    assert working_gsd(info(0.5), FINE, 0.0313) == 0.0313


def test_force_works_at_the_scenes_own_resolution_and_warns(tmp_path):
    pair = make_pair(tmp_path, [(40, 40, 30, 30, 240)], gsd=10.0)
    report = captioned(pair, force=True)
    assert report.run["tiling"]["gsd"] == pytest.approx(10, rel=1e-3)
    assert report.run["settings"]["force"] is True
    assert len(report.run["warnings"]) == 2
    assert "before.tif: 10 m per pixel is coarser than the 2 m" in report.run["warnings"][0]
    assert len(report.changes) == 1
    found = explain_pair(pair.before, pair.after, BrightnessCaptioner(), ExplainOptions(force=True))
    assert len(found.crop.warnings) == 2 and "coarser" in found.crop.warnings[0]

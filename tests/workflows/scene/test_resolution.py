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
    resolution_warnings,
    working_gsd,
    working_warning,
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


@pytest.mark.parametrize(
    ("gsds", "model"),
    [((10.0, 0.5), MEDIUM), ((0.5, 10.0), MEDIUM), ((5.0, 5.0), MEDIUM), ((2.03, 2.0), FINE)],
)
def test_what_a_model_serves_and_a_hair_above_it_is_not_coarser(info, gsds, model):
    check_resolution(tuple(map(info, gsds)), model)


@pytest.mark.parametrize(("gsd", "is_told"), [(0.1, False), (5.0, True), (10.0, False)])
def test_a_scene_between_two_models_is_warned_of(info, installed, gsd, is_told):
    installed(KNOWN)
    told = resolution_warnings([info(gsd)], FINE if gsd < 1 else MEDIUM)
    assert len(told) == is_told and all("5 m per pixel" in text and "8 m" in text for text in told)


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
    assert working_gsd(info(0.5), FINE, 0.5 / 16) == 0.5 / 16


@pytest.mark.parametrize(
    ("working", "warned"), [(5.0, True), (0.05, True), (0.5, False), (2.0, False), (0.2, False)]
)
def test_a_resolution_that_the_model_does_not_serve_is_warned_of(info, working, warned):
    warning = working_warning((info(0.5),) * 2, working, card(name="fine", gsd_range=(0.2, 2.0)))
    assert (warning is not None) == warned
    if warned:
        assert warning.startswith(f"gsd is {working:g}: fine serves 0.2 to 2 m per pixel")


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

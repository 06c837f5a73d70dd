"""Indices decide only what is so in the light of both dates, and know water from plants."""

import numpy as np
import pytest

from rscc.facts.land_cover import EXCESS_GREEN, NDVI, NDWI, CoverRules, indices_for

# Reflectances of what is named, in percent.
GROUND = {
    "forest": {"blue": 3, "green": 5, "red": 3, "nir": 32, "swir16": 14, "swir22": 6},
    "pasture": {"blue": 5, "green": 8, "red": 6, "nir": 28, "swir16": 26, "swir22": 14},
    "soil": {"blue": 9, "green": 13, "red": 18, "nir": 24, "swir16": 32, "swir22": 28},
    "water": {"blue": 6, "green": 6, "red": 4, "nir": 2, "swir16": 1, "swir22": 1},
    "char": {"blue": 4, "green": 5, "red": 6, "nir": 8, "swir16": 16, "swir22": 18},
    "roofs": {"blue": 14, "green": 15, "red": 16, "nir": 19, "swir16": 20, "swir22": 18},
}
ALL = tuple(GROUND["forest"])


def bands(*names, of=ALL, gain=1.0):
    return {band: np.array([GROUND[name][band] * gain for name in names], np.float32) for band in of}


def decided(before, after, of=ALL, gain=1.0):
    """Return the answers for ground that changed, in a scene of which most did not."""
    still = ["forest", "soil", "pasture", "water", "roofs"] * 4
    rules = CoverRules.fit(bands(*still, of=of), bands(*still, of=of))
    first, second = bands(before, of=of, gain=gain), bands(after, of=of, gain=gain)
    answers = {
        name: (int(one[0]), int(other[0])) for name, (one, other) in rules.decide(first, second).items()
    }
    return answers, bool(rules.burnt(first, second)[0])


@pytest.mark.parametrize("gain", [0.01, 1.0, 100.0])
def test_reflectances_of_any_scale_are_told_alike(gain):
    answers, burnt = decided("forest", "soil", gain=gain)
    assert answers == {"water": (-1, -1), "vegetation": (1, -1), "dense vegetation": (1, -1)}
    assert not burnt


def test_ground_as_bright_as_land_is_no_water_whatever_a_stretch_made_of_its_ndwi():
    of = ("green", "red", "nir")
    still = bands(*("forest", "pasture", "water", "soil") * 5, of=of)
    rules = CoverRules.fit(still, still)
    for nir, water in ((2, 1), (16, 0)):
        date = {
            name: np.array([value], np.float32) for name, value in (("green", 22), ("red", 24), ("nir", nir))
        }
        assert NDWI.decide(NDWI.of(date))[0] == 1
        assert rules.decide(still, date)["water"][1][0] == water


def test_water_is_told_where_there_is_hardly_any_land_and_each_date_has_its_own_light():
    of = ("green", "red", "nir")
    before, after = (bands(*("water",) * water, *("soil",) * (400 - water), of=of) for water in (400, 300))
    after = {name: 10 * values for name, values in after.items()}
    first, second = CoverRules.fit(before, after).decide(before, after)["water"]
    assert ((first == 1).mean(), (second == 1).mean()) == (1, 0.75)


def test_char_looks_burnt_and_cleared_soil_does_not():
    assert decided("forest", "char")[1] and not decided("forest", "soil")[1]
    assert not decided("char", "char")[1] and not decided("forest", "water")[1]


def test_colours_alone_tell_green_cover_and_no_water():
    of = ("blue", "green", "red")
    assert indices_for(of) == {"green cover": EXCESS_GREEN}
    answers, _ = decided("forest", "soil", of=of)
    assert answers["green cover"][1] == -1
    assert indices_for(("blue", "swir16")) == {}


@pytest.mark.parametrize("moved", [0.1, -0.1])
def test_what_only_one_light_shows_is_undecided(moved):
    assert NDVI.decide(np.array([0.12, 0.28]), 0).tolist() == [-1, 1]
    expected = [0, 1] if moved > 0 else [-1, 0]
    assert NDVI.decide(np.array([0.12, 0.28]), moved).tolist() == expected


def test_a_season_that_greens_the_whole_scene_is_no_growth():
    dull = {"red": np.full(50, 20.0), "nir": np.linspace(24, 26, 50)}  # NDVI about 0.1
    lush = {"red": np.full(50, 20.0), "nir": np.linspace(44, 46, 50)}  # about 0.38
    before, after = CoverRules.fit(dull, lush).decide(dull, lush)["vegetation"]
    assert not ((before == -1) & (after == 1)).any()
    # The same pixels are growth where the rest of the scene stayed as it was.
    rest = {name: np.concatenate([dull[name]] * 3) for name in dull}
    part = {name: np.concatenate([lush[name], dull[name], dull[name]]) for name in dull}
    before, after = CoverRules.fit(rest, part).decide(rest, part)["vegetation"]
    assert ((before == -1) & (after == 1)).sum() == 50


def test_colours_are_compared_in_the_light_of_each_date():
    rng = np.random.default_rng(3)
    scene = {name: rng.uniform(40, 120, 400) for name in ("red", "green", "blue")}
    scene["green"][:40] += 80
    hazy = {name: values * 0.5 + 60 for name, values in scene.items()}
    before, after = CoverRules.fit(scene, hazy).decide(scene, hazy)["green cover"]
    assert (before == 1).sum() > 20 and (before * after >= 0).all()


def test_what_a_dry_season_did_everywhere_is_no_fire():
    names = ["forest", "soil", "pasture"] * 4
    still, dried = bands(*names), bands(*names)
    dried |= {"nir": dried["nir"] * np.float32(0.45), "swir22": dried["swir22"] * np.float32(1.6)}
    rules = CoverRules.fit(still, dried)
    assert rules.moved["burnt"] < -0.4 and not rules.burnt(still, dried).any()
    assert CoverRules.fit(still, still).burnt(still, dried).any(), "where nothing else changed it is one"

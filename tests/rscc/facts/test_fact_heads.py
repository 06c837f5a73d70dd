"""Heads that tell facts: what holds for any weights, and the rules from logits to facts."""

import numpy as np
import pytest
import torch
from saved_models import logits_of, plain_rules, tiny_heads

from rscc.facts.answers import ANSWERS, AROUND, CHANGING, COVERS
from rscc.facts.heads import FactHeads, region_logits
from rscc.facts.rules import COVERED
from rscc.text.change_facts import BUILT


def views():
    """Last maps of both dates, change probability and a region of everything, for two pairs."""
    generator = torch.Generator().manual_seed(0)
    before, after = (torch.randn(2, 12, 4, 6, generator=generator) for _ in range(2))
    change = torch.rand(2, 32, 48, generator=generator)
    return before, after, change, torch.ones_like(change)


def answers(heads: FactHeads, *views: torch.Tensor) -> torch.Tensor:
    """Logits of the region, the last of ``views``, in each pair."""
    *dates_and_change, region = views
    return region_logits(heads.maps(*dates_and_change), region)


@torch.no_grad()
def test_swapped_dates_swap_came_and_gone_exactly() -> None:
    heads, (before, after, change, region) = tiny_heads(), views()
    forth, back = answers(heads, before, after, change, region), answers(heads, after, before, change, region)
    count = len(CHANGING)
    assert forth.shape == (2, len(ANSWERS))
    assert torch.equal(forth[:, :count], back[:, count : 2 * count])
    assert torch.equal(forth[:, count : 2 * count], back[:, :count])
    assert not torch.allclose(forth[:, :count], back[:, :count], atol=1e-3)


@torch.no_grad()
def test_what_stands_beside_a_building_that_went_is_seen_backwards_in_time() -> None:
    """At its own positions alone, and nothing of the ground, which was another before."""
    heads, (before, after, change, _) = tiny_heads(), views()
    came_building, gone_building = (ANSWERS.index(f"{way} building") for way in ("came", "gone"))
    heads.layers[-1].bias[0] -= heads.maps(before, after, change)[:, came_building].median()
    one, other = heads.maps(before, after, change), heads.maps(after, before, change)
    went = (one[:, gone_building] > 0) & (one[:, gone_building] > one[:, came_building])
    came = (one[:, came_building] > 0) & (one[:, came_building] > one[:, gone_building])
    still = ~(went | came)
    assert all(some.any() for some in (went, came, still))
    for name in AROUND:
        here, there = (each[:, ANSWERS.index(f"around {name}")] for each in (one, other))
        if name in BUILT:
            torch.testing.assert_close(here[went | came], there[went | came])
        else:
            assert (here != there).all()
        assert (here != there)[still].all()


@torch.no_grad()
def test_batched_equals_single() -> None:
    heads, parts = tiny_heads(), views()
    whole = answers(heads, *parts)
    for i in range(2):
        torch.testing.assert_close(answers(heads, *(part[i : i + 1] for part in parts))[0], whole[i])


@torch.no_grad()
def test_a_region_is_a_bag_of_the_positions_of_the_maps() -> None:
    heads, (before, after, change, region) = tiny_heads(), views()
    whole, maps = answers(heads, before, after, change, region), heads.maps(before, after, change)
    assert maps.shape == (2, len(ANSWERS), *before.shape[-2:])
    weights = torch.nn.functional.adaptive_avg_pool2d(region, before.shape[-2:])
    bag = (maps.exp() * weights[:, None]).sum((2, 3)) / weights.sum((1, 2))[:, None]
    torch.testing.assert_close(bag.log(), whole, rtol=1e-4, atol=1e-5)


def test_what_there_was_too_little_to_learn_from_is_never_stated() -> None:
    slopes = tuple(0.0 if name == "came road" else 1.0 for name in ANSWERS)
    rules = plain_rules(slopes=slopes, offsets=(9.0,) * len(ANSWERS))
    facts = rules.facts(np.zeros(len(ANSWERS)))
    assert "road" not in facts.came and set(facts.came) == set(CHANGING) - {"road"}


def test_on_a_map_what_changed_takes_more_and_what_stands_around_does_not() -> None:
    just, more = np.log(0.6 / 0.4), np.log(0.71 / 0.29)
    logits = logits_of("around trees", came_road=just, came_building=more, around_grass=just)
    picture, place = plain_rules().facts(logits), plain_rules().on_maps().facts(logits)
    assert set(picture.came) == {"building", "road"} and set(place.came) == {"building"}
    assert list(place.before) == list(picture.before) == ["trees", "grass"]
    assert plain_rules(sure=(0.9,) * len(ANSWERS)).on_maps().sure == (0.9,) * len(ANSWERS)


def test_what_stands_around_a_picture_has_a_calibration_of_its_own() -> None:
    """Covers are weighed against each other there; a map asks for shares, and reads each by itself."""
    weights = np.eye(len(AROUND), len(AROUND) + 1)
    trees, bare, road = (AROUND.index(name) for name in ("trees", "bare ground", "road"))
    weights[trees, [trees, bare, -1]] = 2.0, -2.0, -1.0
    weights[bare, [trees, bare, -1]] = -2.0, 2.0, -1.0
    weights[road, -1] = 0.2
    rules = plain_rules(around=tuple(map(tuple, weights.tolist())))
    logits = logits_of(around_trees=4.0, around_bare_ground=1.0, around_road=-0.1, came_road=-0.1)
    expected = 1 / (1 + np.exp(-(2 * 4.0 - 2 * 1.0 - 1)))
    assert rules.probabilities(logits)["around trees"] == pytest.approx(expected)
    facts, on_map = rules.facts(logits), rules.on_maps().facts(logits)
    assert (set(facts.before), set(facts.beside), set(facts.came)) == ({"trees"}, {"road"}, set())
    assert (set(on_map.before), set(on_map.beside)) == ({"trees", "bare ground"}, set())
    several = np.stack([logits_of("around bare ground"), logits])
    assert (rules.calibrated(several)[1] == rules.calibrated(logits)).all()
    others = [name for name in ANSWERS if name not in ("around trees", "around bare ground", "around road")]
    alone = plain_rules().probabilities(logits)
    assert all(rules.probabilities(logits)[name] == alone[name] for name in others)


def test_covers_have_their_share_of_the_ground_and_trees_are_those_that_are_gone() -> None:
    slopes = tuple(0.0 if name == "around water" else 1.0 for name in ANSWERS)
    positions = np.stack([logits_of("around trees", around_grass=-9.0), logits_of("gone trees")], 1)
    shares = plain_rules(slopes=slopes).covers(positions, np.array([1.0, 3.0]))
    unsure, sure = (1 / (1 + np.exp(-logit)) for logit in (positions[0, 0], positions[:, 1].max()))
    assert list(shares) == list(COVERS) and shares["water"] == 0
    assert shares["trees"] == pytest.approx(0.25 * unsure + 0.75 * sure)
    assert shares["grass"] == pytest.approx(0.75 * unsure, abs=1e-4)
    assert set(plain_rules().covers(positions, np.zeros(2)).values()) == {0.0}


NEW_HOUSE = ("came building", "around trees", "around grass", "around road")
BESIDE_ITSELF = ("came building", "gone parking lot", "around building", "around parking lot", *NEW_HOUSE[1:])
OPEN_GROUND = {"bare ground": 0.9, "trees": 0.4}


@pytest.mark.parametrize(
    ("sure", "covers", "before", "beside"),
    [
        # What stands around was there before or is beside, unless it came or is gone.
        (BESIDE_ITSELF, None, ["trees", "grass"], {"road"}),
        (("came trees", "around trees"), None, [], set()),
        # On a map the ground tells what it was, and trees beside it stand there.
        (NEW_HOUSE, {"trees": COVERED, "grass": 0.4}, ["grass", "trees"], {"road"}),
        (NEW_HOUSE, {"trees": 0.333, "water": 0.5}, ["water"], {"road", "trees"}),
        (("gone trees", "around trees"), {"trees": 0.1}, [], set()),
        (("came trees", "around trees"), {"trees": 0.9}, [], set()),
        # A building that is gone stood on no open ground.
        (("came building",), OPEN_GROUND, ["bare ground", "trees"], set()),
        (("gone building",), OPEN_GROUND, ["trees"], set()),
    ],
)
def test_what_was_there_and_what_stands_beside(sure, covers, before, beside) -> None:
    surest = {"around_grass": 6.0} if "around grass" in sure else {}  # covers have an order of their own
    facts = plain_rules().facts(logits_of(*sure, **surest), covers=covers)
    assert (list(facts.before), set(facts.beside)) == (before, beside)
    changed = {*(f"came {name}" for name in facts.came), *(f"gone {name}" for name in facts.gone)}
    assert changed == {name for name in sure if not name.startswith("around ")}

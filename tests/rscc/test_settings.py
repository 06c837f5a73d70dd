"""Values of settings are checked before anything runs: their items, and what belongs together."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from rscc.config import MOST_TILE, CardConfig, Config, DataConfig, ModelConfig
from rscc.configs import load_config
from rscc.errors import ConfigInvalid
from rscc.settings import build


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("card", "gsd_range", ["a", "b"]),
        ("card", "gsd_range", [True, 2]),
        ("card", "gsd_range", [0.2, math.inf]),
        ("card", "gsd_range", 0.2),
        ("card", "limits", [1]),
        ("data", "trust", ["named", None]),
        ("train", "frozen", [["backbone"]]),
    ],
)
def test_items_of_lists_have_the_type_of_the_field(section, key, value) -> None:
    with pytest.raises(ConfigInvalid):
        build(Config, {section: {key: value}}, "config")


@pytest.mark.parametrize(
    ("card", "data", "match"),
    [
        (
            {"search_size": 128},
            {"size": 256},
            r"card\.search_size is 128; use 0, or data\.size \(256\) to 8192",
        ),
        ({"search_size": MOST_TILE + 16}, {"size": 256}, r"card\.search_size"),
        ({"search_size": -1}, {"size": 256}, r"card\.search_size"),
        ({"gsd_range": (0.2, math.inf)}, {}, r"card\.gsd_range"),
        ({}, {"size": MOST_TILE + 16}, r"data\.size 8208 is above 8192"),
        ({}, {"gsd": math.inf}, r"data\.gsd"),
    ],
)
def test_what_no_finished_model_may_have_is_refused_before_training(card, data, match) -> None:
    with pytest.raises(ConfigInvalid):
        Config(card=CardConfig(**card), data=DataConfig(**data))


def test_tiles_have_whole_positions() -> None:
    for pool, size, searched in ((3, 256, 0), (32, 256, 0), (4, 128, 544)):
        with pytest.raises(ConfigInvalid):
            Config(ModelConfig(pool=pool), data=DataConfig(size=size), card=CardConfig(search_size=searched))
    assert Config(ModelConfig(pool=2), card=CardConfig(search_size=512)).model.position_size == 32


def test_the_protocol_of_a_paper_has_only_its_own_losses():
    ours = load_config("dirl_levir_cc")
    losses = {**ours.loss, "change_mask": 1.0, "changed": 1.0}
    of_paper = replace(ours, loss=losses, train=replace(ours.train, protocol="paper"))
    assert of_paper.loss == {**ours.loss, "change_mask": 0.0, "changed": 0.0} and not of_paper.data.augment

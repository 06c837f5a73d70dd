"""Values of settings are checked before anything runs: their items, and what belongs together."""

from __future__ import annotations

import math

import pytest
from saved_models import edit, saved
from tiny_models import tiny_model

from rscc.config import MOST_TILE, CardConfig, Config, DataConfig, ModelConfig, config_from_dict
from rscc.errors import ConfigInvalid
from rscc.model_folder import open_model_folder


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
    with pytest.raises(ConfigInvalid, match=rf"config\.{section}\.{key}"):
        config_from_dict({section: {key: value}})


def test_a_whole_number_stands_for_a_fraction_in_lists_too() -> None:
    card = config_from_dict({"card": {"gsd_range": [1, 30], "limits": ["none"]}}).card
    assert card.gsd_range == (1.0, 30.0) and all(type(value) is float for value in card.gsd_range)
    assert card.limits == ("none",)


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
    with pytest.raises(ConfigInvalid, match=match):
        Config(card=CardConfig(**card), data=DataConfig(**data))


def test_tiles_have_whole_positions() -> None:
    for pool, size, searched in ((3, 256, 0), (32, 256, 0), (4, 128, 544)):
        with pytest.raises(ConfigInvalid, match=rf"model\.pool {pool} makes positions of {16 * pool} pixels"):
            Config(ModelConfig(pool=pool), data=DataConfig(size=size), card=CardConfig(search_size=searched))
    assert Config(ModelConfig(pool=2), card=CardConfig(search_size=512)).model.position_size == 32


def test_the_size_of_a_position_is_that_of_the_model(tmp_path, tiny_registered) -> None:
    assert saved(tmp_path / "model", tiny_model(pool=2)).card.position_size == 32
    assert '"position_size": 32' in (tmp_path / "model" / "model.json").read_text()
    edit(card__position_size=...)(tmp_path / "model")
    assert open_model_folder(tmp_path / "model").card.position_size == 32


def test_a_search_may_be_as_large_as_the_input_or_larger() -> None:
    for size in (0, 256, 512, MOST_TILE):
        assert Config(card=CardConfig(search_size=size)).card.search_size == size

"""Every stage of the recipe of the shipped models names a config and sources that exist."""

from pathlib import Path

import pytest
from train_shipped import Places, command_line, read_recipe

from rscc.configs import load_config

SHIPPED = read_recipe()


@pytest.mark.parametrize("stage", SHIPPED.stages, ids=lambda stage: stage.label)
def test_every_shipped_stage_has_a_config_and_its_sources(stage, monkeypatch) -> None:
    monkeypatch.setattr(Places, "find_weights", lambda self, entry: Path(entry["file"]))
    words = command_line(SHIPPED, stage, Places(Path("data"), None, Path("out")), "cpu")
    assert words[:2] == ["rscc", stage.command]
    if stage.config is not None:
        assert load_config(stage.config).train.seed == stage.seed

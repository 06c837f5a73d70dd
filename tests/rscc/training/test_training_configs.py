"""Configs of trainings: the shipped ones, and what is refused."""

import json
from dataclasses import asdict

import pytest
from foundation_models import tiny_instructblip
from tiny_models import tiny_backbone, tiny_model

from rscc.config import Config
from rscc.configs import CONFIG_FOLDER, load_config
from rscc.data.benchmarks.registry import DATASETS
from rscc.errors import ConfigInvalid
from rscc.models.papers import MODELS
from rscc.models.shared.captioner import SHARED_TERMS
from rscc.models.shared.losses import check_loss_weights
from rscc.settings import build
from rscc.training.training_loop import build_optimizer, freeze


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(path.stem for path in CONFIG_FOLDER.glob("*.toml")))
def test_every_shipped_config_fits_its_model(name) -> None:
    config = load_config(name)
    assert config == build(Config, json.loads(json.dumps(asdict(config))), "config")
    assert config.data.name in DATASETS
    kind = MODELS[config.model.paper]
    check_loss_weights((*SHARED_TERMS, *kind.auxiliary_terms), config.loss)
    large = config.model.backbone.startswith("instructblip/")
    trunk = tiny_instructblip() if large else tiny_backbone()
    model = kind(config=config.model, backbone=trunk, vocabulary=trunk.vocabulary or tiny_model().vocabulary)
    freeze(model, config.train.frozen)
    build_optimizer(model, config.train)


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"model": {"depth": 3}}, "depth"),
        ({"model": {"width": "wide"}}, "width"),
        ({"model": {"width": True}}, "width"),
        ({"model": {"heads": 0}}, "heads"),
        ({"model": {"head_width": 12}}, "head_width"),
        ({"model": {"dropout": 1.0}}, "dropout"),
        ({"model": 3}, "model"),
        ({"data": {"size": 250}}, "size"),
        ({"data": {"trust": "named"}}, "trust"),
        ({"train": {"optimizer": "sgd"}}, "optimizer"),
        ({"train": {"select": "bleu"}}, "select"),
        ({"train": {"epochs": 0}}, "epochs"),
        ({"train": {"patience": 0}}, "patience"),
        ({"train": {"ema": 1.0}}, "ema"),
        ({"train": {"clip": -1.0}}, "clip"),
        ({"train": {"schedule": "linear"}}, "use cosine or paper"),
        ({"train": {"decay_epochs": 0}}, "decay_epochs"),
        ({"train": {"schedule": "paper", "ema": 0.9}}, r"train\.ema is 0\.9, and train\.schedule 'paper'"),
        ({"train": {"schedule": "paper", "clip": 1.0}}, r"train\.clip is 1\.0"),
        ({"train": {"schedule": "paper", "warmup_steps": 5}}, r"train\.warmup_steps is 5"),
        ({"train": {"learning_rate": -1.0}}, "learning_rate"),
        ({"train": {"clip": float("nan")}}, "clip"),
        ({"train": {"workers": -1}}, "workers"),
        ({"train": {"label_smoothing": 1.0}}, "label_smoothing"),
        ({"train": {"cache_features": True}}, "frozen"),
        ({"card": {"support": -1}}, "support"),
        ({"card": {"support": 21}}, r"card\.support 21 is above 20"),
        ({"loss": {"caption": "much"}}, "caption"),
        ({"loss": {"caption": float("nan")}}, "caption"),
        ({"training": {}}, "training"),
    ],
)
def test_bad_settings_are_refused_by_name(values, word) -> None:
    with pytest.raises(ConfigInvalid, match=word):
        build(Config, values, "config")


def test_config_files(tmp_path) -> None:
    path = tmp_path / "own.toml"
    path.write_text("[train]\nlearning_rate = 1\nfrozen = ['backbone']\n")
    config = load_config(path)
    assert config.train.learning_rate == 1.0
    assert config.train.frozen == ("backbone",)
    text = (CONFIG_FOLDER / "rscc_small.toml").read_text(encoding="utf-8")
    path.write_text(text, encoding="utf-8-sig")
    assert load_config(path) == load_config("rscc_small"), "it may begin with a byte order mark"
    path.write_text("[train\n")
    with pytest.raises(ConfigInvalid, match=r"own\.toml"):
        load_config(path)
    with pytest.raises(ConfigInvalid, match="rdd_levir_cc"):
        load_config(tmp_path / "none.toml")

"""What CHEERS and DAVIR learn of the captions before training."""

import importlib.util
from copy import deepcopy

import numpy as np
import pytest
import torch
from levir_cc_fixture import write_levir_cc
from safetensors.torch import load_file
from tiny_models import (
    ENTITIES,
    TinyTextEncoder,
    random_images,
    tiny_backbone,
    tiny_config,
    tiny_model,
    tiny_vocabulary,
)

from rscc.config import Config, DataConfig, TrainConfig
from rscc.errors import ConfigInvalid
from rscc.model_folder import ModelFolder, load_model
from rscc.models.cheers import Cheers
from rscc.models.shared.entities import EntityCaptioner
from rscc.models.shared.retrieval import OfflineRetriever
from rscc.structures import TrainingMaterial
from rscc.text.parsing import PARSERS
from rscc.training import run as runs
from rscc.training.run import train_model
from rscc.training.start import RunPaths

pytestmark = pytest.mark.skipif(
    not any(importlib.util.find_spec(name) for name in PARSERS), reason="no English parser is installed"
)
SUBJECTS = {"difference", "new road", "roads", "scene", "trees", "villa", "villas"}


def material(channels: int = 12, pairs: int = 24) -> TrainingMaterial:
    sentences = [
        ["two villas are built", "a villa appears"],
        ["the trees are removed", "trees give way to bare land"],
        ["there is no difference", "the scene stays as it is"],
        ["a new road is built", "roads and villas are built"],
    ]
    generator = np.random.default_rng(0)
    return TrainingMaterial(
        captions=[sentences[i % 4] for i in range(pairs)],
        changed=[i % 4 != 2 for i in range(pairs)],
        pooled=generator.normal(size=(pairs, 2, channels)).astype(np.float32),
        seed=7,
    )


def unprepared(encoder=None, paper="cheers", **options) -> EntityCaptioner:
    return tiny_model(paper, text_encoder=encoder, options={"entity_names": [], **options})


@pytest.mark.parametrize("paper", ["cheers", "davir"])
def test_the_most_frequent_are_candidates_and_all_of_them_where_nothing_limits_them(paper) -> None:
    every = material()
    every.captions[0] = [*every.captions[0], "a lake is dug"]
    stored = []
    for most, least in ((3, 2), (1000, 2), (1000, 1)):
        model = unprepared(TinyTextEncoder(), paper, most_entities=most, least_count=least)
        model.prepare(every)
        stored.append(set(model.options.entity_names))
    assert len(stored[0]) == 3
    assert stored[0] < stored[1] < stored[2]
    assert stored[2] - stored[1] == {"lake"}


@pytest.mark.parametrize(
    ("paper", "names"),
    [
        ("cheers", SUBJECTS),
        ("davir", {*SUBJECTS, "way", "bare land"}),  # of "trees give way to bare land"
    ],
)
def test_preparing_collects_what_captions_name_and_fits_the_retriever(paper, names) -> None:
    encoder = TinyTextEncoder()
    model = unprepared(encoder, paper, least_count=6)
    with pytest.raises(ConfigInvalid, match="no entities"):
        model.encode(*random_images(1))
    model.prepare(material())
    assert set(model.options.entity_names) == names
    # Of 24 pairs, 6 have each caption: trees and villas are named in two of them.
    assert model.options.entity_names[:2] == ("trees", "villas")
    assert model.config.options["entity_names"] == list(model.options.entity_names)
    expected = torch.nn.functional.normalize(encoder.encode(model.retriever.names), dim=-1)
    torch.testing.assert_close(model.retriever.entity_features, expected)
    assert float(model.retriever.map.abs().sum()) > 0
    assert not any("text" in name or "table" in name for name in model.state_dict()), "no text encoder"
    state = {name: value.clone() for name, value in model.state_dict().items() if "retriever" in name}
    second = unprepared(TinyTextEncoder(), paper, least_count=6)
    second._text_encoder[0].load_state_dict(encoder.state_dict())
    second.prepare(material())
    assert all(torch.equal(second.state_dict()[name], value) for name, value in state.items())
    with torch.no_grad():
        (entities, _) = model.entities(model.encode(*random_images(2)))
    assert len(entities) == model.options.entities and set(entities) <= names


def test_a_prepared_model_is_rebuilt_from_its_config_and_state() -> None:
    model = unprepared(TinyTextEncoder(), entity_width=9, phrases="noun_phrases")
    model.prepare(material())
    assert model.options.entity_width == TinyTextEncoder.width
    other = Cheers(config=model.config, backbone=tiny_backbone(), vocabulary=tiny_vocabulary()).eval()
    other.load_state_dict(model.state_dict())
    images = random_images(3)
    with torch.no_grad():
        one, two = model.encode(*images), other.encode(*images)
    assert model.entities(one) == other.entities(two)
    assert "bare land" in other.retriever.names, "a noun phrase that is no subject"
    torch.testing.assert_close(one.tokens, two.tokens)


def test_a_loaded_model_can_be_prepared_for_other_captions() -> None:
    model = tiny_model("cheers", text_encoder=TinyTextEncoder())
    projection = model.entity_projection.weight.clone()
    model.prepare(material())
    assert "scene" in model.retriever.names
    assert "houses" in ENTITIES and "houses" not in model.retriever.names, "the entities are the new ones"
    assert model.retriever.entity_features.shape[0] == len(model.options.entity_names)
    assert torch.equal(model.entity_projection.weight, projection), "the space of the words is the same"


def test_each_pair_is_told_what_its_own_captions_name(monkeypatch) -> None:
    seen = {}
    fit = OfflineRetriever.fit

    def spy(given, **settings):
        seen.update(settings)
        return fit(given, **settings)

    monkeypatch.setattr(OfflineRetriever, "fit", spy)
    given = material(pairs=8)
    given.captions[1] = ["trees give way to bare land"]  # captions differ in number
    model = unprepared(TinyTextEncoder(), least_count=1)
    model.prepare(given)
    named = [{name for name, one in zip(seen["names"], row, strict=True) if one} for row in seen["named"]]
    pairs = [{"villas", "villa"}, {"trees"}, {"difference", "scene"}, {"new road", "roads", "villas"}]
    assert named == [*pairs, *pairs]


@pytest.mark.slow
@pytest.mark.parametrize("cache", [False, True])
def test_a_run_that_is_stopped_and_resumed_is_prepared_the_same(
    tiny_registered, tmp_path, monkeypatch, cache
) -> None:
    pytest.importorskip("pycocoevalcap")
    encoder = TinyTextEncoder()
    monkeypatch.setattr(runs, "load_text_encoder", lambda name: deepcopy(encoder))
    data = write_levir_cc(tmp_path / "data", train=6, val=2, test=1)
    options = {"entity_names": [], "least_count": 1, "entities": 2}
    config = Config(
        model=tiny_config("cheers", max_words=12, dropout=0.2, options=options),
        data=DataConfig(size=64, min_count=1, augment=False),
        train=TrainConfig(epochs=2, batch_size=3, bf16=False, cache_features=cache, frozen=("backbone",)),
        loss={"caption": 1.0, "consistency": 0.5, "contrast": 0.5, "changed": 0.5, "change_mask": 0.0},
    )

    def train(folder: str, *, resume: bool = False, stop: str = "never") -> ModelFolder:
        def report(line: str) -> None:
            if line.startswith(stop):
                raise InterruptedError

        torch.manual_seed(len(folder))
        paths = RunPaths(data=data, output=tmp_path / folder)
        return train_model(config, paths, name="x", command="x", resume=resume, report=report)

    whole = train("whole")
    with pytest.raises(InterruptedError):
        train("part", stop="epoch 2")
    part = train("part", resume=True)
    assert len(whole.config.options["entity_names"]) > 2
    assert whole.config == part.config
    one, two = (load_file(folder.path / "model.safetensors") for folder in (whole, part))
    assert [name for name in one if not torch.equal(one[name], two[name])] == []
    assert float(one["retriever.map"].abs().sum()) > 0
    model = load_model(part)
    assert isinstance(model, Cheers)
    names = model.entities(model.encode(*random_images(1)))
    assert set(names[0]) <= set(part.config.options["entity_names"])


@pytest.mark.parametrize(("paper", "found"), [("cheers", "2 entities"), ("davir", "0 noun phrases")])
def test_what_cannot_be_prepared_is_said(paper, found) -> None:
    with pytest.raises(ConfigInvalid, match="text encoder"):
        unprepared(None, paper).prepare(material())
    least = 12 if paper == "cheers" else 13
    with pytest.raises(ConfigInvalid, match=f"only {found}"):
        unprepared(TinyTextEncoder(), paper, least_count=least).prepare(material())


def test_the_baseline_needs_no_preparation() -> None:
    model = unprepared(commonality=False, difference=False, gate=False)
    model.prepare(material())
    assert model.encode(*random_images(1)).chosen is None
    # The text encoder is asked for whatever the options say.
    assert Cheers.needs_text_encoder({"caption": 1.0, "consistency": 0, "contrast": 0})

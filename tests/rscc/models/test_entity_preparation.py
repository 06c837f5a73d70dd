"""What CHEERS and DAVIR learn of the captions before training."""

import importlib.util

import numpy as np
import pytest
import torch
from tiny_models import TinyTextEncoder, random_images, tiny_model

from rscc.errors import ConfigInvalid
from rscc.models.shared.entities import EntityCaptioner
from rscc.models.shared.retrieval import OfflineRetriever
from rscc.structures import TrainingMaterial
from rscc.text.parsing import PARSERS

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
@pytest.mark.slow
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
    with pytest.raises(ConfigInvalid):
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

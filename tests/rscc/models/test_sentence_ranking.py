"""The caption that what else might be said backs."""

import pytest
import torch
from tiny_models import random_images, tiny_model

from rscc.models.papers import MODELS
from rscc.models.shared.generation import SUPPORT, supported_order

EXTRACTED = torch.linspace(0, 1, 48).view(3, 4, 4)


def test_support_is_likelihood_less_what_few_sentences_name() -> None:
    """By hand: the car is named by one sentence of four, the lake by two, the house by all."""
    sentences = ["a house and a car", "a house by a lake", "a house", "a house and a lake"]
    likely = [-0.1, -0.2, -0.4, -0.3]
    values = [-0.1 - SUPPORT * 3 / 4, -0.2 - SUPPORT / 2, -0.4, -0.3 - SUPPORT / 2]
    assert supported_order(sentences, likely) == sorted(range(4), key=lambda place: -values[place])
    assert supported_order(sentences, likely)[0] == 2
    # Far likelier is better than backed.
    assert supported_order(sentences, [0.0, -2.0, -2.0, -2.0])[0] == 0


@pytest.mark.parametrize("paper", MODELS)
def test_every_model_can_choose_by_support(paper) -> None:
    model = tiny_model(paper, max_words=6)
    features = model.encode(*random_images(3), extracted=EXTRACTED)
    wide = model.generate_from(features, beams=7)
    assert all(found == sorted(found, key=lambda one: -one.mean_log_probability) for found in wide)
    chosen = model.generate_from(features, beams=3, support=7)
    for found, supported in zip(wide, chosen, strict=True):
        texts = [model.vocabulary.decode(one.ids) for one in found]
        order = supported_order(texts, [one.mean_log_probability for one in found])
        assert supported == [found[place] for place in order[:3]]
    # What is avoided comes last.
    unwanted = chosen[0][0].ids[0]
    for support in (0, 7):
        for found in model.generate_from(features, beams=3, support=support, avoided=[unwanted]):
            has = [unwanted in one.ids for one in found]
            assert has == sorted(has)
    greedy = model.generate_from(features, beams=1)
    assert model.generate_from(features, beams=1, support=7) == greedy

"""Maps by the captioners' own means against loops over words and places; and what cards say of them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from saved_models import saved
from scene_pairs import make_pair
from tiny_models import random_images, tiny_model

from rscc.captioner import Captioner
from rscc.model_card import LOCALISATIONS
from rscc.models.localisers import Localiser, attention_map
from rscc.models.papers import MODELS
from rscc.models.shared.generation import ForbiddenWords
from rscc.structures import DifferenceFeatures
from workflows import caption_scene

pytestmark = pytest.mark.usefixtures("tiny_registered")


def encoded(model, height=64, width=48) -> DifferenceFeatures:
    with torch.no_grad():
        return model.encode(*random_images(3, height, width), head=False)


def with_flags(features, *logits) -> DifferenceFeatures:
    features.changed_logits = torch.tensor(logits)
    return features


def slow_shares(rows: list[list[float]]) -> list[float]:
    """Attention of every word on every place to a map, literally."""
    places = len(rows[0])
    mass = [sum(row[place] for row in rows) for place in range(places)]
    above = [max(0.0, one / (sum(mass) / places) - 1) for one in mass]
    return [one / max(1.0, *above) for one in above]


# Attention


@pytest.mark.parametrize("paper", MODELS)
@torch.no_grad()
def test_attention_of_all_words_in_shares_of_an_even_spread(paper) -> None:
    """Sentences of several lengths in one batch, each compared with its own words decoded alone."""
    model = tiny_model(paper, seed=4)
    features = encoded(model)
    sentences = [(5, 9, 12), (7,), (6, 6, 11, 13, 4)]
    found = attention_map(model, features, sentences)
    assert found.shape == (3, 4, 3)
    for sample, ids in enumerate(sentences):
        rows = []
        for step in range(len(ids)):
            tokens = torch.tensor([[model.vocabulary.bos, *ids[:step]]] * 3)  # what is read to give this word
            last = model.decoder.attention(model.memory(features), tokens)[:, -1:]
            rows.append(model.on_ground(features, last)[sample, 0].tolist())
        expected = slow_shares(rows)
        np.testing.assert_allclose(found[sample].flatten().numpy(), expected, atol=1e-4)
        assert 0 < max(expected) <= 1


@torch.no_grad()
def test_attention_counts_by_the_probability_of_change_and_is_silent_below_the_threshold() -> None:
    model = tiny_model(seed=4)
    features = with_flags(encoded(model), 3.0, 0.0, -1.0)
    sentences = [one[0].ids for one in model.generate_from(features)]
    plain = attention_map(model, features, sentences)
    found = Localiser("attention", 0.5).maps(model, features, (4, 3))
    for sample, logit in enumerate((3.0, 0.0)):  # the second at the threshold itself
        weight = 1 / (1 + np.exp(-logit))
        np.testing.assert_allclose(found[sample].numpy(), plain[sample].numpy() * weight, atol=1e-5)
    assert plain[2].max() > 0
    assert float(found[2].max()) == 0
    assert Localiser("attention", 0.5).maps(model, features, (64, 48)).shape == (3, 64, 48)


@pytest.mark.slow
@torch.no_grad()
def test_where_change_was_not_learnt_the_words_say_whether(monkeypatch) -> None:
    """With a threshold of 0 P(changed) means nothing: the captions "no ..." silence, others count in full."""
    model = tiny_model(seed=4)
    no = model.vocabulary.encode("no", 3)[1]
    features = with_flags(encoded(model), -9.0, -9.0, -9.0)
    rules = replace(model.search_rules(), forbidden=ForbiddenWords([(no,)]))
    plain = attention_map(model, features, [one[0].ids for one in model.generate_from(features)])
    found = Localiser("attention", 0.0, rules).maps(model, features, (4, 3))
    torch.testing.assert_close(found, plain)
    assert plain.max() > 0
    said = iter(("there is no difference", "a house", "a house"))
    monkeypatch.setattr(type(model.vocabulary), "decode", lambda self, ids: next(said))
    found = Localiser("attention", 0.0, rules).maps(model, features, (4, 3))
    assert float(found[0].max()) == 0
    torch.testing.assert_close(found[1:], plain[1:])


# Difference


@torch.no_grad()
def test_extracted_changes_are_smoothed_also_over_the_edge_of_a_tile_and_silenced() -> None:
    model, asked = tiny_model(), []
    features = with_flags(encoded(model, height=32, width=48), 2.0, -2.0, 0.1)
    mask = np.ones((32, 48), dtype=bool)
    mask[10:20, 20:40] = False

    def extract(before: np.ndarray, after: np.ndarray) -> np.ndarray:
        assert before.dtype == after.dtype == np.uint8
        assert before.shape == after.shape == (3, 32, 48)
        asked.append((before, after))
        return mask

    model.extractor = extract
    found = Localiser("difference", 0.5).maps(model, features, (32, 48)).numpy()
    assert found.shape == (3, 32, 48)
    assert len(asked) == 2, "the second pair is unchanged"
    images = features.pair.images
    np.testing.assert_array_equal(asked[1][0], images[0][2].numpy())
    np.testing.assert_array_equal(asked[1][1], images[1][2].numpy())
    assert found[1].max() == 0
    for row in range(32):
        for column in range(48):
            around = mask[max(0, row - 4) : row + 5, max(0, column - 4) : column + 5]
            assert found[0, row, column] == pytest.approx(around.mean(), abs=1e-6)
    np.testing.assert_array_equal(found[0] >= 0.5, found[2] >= 0.5)


# Captioners


@pytest.mark.slow
@pytest.mark.parametrize(
    ("paper", "localiser"), [*((paper, "attention") for paper in MODELS), ("davir", "difference")]
)
def test_every_model_writes_a_report_of_a_scene_by_its_own_means(tmp_path, paper, localiser) -> None:
    pair = make_pair(tmp_path, [(60, 20, 20, 20, 240), (100, 120, 40, 25, 10)])
    named = {"localiser": localiser, "localisation": LOCALISATIONS[localiser]}
    folder = saved(tmp_path / "m", tiny_model(paper, seed=2), prefixes=[["a"]], threshold=0.3, **named)
    captioner = Captioner.load(folder.path, device="cpu")
    with torch.no_grad():
        captioner._model.changed_head.net[-1].bias.fill_(100)
    report = caption_scene(pair.before, pair.after, captioner)
    assert report.run["model"]["localiser"] == localiser
    assert report.changes
    assert all(change.caption for change in report.changes)
    with torch.no_grad():
        captioner._model.changed_head.net[-1].bias.fill_(-100)
    assert caption_scene(pair.before, pair.after, captioner).changes == []

"""The caption that what else might be said agrees with, or backs."""

import pytest
import torch
from saved_models import edit, saved
from tiny_models import random_arrays, random_images, tiny_model

from rscc.captioner import Captioner
from rscc.config import Choice
from rscc.errors import ModelFolderInvalid
from rscc.model_folder import open_model_folder
from rscc.models import MODELS
from rscc.models.shared.generation import stratified_search
from rscc.text.consensus import PENALTY, SUPPORT, consensus_order, supported_order
from rscc.text.rewards import CiderD

EXTRACTED = torch.linspace(0, 1, 48).view(3, 4, 4)


def test_the_sentence_like_most_draws_wins_whatever_its_place() -> None:
    draws = ["a house is built", "a house is built", "a new house is built", "the road turns"]
    candidates = ["the road turns", "a house is built", "something else altogether"]
    assert consensus_order(candidates, draws) == [1, 0, 2]
    assert consensus_order(candidates[::-1], draws) == [1, 2, 0]


def test_values_are_similarity_less_what_no_draw_supports() -> None:
    """By hand: the pool stands in one draw of four, the house in all."""
    draws = ["a house and a pool", "a house appears", "a villa appears", "one house appears"]
    candidates = ["a house and a pool", "a house appears"]
    similarity = CiderD(None).score(candidates, draws)
    values = [similarity[0] - PENALTY * 3 / 4, similarity[1]]
    assert consensus_order(candidates, draws) == sorted(range(2), key=lambda place: -values[place])
    # A word may name one of several classes: one of them is enough.
    assert consensus_order(["plants appear"], ["trees appear"]) == [0]


def test_an_object_that_hardly_any_draw_names_loses_to_one_that_all_name() -> None:
    """Both differ from the draws in one word of the same place; only one names a thing that none has."""
    draws = ["a house is built in the wood"] * 4
    strange, fair = "a house is built in the lake", "a house is built in the forest"
    assert CiderD(None).score([strange, fair], draws)[0] == CiderD(None).score([strange, fair], draws)[1]
    assert consensus_order([strange, fair], draws) == [1, 0]


def test_equal_values_keep_their_order() -> None:
    assert consensus_order(["a house", "a house", "a house"], ["a house"]) == [0, 1, 2]


def test_support_is_likelihood_less_what_few_sentences_name() -> None:
    """By hand: the car is named by one sentence of four, the lake by two, the house by all."""
    sentences = ["a house and a car", "a house by a lake", "a house", "a house and a lake"]
    likely = [-0.1, -0.2, -0.4, -0.3]
    values = [-0.1 - SUPPORT * 3 / 4, -0.2 - SUPPORT / 2, -0.4, -0.3 - SUPPORT / 2]
    assert supported_order(sentences, likely) == sorted(range(4), key=lambda place: -values[place])
    assert supported_order(sentences, likely)[0] == 2
    # Far likelier is better than backed.
    assert supported_order(sentences, [0.0, -2.0, -2.0, -2.0])[0] == 0


def test_a_sentence_without_an_object_is_backed_by_nothing() -> None:
    assert supported_order(["the left is removed", "a house is removed"], [-0.1, -0.2]) == [1, 0]
    assert supported_order(["it changed", "it is new"], [-0.2, -0.1]) == [1, 0]


def test_all_ngrams_weigh_the_same_without_documents() -> None:
    """The cosines of lengths 1 to 4 of "a b c" and "a b d": 2/3, 1/2, 0, 0."""
    assert CiderD(None).score(["a b c"], ["a b d"]) == pytest.approx([10 * (2 / 3 + 1 / 2) / 4])


@pytest.mark.parametrize("paper", MODELS)
def test_every_model_can_choose_by_agreement(paper) -> None:
    model = tiny_model(paper, max_words=6)
    features = model.encode(*random_images(3), extracted=EXTRACTED)
    plain, agreed = (model.generate_from(features, beams=3, choice=Choice(draws=draws)) for draws in (0, 40))
    drawn = stratified_search(model.decoder, model.memory(features), model.search_rules(), samples=40)
    for beams, draws, found in zip(plain, drawn, agreed, strict=True):
        candidates = list({one.ids: one for one in (*beams, *draws)}.values())
        texts = [[model.vocabulary.decode(one.ids) for one in some] for some in (candidates, draws)]
        assert found == [candidates[place] for place in consensus_order(*texts)[:3]]
    assert [one[0].ids for one in plain] != [one[0].ids for one in agreed]
    # What is avoided comes last.
    unwanted = agreed[0][0].ids[0]
    for draws in (0, 40):
        for found in model.generate_from(features, beams=3, choice=Choice(draws=draws), avoided=[unwanted]):
            has = [unwanted in one.ids for one in found]
            assert has == sorted(has)
    greedy = model.generate_from(features, beams=1)
    assert model.generate_from(features, beams=1, choice=Choice(draws=40)) == greedy


@pytest.mark.parametrize("paper", MODELS)
def test_every_model_can_choose_by_support(paper) -> None:
    model = tiny_model(paper, max_words=6)
    features = model.encode(*random_images(3), extracted=EXTRACTED)
    wide = model.generate_from(features, beams=7)
    chosen = model.generate_from(features, beams=3, choice=Choice(support=7))
    for found, supported in zip(wide, chosen, strict=True):
        texts = [model.vocabulary.decode(one.ids) for one in found]
        order = supported_order(texts, [one.mean_log_probability for one in found])
        assert supported == [found[place] for place in order[:3]]
    greedy = model.generate_from(features, beams=1)
    assert model.generate_from(features, beams=1, choice=Choice(support=7)) == greedy


def test_the_card_says_whether_the_captioner_does(tiny_registered, tmp_path) -> None:
    texts = []
    for way in ({}, {"draws": 40}, {"support": 12}):
        folder = saved(tmp_path / f"m{''.join(way)}", prefixes=[["a"]], **way)
        captioner = Captioner.load(folder.path, device="cpu")
        captioner.bf16 = False
        captions = captioner.caption(*random_arrays(4), assume_changed=True)
        texts.append([one.text for one in captions])
        assert all(len(one.alternatives) <= 2 for one in captions)
    assert texts[0] not in texts[1:]


@pytest.mark.parametrize("values", [{"support": 21}, {"draws": -1}, {"draws": 8, "support": 8}])
def test_a_folder_with_an_impossible_choice_is_refused(tmp_path, values) -> None:
    folder = saved(tmp_path / "m")
    edit(**{f"card__{name}": value for name, value in values.items()})(folder.path)
    with pytest.raises(ModelFolderInvalid, match=r"model\.json: .*card\.(support|draws)"):
        open_model_folder(folder.path)

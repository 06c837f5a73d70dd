"""How every paper's decoder searches for captions."""

from dataclasses import replace

import pytest
import torch
from tiny_models import check_steps, random_images, teacher_forced_mean, tiny_model

from rscc.models.papers import MODELS
from rscc.models.shared.generation import ForbiddenWords, beam_search, greedy_search

papers = pytest.mark.parametrize("paper", MODELS)


def memory_of(model, batch) -> torch.Tensor:
    with torch.no_grad():
        return model.memory(model.encode(*random_images(batch)))


@papers
def test_steps_equal_teacher_forcing_also_of_selected_rows(paper) -> None:
    """The key-value cache changes nothing, up to the longest sentence that training sees."""
    model = tiny_model(paper, max_words=12)
    tokens = torch.randint(4, len(model.vocabulary), (3, 12), generator=torch.Generator().manual_seed(0))
    check_steps(model.decoder, memory_of(model, batch=3), tokens, rows=torch.tensor([2, 0, 0]))


@papers
def test_greedy_equals_a_beam_of_one(paper) -> None:
    for seed in range(3):
        model = tiny_model(paper, seed=seed)
        memory, rules = memory_of(model, batch=6), replace(model.search_rules(), max_words=9)
        with torch.no_grad():
            greedy = greedy_search(model.decoder, memory, rules)
            beam = beam_search(model.decoder, memory, rules, beams=1)
        assert [h.ids for h in greedy] == [found[0].ids for found in beam]
        scores = [found[0].mean_log_probability for found in beam]
        assert scores == pytest.approx([h.mean_log_probability for h in greedy], abs=1e-5)


@papers
@pytest.mark.parametrize("beams", [2, 5])
def test_beam_scores_are_sorted_and_those_of_teacher_forcing(paper, beams) -> None:
    lengths = set()
    for seed in range(4):
        model = tiny_model(paper, seed=seed)
        memory = memory_of(model, batch=4)
        with torch.no_grad():
            model.decoder.logits.bias[model.vocabulary.eos] += 3 * (seed % 2)  # short ones, too
            rules = replace(model.search_rules(), max_words=9)
            found = beam_search(model.decoder, memory, rules, beams=beams)
            for sample, hypotheses in enumerate(found):
                assert 1 <= len(hypotheses) <= beams
                assert len({h.ids for h in hypotheses}) == len(hypotheses), "all differ"
                means = [h.mean_log_probability for h in hypotheses]
                assert means == sorted(means, reverse=True)
                for one in hypotheses:
                    assert 0 < one.score <= 1
                    lengths.add(len(one.ids))
                    alone = memory[sample : sample + 1]
                    mean = teacher_forced_mean(model.decoder, model.vocabulary, alone, one.ids, 9)
                    assert one.mean_log_probability == pytest.approx(mean, abs=1e-4)
    assert len(lengths) > 1


@papers
@pytest.mark.parametrize("beams", [1, 3])
def test_no_sentence_is_empty_or_too_long_or_holds_special_words(paper, beams) -> None:
    for seed in range(4):
        model = tiny_model(paper, seed=seed, max_words=6)
        with torch.no_grad():
            model.decoder.logits.bias[model.vocabulary.eos] += 4 * (seed % 3 - 1)
            for hypotheses in model.generate_from(model.encode(*random_images(4, seed=seed)), beams=beams):
                for one in hypotheses:
                    assert 1 <= len(one.ids) <= 5
                    assert not set(one.ids) & {0, 1, 2, 3}
                    assert model.vocabulary.decode(one.ids)


@papers
@pytest.mark.parametrize(("beams", "length"), [(1, 2), (3, 1), (3, 3)])
def test_forbidden_beginnings_never_appear(paper, beams, length) -> None:
    model = tiny_model(paper, seed=2)
    features = model.encode(*random_images(5))
    prefixes: list[tuple[int, ...]] = []
    for _ in range(4):
        rules = replace(model.search_rules(), forbidden=ForbiddenWords(prefixes))
        found = model.generate_from(features, beams=beams, rules=rules)
        sentences = [h.ids for hypotheses in found for h in hypotheses]
        assert sentences
        assert not any(ids[: len(p)] == p for ids in sentences for p in prefixes)
        prefixes += [ids[:length] for ids in sentences if len(ids) >= length]
    assert prefixes

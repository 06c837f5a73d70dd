"""Greedy search, beam search and sampling over a decoder whose next word depends on the last word alone."""

import itertools
import math
from collections import Counter

import pytest
import torch
from tiny_models import random_images, tiny_model

from rscc.models import MODELS
from rscc.models.shared.generation import (
    beam_search,
    greedy_search,
    sample_search,
    sentence_log_probabilities,
)
from rscc.models.shared.search_rules import ForbiddenWords, SearchRules

PAD, BOS, EOS, UNK, A, B, C = range(7)


def rules(max_words: int, prefixes=(), runs=()) -> SearchRules:
    return SearchRules(BOS, EOS, max_words, (PAD, BOS, UNK), ForbiddenWords(prefixes, runs))


class MarkovCache:
    def __init__(self, kinds: torch.Tensor):
        self.kinds = kinds

    def select(self, rows: torch.Tensor) -> None:
        self.kinds = self.kinds[rows]


class MarkovDecoder:
    """Logits of the next word by table[kind of sample, last word]; the memory holds the kind."""

    def __init__(self, table: torch.Tensor):
        self.table = table
        self.steps = 0

    def repeat(self, memory: torch.Tensor, times: int) -> torch.Tensor:
        return memory.repeat_interleave(times, dim=0)

    def start(self, memory: torch.Tensor) -> MarkovCache:
        return MarkovCache(memory[:, 0, 0].long())

    def step(self, words: torch.Tensor, cache: MarkovCache) -> torch.Tensor:
        self.steps += 1
        return self.table[cache.kinds, words].clone()


def memory(*kinds: int) -> torch.Tensor:
    return torch.tensor(kinds, dtype=torch.float32).view(-1, 1, 1)


def random_table(seed: int, kinds: int = 3) -> torch.Tensor:
    return torch.randn(kinds, 7, 7, generator=torch.Generator().manual_seed(seed)) * 2


def table_of(chances: dict[int, dict[int, float]]) -> torch.Tensor:
    table = torch.full((1, 7, 7), -50.0)
    for last, following in chances.items():
        for word, chance in following.items():
            table[0, last, word] = math.log(chance)
    return table


def exhaustive(
    table: torch.Tensor, longest: int, forbidden=(), runs=()
) -> list[tuple[tuple[int, ...], float]]:
    """All sentences of 1 to ``longest`` words with their mean log-probability, best first."""
    found = []
    for length in range(1, longest + 1):
        for ids in itertools.product((A, B, C), repeat=length):
            total, last = 0.0, BOS
            for place, word in enumerate((*ids, EOS)):
                logits = table[last].clone()
                logits[[PAD, BOS, UNK]] = -math.inf
                if place == 0:
                    logits[EOS] = -math.inf
                for prefix in forbidden:
                    if prefix[:-1] == ids[:place] and len(prefix) == place + 1:
                        logits[prefix[-1]] = -math.inf
                for run in runs:
                    if (*ids[:place], run[-1])[-len(run) :] == run:
                        logits[run[-1]] = -math.inf
                total += float(logits.log_softmax(-1)[word])
                last = word
            if total > -math.inf:
                found.append((ids, total / (length + 1)))
    return sorted(found, key=lambda pair: -pair[1])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("forbidden", [(), ((A,),), ((B, A), (C,)), ((A, A, A),)])
@pytest.mark.parametrize("runs", [(), ((B,),), ((A, B), (C, C)), ((B, A, B), (C,))])
def test_a_beam_that_holds_everything_is_exhaustive(seed, forbidden, runs) -> None:
    table = random_table(seed)
    found = beam_search(MarkovDecoder(table), memory(0, 2), rules(4, forbidden, runs), beams=90)
    for kind, hypotheses in zip((0, 2), found, strict=True):
        expected = exhaustive(table[kind], 3, forbidden, runs)
        assert [h.ids for h in hypotheses] == [ids for ids, _ in expected]
        means = [mean for _, mean in expected]
        assert [h.mean_log_probability for h in hypotheses] == pytest.approx(means, abs=1e-5)


def test_short_unlikely_sentences_do_not_end_the_search_for_a_long_likely_one() -> None:
    """The ends of unlikely beginnings fill the list long before the right sentence is through."""
    table = table_of({BOS: {A: 0.9, B: 0.06, C: 0.04}, A: {A: 0.99, EOS: 0.01}, B: {EOS: 1}, C: {EOS: 1}})
    for beams in (2, 3):
        (found,) = beam_search(MarkovDecoder(table), memory(0), rules(9), beams=beams)
        assert found[0].ids[0] == A, found
        assert found[0].mean_log_probability > math.log(0.06) / 2


def test_a_sample_that_is_through_does_not_wait_or_change() -> None:
    """Together with a long sample, a short one gives what it gives alone; the search ends early."""
    short = table_of({BOS: {A: 0.9, B: 0.1}, A: {EOS: 0.9, B: 0.1}, B: {EOS: 0.9, C: 0.1}, C: {EOS: 1.0}})
    table = torch.cat([short, random_table(4, kinds=2)])
    alone_decoder = MarkovDecoder(table)
    (alone,) = beam_search(alone_decoder, memory(0), rules(30), beams=2)
    assert alone_decoder.steps < 6
    assert [h.ids for h in alone] == [(A,), (B,)]
    for kind in (1, 2):
        found = beam_search(MarkovDecoder(table), memory(kind, 0), rules(30), beams=2)
        assert found[1] == alone


def test_without_an_end_the_beginnings_are_given() -> None:
    table = table_of({last: {A: 0.7, B: 0.3} for last in (BOS, A, B)})
    table[:, :, EOS] = -math.inf
    (found,) = beam_search(MarkovDecoder(table), memory(0), rules(4), beams=2)
    assert [len(h.ids) for h in found] == [4, 4]
    assert found[0].ids == (A, A, A, A)
    assert found[0].score == pytest.approx(0.7, rel=1e-4)
    (greedy,) = greedy_search(MarkovDecoder(table), memory(0), rules(4))
    assert greedy.ids == found[0].ids
    assert greedy.mean_log_probability == pytest.approx(found[0].mean_log_probability)


@pytest.mark.parametrize("seed", range(5))
def test_greedy_takes_the_likeliest_word_and_never_ends_at_once(seed) -> None:
    table = random_table(seed)
    table[:, BOS, EOS] = 50
    for kind, one in enumerate(greedy_search(MarkovDecoder(table), memory(0, 1, 2), rules(6))):
        last, words = BOS, []
        while len(words) < 6:
            logits = table[kind, last].clone()
            logits[[PAD, BOS, UNK] + ([EOS] if not words else [])] = -math.inf
            last = int(logits.argmax())
            if last == EOS:
                break
            words.append(last)
        assert one.ids == tuple(words)
        assert words


# Sampling


def draw(table, kinds, samples, *, seed=1, forbidden=()):
    generator = torch.Generator().manual_seed(seed)
    return sample_search(
        MarkovDecoder(table), memory(*kinds), rules(4, forbidden), samples=samples, generator=generator
    )


def test_the_seed_decides_what_is_drawn() -> None:
    table = random_table(3)
    assert draw(table, (0, 1), 5) == draw(table, (0, 1), 5)
    assert draw(table, (0, 1), 5) != draw(table, (0, 1), 5, seed=2)


@pytest.mark.parametrize("paper", MODELS)
def test_drawn_sentences_have_the_same_probability_by_teacher_forcing(paper) -> None:
    """Forbidden beginnings and runs, banned words, sentences that end and sentences that are cut off."""
    model = tiny_model(paper, max_words=6)
    with torch.no_grad():
        features = model.encode(*random_images(3), extracted=torch.rand(3, 4, 4))
        kept = model.memory(features)
    rules = model.search_rules([["there"], ["a", "house"], ["are", "there", "is"]], [["road"], ["is", "a"]])
    found = sample_search(model.decoder, kept, rules, samples=150, generator=torch.Generator().manual_seed(1))
    assert [len(one) for one in found] == [150, 150, 150]
    drawn = [one for several in found for one in several]
    assert len({one.ids for one in drawn}) > 7
    texts = [f" {model.vocabulary.decode(one.ids)} " for one in drawn]
    assert not any(" road " in text or " is a " in text for text in texts)
    assert any(" a " in text for text in texts) and any(" is " in text for text in texts)
    assert {len(one.ids) == rules.max_words for one in drawn} == {True, False}
    means = sentence_log_probabilities(model.decoder, kept, rules, [one.ids for one in drawn])
    assert means.tolist() == pytest.approx([one.mean_log_probability for one in drawn], abs=2e-5)
    # Not the same without the masks: they are part of the distribution.
    free = SearchRules(rules.bos, rules.eos, rules.max_words)
    plain = sentence_log_probabilities(model.decoder, kept, free, [one.ids for one in drawn])
    assert (plain < means - 1e-6).any() and (plain <= means + 1e-5).all()
    means.sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in model.decoder.parameters() if p.grad is not None)


@pytest.mark.slow
@pytest.mark.parametrize("forbidden", [(), ((A,),), ((B, A), (C,))])
def test_sentences_come_as_often_as_they_are_probable(forbidden) -> None:
    table, count = random_table(3), 4000
    for kind, hypotheses in zip((0, 2), draw(table, (0, 2), count, forbidden=forbidden), strict=True):
        expected = dict(exhaustive(table[kind], 3, forbidden))
        counts = Counter(one.ids for one in hypotheses)
        for ids, mean in expected.items():
            share = math.exp(mean * (len(ids) + 1))
            assert counts[ids] / count == pytest.approx(share, abs=4 * math.sqrt(share / count) + 1e-3)
        for one in hypotheses:
            if len(one.ids) < 4:
                assert one.mean_log_probability == pytest.approx(expected[one.ids], abs=1e-5)

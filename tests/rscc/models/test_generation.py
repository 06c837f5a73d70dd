"""Greedy search and beam search over a decoder whose next word depends on the last word alone."""

import itertools
import math

import pytest
import torch

from rscc.models.shared.generation import ForbiddenWords, SearchRules, beam_search, greedy_search

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

    def start(self, memory: torch.Tensor) -> MarkovCache:
        return MarkovCache(memory[:, 0, 0].long())

    def step(self, words: torch.Tensor, cache: MarkovCache) -> torch.Tensor:
        self.steps += 1
        return self.table[cache.kinds, words].clone()


def memory(*kinds: int) -> torch.Tensor:
    return torch.tensor(kinds, dtype=torch.float32).view(-1, 1, 1)


def random_table(seed: int) -> torch.Tensor:
    return torch.randn(3, 7, 7, generator=torch.Generator().manual_seed(seed)) * 2


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


@pytest.mark.parametrize("forbidden", [(), ((A,),), ((B, A), (C,)), ((A, A, A),)])
@pytest.mark.parametrize("runs", [(), ((B,),), ((A, B), (C, C)), ((B, A, B), (C,))])
def test_a_beam_that_holds_everything_is_exhaustive(forbidden, runs) -> None:
    for table in map(random_table, range(2)):
        found = beam_search(MarkovDecoder(table), memory(0, 2), rules(4, forbidden, runs), beams=90)
        for kind, hypotheses in zip((0, 2), found, strict=True):
            expected = exhaustive(table[kind], 3, forbidden, runs)
            assert [h.ids for h in hypotheses] == [ids for ids, _ in expected]
            means = [mean for _, mean in expected]
            assert [h.mean_log_probability for h in hypotheses] == pytest.approx(means, abs=1e-5)


def test_a_search_goes_on_while_one_sentence_may_become_likelier_than_a_finished_one() -> None:
    """Two sentences end early; one goes on with certain words, and its mean overtakes the worse of them."""
    table = torch.full((1, 7, 7), -math.inf)
    for last, following in ((BOS, {A: 0.5, C: 0.5}), (A, {A: 0.1, EOS: 0.9}), (C, {C: 0.98, EOS: 0.02})):
        for word, share in following.items():
            table[0, last, word] = math.log(share)
    (found,) = beam_search(MarkovDecoder(table), memory(0), rules(8), beams=2)
    assert [h.ids for h in found] == [(A,), (C,) * 7]


@pytest.mark.parametrize("seed", range(5))
def test_greedy_takes_the_likeliest_word_as_a_beam_of_one_and_never_ends_at_once(seed) -> None:
    table = random_table(seed)
    table[:, BOS, EOS] = 50
    found = greedy_search(MarkovDecoder(table), memory(0, 1, 2), rules(6))
    narrow = beam_search(MarkovDecoder(table), memory(0, 1, 2), rules(6), beams=1)
    for kind, (one, (same,)) in enumerate(zip(found, narrow, strict=True)):
        assert one.ids == same.ids
        assert one.mean_log_probability == pytest.approx(same.mean_log_probability, abs=1e-5)
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

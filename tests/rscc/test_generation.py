"""Greedy and beam search over a decoder whose next word depends on the last word alone."""

import itertools
import math

import pytest
import torch

from rscc.models.generation import ForbiddenPrefixes, beam_search, greedy_search

PAD, BOS, EOS, UNK, A, B, C = range(7)
SETTINGS = {"bos": BOS, "eos": EOS, "banned": (PAD, BOS, UNK)}


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


def random_table(seed: int, kinds: int = 3) -> torch.Tensor:
    return torch.randn(kinds, 7, 7, generator=torch.Generator().manual_seed(seed)) * 2


def table_of(chances: dict[int, dict[int, float]]) -> torch.Tensor:
    table = torch.full((1, 7, 7), -50.0)
    for last, following in chances.items():
        for word, chance in following.items():
            table[0, last, word] = math.log(chance)
    return table


def exhaustive(table: torch.Tensor, longest: int, forbidden=()) -> list[tuple[tuple[int, ...], float]]:
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
                total += float(logits.log_softmax(-1)[word])
                last = word
            if total > -math.inf:
                found.append((ids, total / (length + 1)))
    return sorted(found, key=lambda pair: -pair[1])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("forbidden", [(), ((A,),), ((B, A), (C,)), ((A, A, A),)])
def test_a_beam_that_holds_everything_is_exhaustive(seed, forbidden) -> None:
    table = random_table(seed)
    found = beam_search(
        MarkovDecoder(table),
        memory(0, 2),
        beams=90,
        max_words=4,
        forbidden=ForbiddenPrefixes(forbidden),
        **SETTINGS,
    )
    for kind, hypotheses in zip((0, 2), found, strict=True):
        expected = exhaustive(table[kind], 3, forbidden)
        assert [h.ids for h in hypotheses] == [ids for ids, _ in expected]
        means = [mean for _, mean in expected]
        assert [h.mean_log_probability for h in hypotheses] == pytest.approx(means, abs=1e-5)


def test_short_unlikely_sentences_do_not_end_the_search_for_a_long_likely_one() -> None:
    """The ends of unlikely beginnings fill the list long before the right sentence is through."""
    table = table_of({BOS: {A: 0.9, B: 0.06, C: 0.04}, A: {A: 0.99, EOS: 0.01}, B: {EOS: 1}, C: {EOS: 1}})
    long = table.repeat(1, 1, 1)
    for beams in (2, 3):
        (found,) = beam_search(MarkovDecoder(long), memory(0), beams=beams, max_words=9, **SETTINGS)
        assert found[0].ids[0] == A, found
        assert found[0].mean_log_probability > math.log(0.06) / 2


def test_a_sample_that_is_through_does_not_wait_or_change() -> None:
    """Together with a long sample, a short one gives what it gives alone; the search ends early."""
    short = table_of({BOS: {A: 0.9, B: 0.1}, A: {EOS: 0.9, B: 0.1}, B: {EOS: 0.9, C: 0.1}, C: {EOS: 1.0}})
    table = torch.cat([short, random_table(4, kinds=2)])
    alone_decoder = MarkovDecoder(table)
    (alone,) = beam_search(alone_decoder, memory(0), beams=2, max_words=30, **SETTINGS)
    assert alone_decoder.steps < 6
    assert [h.ids for h in alone] == [(A,), (B,)]
    for kind in (1, 2):
        found = beam_search(MarkovDecoder(table), memory(kind, 0), beams=2, max_words=30, **SETTINGS)
        assert found[1] == alone


def test_without_an_end_the_beginnings_are_given() -> None:
    table = table_of({last: {A: 0.7, B: 0.3} for last in (BOS, A, B)})
    table[:, :, EOS] = -math.inf
    (found,) = beam_search(MarkovDecoder(table), memory(0), beams=2, max_words=4, **SETTINGS)
    assert [len(h.ids) for h in found] == [4, 4]
    assert found[0].ids == (A, A, A, A)
    assert found[0].score == pytest.approx(0.7, rel=1e-4)
    (greedy,) = greedy_search(MarkovDecoder(table), memory(0), max_words=4, **SETTINGS)
    assert greedy.ids == found[0].ids
    assert greedy.mean_log_probability == pytest.approx(found[0].mean_log_probability)


@pytest.mark.parametrize("seed", range(5))
def test_greedy_takes_the_likeliest_word_and_never_ends_at_once(seed) -> None:
    table = random_table(seed)
    table[:, BOS, EOS] = 50
    for kind, one in enumerate(greedy_search(MarkovDecoder(table), memory(0, 1, 2), max_words=6, **SETTINGS)):
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

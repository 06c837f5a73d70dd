import numpy as np
import pytest

from rscc.evaluation.bootstrap import Resamples, bleu_of_counts, wilson_interval
from rscc.evaluation.metrics import CaptionScorer
from rscc.evaluation.score_rows import MaskCounter

pytest.importorskip("pycocoevalcap")

REFERENCES = {
    "one": ["two villas are built along the road", "some villas appear near a road"],
    "two": ["many trees are removed", "the trees disappear and a parking lot is built"],
    "three": ["a long road is built through the woods"],
    "four": ["a house stands where trees were", "the house replaces some trees"],
}
SAID = {
    "one": "two villas are built near the road",
    "two": "the trees are gone",
    "three": "a long road is built through the woods",
    "four": "",
}


@pytest.fixture(scope="module")
def plain():
    return CaptionScorer(java=False).score(SAID, REFERENCES)


def test_bleu_of_all_counts_is_the_corpus_score(plain) -> None:
    found = 100 * bleu_of_counts(plain.counts["bleu"].sum(0))
    assert found == pytest.approx([plain.bleu1, plain.bleu2, plain.bleu3, plain.bleu4])
    single = 100 * bleu_of_counts(plain.counts["bleu"])[:, 3]
    assert single == pytest.approx(list(plain.per_pair["bleu4"].values()))
    scores = CaptionScorer(java=False).score({"x": "a b c d e f g"}, {"x": ["a b c d"]})
    assert 100 * bleu_of_counts(scores.counts["bleu"].sum(0))[0] == pytest.approx(scores.bleu1)
    assert scores.bleu1 == pytest.approx(100 * 4 / 7), "too long a caption has no brevity penalty"


def test_every_draw_scores_like_the_captions_that_it_holds(plain) -> None:
    resamples = Resamples(4, samples=3, seed=5)
    drawn = bleu_of_counts(resamples.totals(plain.counts["bleu"]))
    for weights, expected in zip(resamples.weights, drawn, strict=True):
        held = [name for name, count in zip(SAID, weights, strict=True) for _ in range(int(count))]
        scores = CaptionScorer(java=False).score(
            {str(i): SAID[name] for i, name in enumerate(held)},
            {str(i): REFERENCES[name] for i, name in enumerate(held)},
        )
        assert 100 * expected[3] == pytest.approx(scores.bleu4)


def test_mask_intervals_resample_pairs_not_pixels() -> None:
    counter = MaskCounter()
    assert counter.intervals() == {}
    truth, wrong = np.ones((9, 9), bool), np.zeros((9, 9), bool)
    for place in range(20):
        counter.add(truth if place % 2 else wrong, truth)
    low, high = counter.intervals()["recall"]
    assert (low, high) == pytest.approx((0.5 - 0.22, 0.5 + 0.22), abs=0.06)
    assert counter.intervals()["precision"] == (1, 1)
    assert counter.intervals()["f1"][0] < counter.scores().f1 < counter.intervals()["f1"][1]


def test_wilsons_interval_is_the_published_one() -> None:
    assert wilson_interval(0, 0) is None
    assert wilson_interval(81, 263) == pytest.approx((0.2553, 0.3662), abs=1e-4)  # Newcombe 1998, Table I
    assert wilson_interval(0, 20) == pytest.approx((0, 0.1611), abs=1e-4)
    assert wilson_interval(20, 20) == pytest.approx((0.8389, 1), abs=1e-4)

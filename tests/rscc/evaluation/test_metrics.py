import gzip
import json
import subprocess
import threading

import numpy as np
import pytest

from rscc.errors import DatasetLayoutInvalid
from rscc.evaluation.bootstrap import Resamples, caption_intervals, meteor_of_counts
from rscc.evaluation.metrics import NO_JAVA, CaptionScorer, cider
from rscc.evaluation.score_rows import MaskCounter
from rscc.text.no_change import NO_CHANGE_SENTENCES, is_no_change

pytest.importorskip("pycocoevalcap")

REFERENCES = {
    "one": ["two villas are built along the road", "some villas appear near a road"],
    "two": ["many trees are removed", "the trees disappear and a parking lot is built"],
    "three": ["there is no difference", "no change has occurred"],
}
PERFECT = {i: sentences[0] for i, sentences in REFERENCES.items()}


def caption_scores(hypotheses, references, *, java: bool = True):
    with CaptionScorer(java=java) as scorer:
        return scorer.score(hypotheses, references)


def test_perfect_captions_get_full_marks_and_the_quick_cider_is_that_of_the_table() -> None:
    scores = caption_scores(PERFECT, REFERENCES, java=False)
    assert scores.count == 3
    assert (scores.bleu1, scores.bleu4) == pytest.approx((100, 100), abs=1e-3)
    assert scores.rouge_l == pytest.approx(100)
    assert scores.cider > 200
    assert scores.per_pair["rouge_l"] == pytest.approx(dict.fromkeys(REFERENCES, 100.0))
    assert cider(PERFECT, REFERENCES) == pytest.approx(scores.cider)
    assert np.mean(list(scores.per_pair["cider"].values())) == pytest.approx(scores.cider)


def test_bleu_and_rouge_agree_with_a_count_by_hand() -> None:
    scores = caption_scores({"x": "two villas are removed"}, {"x": ["two villas are built"]}, java=False)
    assert scores.bleu1 == pytest.approx(75, abs=1e-3)  # 3 of 4 words
    assert scores.bleu2 == pytest.approx(100 * (3 / 4 * 2 / 3) ** 0.5, abs=1e-3)  # 2 of 3 word pairs
    assert scores.rouge_l == pytest.approx(75)  # common subsequence of 3 words of 4


# Beside the other test of METEOR, which takes long to start.
@pytest.mark.slow
def test_meteor_of_all_counts_is_meteor(java_scorer) -> None:
    said = {**PERFECT, "two": "the trees are gone", "three": ""}
    scores = java_scorer.score(said, REFERENCES)
    counts = scores.counts["meteor"]
    again = java_scorer.score(dict(list(said.items())[:2]), dict(list(REFERENCES.items())[:2]))
    assert counts.shape == (3, 23)
    assert again.counts["meteor"] == pytest.approx(counts[:2]), "a later call counts only its own pairs"
    assert 100 * meteor_of_counts(counts.sum(0)) == pytest.approx(scores.meteor)
    assert 100 * meteor_of_counts(counts) == pytest.approx(list(scores.per_pair["meteor"].values()))
    near = {"x": "a house was constructed beside the roads", "y": "a large villa"}  # stems and synonyms
    other = java_scorer.score(near, {"x": ["houses were built beside a road"], "y": ["a big house"]})
    assert 100 * meteor_of_counts(other.counts["meteor"].sum(0)) == pytest.approx(other.meteor)
    intervals = caption_intervals(scores, Resamples(3))
    assert intervals["meteor"][0] <= scores.meteor <= intervals["meteor"][1]
    assert intervals["s_m"][0] <= scores.s_m <= intervals["s_m"][1]


@pytest.mark.slow
def test_with_java_meteor_and_s_m_are_there_and_no_process_is_left(java_scorer) -> None:
    scores = java_scorer.score(PERFECT, REFERENCES)
    process = java_scorer._meteor.meteor_p
    again = java_scorer.score(PERFECT, REFERENCES)
    empty = java_scorer.score(dict.fromkeys(REFERENCES, "..."), REFERENCES)
    assert java_scorer._meteor.meteor_p is process, "one process serves all sets"
    java_scorer.close()
    assert process.poll() is not None
    assert process.stdin.closed and process.stdout.closed and process.stderr.closed
    assert scores.meteor == pytest.approx(100)
    assert again == scores
    assert empty.meteor == empty.rouge_l == empty.cider == 0
    assert NO_JAVA not in scores.notes
    mean = (scores.bleu4 + scores.meteor + scores.rouge_l + scores.cider) / 4
    assert scores.s_m == scores.as_dict()["s_m"] == pytest.approx(mean)


class DeadMeteor:
    """Stands for a METEOR whose process ends in the middle of a call, its lock held."""

    started = 0

    def __init__(self) -> None:
        DeadMeteor.started += 1
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        self.meteor_p = subprocess.Popen(["sleep", "60"], **pipes)
        self.lock = threading.Lock()

    def compute_score(self, gts, res):
        self.lock.acquire()
        float("")


def test_a_meteor_process_that_dies_is_noted_and_ended(monkeypatch) -> None:
    meteor = pytest.importorskip("pycocoevalcap.meteor.meteor")
    monkeypatch.setattr(meteor, "Meteor", DeadMeteor)
    scorer = CaptionScorer(java=False)
    scorer._java = "java"
    scorer._words = {one: one for sentences in REFERENCES.values() for one in sentences}
    for count in (1, 2):
        scores = scorer.score(PERFECT, REFERENCES)
        assert scores.meteor is None
        assert any("METEOR is not computed" in note for note in scores.notes)
        assert DeadMeteor.started == count, "the next set starts a new process"


@pytest.mark.parametrize(
    ("said", "truth"),
    [
        ({}, {}),
        ({"a": "x"}, {"a": ["x"], "b": ["y"]}),
        ({"a": "x", "b": "y"}, {"a": ["x"]}),
        ({"a": "x"}, {"a": []}),
    ],
)
def test_sets_that_do_not_fit_are_refused(said, truth) -> None:
    with pytest.raises(DatasetLayoutInvalid):
        caption_scores(said, truth, java=False)
    with pytest.raises(DatasetLayoutInvalid):
        cider(said, truth)


def test_no_change_is_told_from_change() -> None:
    others = ("There is no difference .", "there is no change", "the scenes seem the same")
    assert all(map(is_no_change, (*NO_CHANGE_SENTENCES, *others)))
    changed = ("a house of the same kind is built", "the trees are no longer lush", "the scene has changed")
    assert not any(map(is_no_change, (*changed, "", "road")))


@pytest.mark.real
def test_own_words_are_ptb_words_on_the_training_corpus(shared_data, java_scorer) -> None:
    path = shared_data / "data" / "annotations" / "levir_cc_caption_corpus.json.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        pairs = json.load(file)["train"]
    sentences = sorted({sentence for pair in pairs for sentence in pair["sentences"]})
    ptb = java_scorer.tokenize(sentences)
    own = CaptionScorer(java=False).tokenize(sentences)
    different = [s for s, a, b in zip(sentences, ptb, own, strict=True) if a != b]
    assert all("'" in sentence for sentence in different)
    assert len(different) <= 1


def test_mask_scores_are_counted_over_the_whole_set() -> None:
    counter = MaskCounter()
    truth = np.zeros((4, 6), bool)
    truth[1:3, 1:4] = True  # 6 pixels
    found = np.zeros((4, 6), bool)
    found[1:3, 2:6] = True  # 8 pixels, 4 of them right
    counter.add(found, truth)
    counter.add(np.ones((2, 2), bool), np.ones((2, 2), bool))
    scores = counter.scores()
    assert (scores.pairs, scores.pixels) == (2, 28)
    assert scores.precision == pytest.approx(8 / 12)
    assert scores.recall == pytest.approx(8 / 10)
    assert scores.f1 == pytest.approx(16 / 22)
    assert scores.iou == pytest.approx(8 / 14)
    assert scores.changed == pytest.approx(10 / 28)

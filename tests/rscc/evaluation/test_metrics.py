import gzip
import json
import os
import subprocess
import threading

import numpy as np
import pytest

from rscc.errors import DatasetLayoutInvalid
from rscc.evaluation.masks import MaskCounter
from rscc.evaluation.metrics import ALIKE, NO_JAVA, SPICE_ABSENT, CaptionScorer, cider
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


def training_pairs(shared_data) -> list[dict]:
    path = shared_data / "data" / "annotations" / "levir_cc_caption_corpus.json.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return json.load(file)["train"]


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


def test_worse_captions_score_lower_and_punctuation_and_case_do_not_count() -> None:
    worse = {**PERFECT, "one": "many trees are removed"}
    assert cider(worse, REFERENCES) < cider(PERFECT, REFERENCES)
    dressed = {i: f" {sentence.capitalize()} ." for i, sentence in PERFECT.items()}
    assert cider(dressed, REFERENCES) == pytest.approx(cider(PERFECT, REFERENCES))


def test_document_frequencies_come_from_the_scored_subset() -> None:
    part = {"one": "two villas appear", "two": "many trees appear"}
    truth = {i: REFERENCES[i] for i in part}
    whole = caption_scores({**part, "three": "no change"}, REFERENCES, java=False).per_pair["cider"]
    assert cider(part, truth) != pytest.approx((whole["one"] + whole["two"]) / 2)


def test_cider_is_left_out_where_all_references_are_alike() -> None:
    same = {name: list(NO_CHANGE_SENTENCES) for name in ("a", "b")}
    scores = caption_scores(dict.fromkeys(same, "there is no difference"), same, java=False)
    assert scores.cider is None
    assert "cider" not in scores.per_pair
    assert ALIKE in scores.notes
    assert scores.bleu4 == pytest.approx(100, abs=1e-3)


def test_without_java_meteor_is_none_and_the_notes_say_why(monkeypatch) -> None:
    monkeypatch.setenv("PATH", "")
    scores = caption_scores({"one": "a road's end"}, {"one": ["a road is built"]})
    assert scores.meteor is None
    assert scores.s_m is None
    assert NO_JAVA in scores.notes
    assert any("1 of 2 sentences hold an apostrophe" in note for note in scores.notes)


SPICE_NEEDS_JAVA = "SPICE is not computed: it runs Java, as METEOR does"


@pytest.mark.parametrize(("jars", "note"), [(("no-such.jar",), SPICE_ABSENT), ((), SPICE_NEEDS_JAVA)])
def test_spice_is_neither_fetched_nor_started_without_java(jars, note, monkeypatch) -> None:
    spice = pytest.importorskip("pycocoevalcap.spice.spice")
    monkeypatch.setattr("rscc.evaluation.metrics._SPICE_JARS", jars)
    monkeypatch.setattr(spice, "get_stanford_models", lambda: pytest.fail("tried to download"))
    monkeypatch.setattr(spice, "Spice", lambda: pytest.fail("started Java"))
    scores = caption_scores(PERFECT, REFERENCES, java=False)
    assert scores.spice is None
    assert note in scores.notes


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


def test_java_and_own_words_agree_on_captions_of_plain_words(java_scorer) -> None:
    said = {"one": "a T-shaped road , and 2 villas.", "two": "trees; removed?", "three": "no change!"}
    assert java_scorer.tokenize(said.values()) == CaptionScorer(java=False).tokenize(said.values())


def test_words_are_those_of_pycocoevalcaps_own_tokenizer(java_scorer) -> None:
    from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

    sentences = ["The colour isn't  the same .", "a road's end", "villas (two), trees - removed...", "café"]
    given = {i: [{"caption": sentence}] for i, sentence in enumerate(sentences)}
    theirs = [words[0] for words in PTBTokenizer().tokenize(given).values()]
    assert java_scorer.tokenize(sentences) == theirs


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


def test_no_process_outlives_an_error() -> None:
    meteor = DeadMeteor()
    with pytest.raises(RuntimeError), CaptionScorer(java=False) as scorer:
        scorer._meteor = meteor
        raise RuntimeError
    assert meteor.meteor_p.poll() is not None
    process = meteor.meteor_p
    assert process.stdin.closed and process.stdout.closed and process.stderr.closed


def test_a_java_that_does_not_run_is_named(tmp_path, monkeypatch) -> None:
    broken = tmp_path / "java"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/bin")
    scores = caption_scores(PERFECT, REFERENCES)
    assert scores.meteor is None
    assert any("Java" in note for note in scores.notes)
    assert scores.bleu4 == pytest.approx(100, abs=1e-3)


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
def test_no_change_agrees_with_the_pairs_of_the_training_corpus(shared_data) -> None:
    unchanged = 0
    for pair in training_pairs(shared_data):
        flags = {is_no_change(sentence) for sentence in pair["sentences"]}
        assert len(flags) == 1, pair
        unchanged += flags.pop()
    assert unchanged == 3408


@pytest.mark.real
def test_own_words_are_ptb_words_on_the_training_corpus(shared_data, java_scorer) -> None:
    sentences = sorted({sentence for pair in training_pairs(shared_data) for sentence in pair["sentences"]})
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


def test_undefined_mask_scores_are_none() -> None:
    counter = MaskCounter()
    assert counter.scores() is None
    nothing = np.zeros((3, 5), bool)
    counter.add(nothing, nothing)
    assert counter.scores().f1 is None
    counter.add(~nothing, nothing)
    scores = counter.scores()
    assert (scores.precision, scores.recall, scores.f1) == (0, None, 0)

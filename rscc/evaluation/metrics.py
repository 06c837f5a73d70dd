"""Caption scores as the papers compute them (pycocoevalcap), in percent.

``S*m`` is the mean of BLEU-4, METEOR, ROUGE-L and CIDEr. pycocoevalcap's CIDEr is the variant CIDEr-D; its
document frequencies come from the scored references, so a subset's CIDEr is not an average of the whole
set's. If all pairs share the same references, as the unchanged pairs of LEVIR-CC do, CIDEr would always be 0;
then it is None.

PTB tokenisation and METEOR run Java. Without Java METEOR is None and captions are split into words by
:func:`rscc.text.vocabulary.tokenize`, which gives the same words unless the captions hold contractions,
possessives or British spellings. Every such departure is in ``CaptionScores.notes``.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rscc.errors import DatasetLayoutInvalid, extra
from rscc.text.vocabulary import tokenize

_PTB_CLASS = "edu.stanford.nlp.process.PTBTokenizer"
_SPICE_JARS = ("stanford-corenlp-3.6.0.jar", "stanford-corenlp-3.6.0-models.jar")

NO_JAVA = "no Java found: METEOR and S*m are not computed; install a Java runtime for them"
SAME_REFERENCES = "all pairs share the same references: CIDEr would always be 0 and is left out"
SPICE_ABSENT = (
    "SPICE is not computed: its parser models are not in pycocoevalcap's spice/lib, and are not downloaded"
)

Words = dict[str, list[str]]
"""Pair id to sentences of words joined by spaces."""


@dataclass(frozen=True)
class CaptionScores:
    """Scores of a set of captions, in percent.

    Attributes:
        cider: None if all pairs share the same references.
        meteor: None without Java.
        spice: None without Java, and unless SPICE's files are installed.
        per_pair: metric name (``bleu4``, ``meteor``, ``rouge_l``, ``cider``) to one score per pair, by id.
        notes: what could not be computed as the papers do, and why.
        counts: what BLEU and METEOR counted of each of the N pairs, in the order of ``per_pair``, for
            :mod:`rscc.evaluation.bootstrap`: ``bleu`` (N, 10) and, with Java, ``meteor`` (N, 23).
    """

    count: int
    bleu1: float
    bleu2: float
    bleu3: float
    bleu4: float
    meteor: float | None
    rouge_l: float
    cider: float | None
    spice: float | None
    per_pair: dict[str, dict[str, float]]
    notes: tuple[str, ...] = ()
    counts: dict[str, np.ndarray] = field(default_factory=dict, compare=False, repr=False)

    @property
    def s_m(self) -> float | None:
        """Mean of BLEU-4, METEOR, ROUGE-L and CIDEr; None if one of them is."""
        if self.meteor is None or self.cider is None:
            return None
        return (self.bleu4 + self.meteor + self.rouge_l + self.cider) / 4

    def as_dict(self) -> dict[str, float | int | None]:
        """Return the scores by name, without notes and single pairs."""
        names = ("count", "bleu1", "bleu2", "bleu3", "bleu4", "meteor", "rouge_l", "cider", "s_m", "spice")
        return {name: getattr(self, name) for name in names}


class CaptionScorer(contextlib.AbstractContextManager["CaptionScorer"]):
    """Scores many sets of captions with one Java process; use it as a context manager.

    Leaving the context ends the process. With ``java`` False, or without Java, it works without.
    """

    def __init__(self, *, java: bool = True):
        self._java = shutil.which("java") if java else None
        self._no_java_note = NO_JAVA
        self._meteor: Any = None
        self._words: dict[str, str] = {}

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the METEOR process and close its pipes."""
        if self._meteor is None:
            return
        meteor, self._meteor = self._meteor, None
        if meteor.lock.locked():  # after a failed call its destructor would wait for the lock for ever
            meteor.lock.release()
        process = meteor.meteor_p
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            with contextlib.suppress(BrokenPipeError):  # unsent text for a process that has ended
                pipe.close()

    def tokenize(self, captions: Iterable[str]) -> list[str]:
        """Return captions as PTB words without punctuation, joined by spaces; without Java see the module."""
        captions = [" ".join(caption.split()) for caption in captions]
        new = [caption for caption in dict.fromkeys(captions) if caption not in self._words]
        if new and self._java:
            try:
                self._words.update(zip(new, _run_ptb(self._java, new), strict=True))
            except (OSError, ValueError, subprocess.CalledProcessError) as error:
                self._java = None
                self._no_java_note = f"Java does not run here, so METEOR and S*m are not computed ({error})"
                self._words.clear()  # all captions must be split by one rule
                new = list(dict.fromkeys(captions))
        if not self._java:
            self._words.update((caption, " ".join(tokenize(caption))) for caption in new)
        return [self._words[caption] for caption in captions]

    def score(self, hypotheses: Mapping[str, str], references: Mapping[str, Sequence[str]]) -> CaptionScores:
        """Score one caption per pair against its references, both by the same ids of pairs."""
        bleu, rouge, cider_class = caption_metrics()
        _check_ids(hypotheses, references)
        ids = list(hypotheses)
        self.tokenize([*hypotheses.values(), *(one for i in ids for one in references[i])])  # runs Java once
        candidates = {i: self.tokenize([hypotheses[i]]) for i in ids}
        truth = {i: self.tokenize(references[i]) for i in ids}
        notes = [] if self._java else [self._no_java_note, _fallback_note(hypotheses, references)]
        bleus, bleu_pairs, ngrams = _bleu(bleu, truth, candidates)
        rouge_l, rouge_pairs = rouge.Rouge().compute_score(truth, candidates)
        pairs = {"bleu4": bleu_pairs[3], "rouge_l": rouge_pairs}
        cider_all = None
        if len({tuple(sorted(sentences)) for sentences in truth.values()}) > 1:
            mean, pairs["cider"] = cider_class.Cider().compute_score(truth, candidates)
            cider_all = 100 * float(mean)
        else:
            notes.append(SAME_REFERENCES)
        meteor, counts = None, {"bleu": ngrams}
        if (scored := self._score_meteor(truth, candidates, notes)) is not None:
            meteor, pairs["meteor"], counts["meteor"] = scored
        return CaptionScores(
            count=len(ids),
            **{f"bleu{n}": 100 * float(score) for n, score in enumerate(bleus, start=1)},
            meteor=meteor,
            rouge_l=100 * float(rouge_l),
            cider=cider_all,
            spice=_score_spice(truth, candidates, notes, java=self._java is not None),
            per_pair={
                name: {i: 100 * float(score) for i, score in zip(ids, values, strict=True)}
                for name, values in pairs.items()
            },
            notes=tuple(notes),
            counts=counts,
        )

    def _score_meteor(
        self, truth: Words, candidates: Words, notes: list[str]
    ) -> tuple[float, list[float], np.ndarray] | None:
        """Return METEOR in percent, per pair in 0..1, and its counts (N, 23)."""
        if not self._java:
            return None
        try:
            if self._meteor is None:
                self._meteor = _start_meteor()
            score, pairs = self._meteor.compute_score(truth, candidates)
            counts = _meteor_counts(self._meteor.take_counts())
        except (OSError, ValueError) as error:
            self.close()
            notes.append(f"METEOR is not computed: its Java process failed ({error})")
            return None
        return 100 * score, pairs, counts


def cider(hypotheses: Mapping[str, str], references: Mapping[str, Sequence[str]]) -> float:
    """Return CIDEr in percent without Java, fast enough for every epoch; see :func:`cider_per_pair`."""
    return float(np.mean(list(cider_per_pair(hypotheses, references).values())))


def cider_per_pair(
    hypotheses: Mapping[str, str], references: Mapping[str, Sequence[str]]
) -> dict[str, float]:
    """Return CIDEr in percent of every pair, in the order of ``hypotheses``.

    Raises:
        DatasetLayoutInvalid: the ids differ, a pair has no reference, or there is no pair.
    """
    _, _, cider_class = caption_metrics()
    _check_ids(hypotheses, references)
    candidates = {i: [" ".join(tokenize(caption))] for i, caption in hypotheses.items()}
    truth = {i: [" ".join(tokenize(one)) for one in references[i]] for i in candidates}
    _, scores = cider_class.Cider().compute_score(truth, candidates)
    return {i: 100 * float(score) for i, score in zip(candidates, scores, strict=True)}


def caption_metrics() -> tuple[Any, Any, Any]:
    """Return pycocoevalcap's modules of BLEU, ROUGE-L and CIDEr; call it early, before long work."""
    with extra("train", "scoring captions"):
        from pycocoevalcap.bleu import bleu
        from pycocoevalcap.cider import cider as cider_module
        from pycocoevalcap.rouge import rouge
    return bleu, rouge, cider_module


def _bleu(module: Any, truth: Words, candidates: Words) -> tuple[list[float], list[list[float]], np.ndarray]:
    """Return BLEU-1 to 4 in 0..1, the same per pair, and the counts of each pair (N, 10)."""
    scorer = module.BleuScorer(n=4)
    for name, words in candidates.items():
        scorer += (words[0], truth[name])
    scores, pairs = scorer.compute_score(option="closest", verbose=0)
    counts = []
    for one in scorer.ctest:
        length = one["testlen"]
        closest = min((abs(other - length), other) for other in one["reflen"])[1]
        counts.append((length, closest, *one["guess"], *one["correct"]))
    return scores, pairs, np.array(counts, dtype=np.float64)


def _start_meteor() -> Any:
    from pycocoevalcap.meteor.meteor import Meteor

    class CountingMeteor(Meteor):
        def __init__(self) -> None:
            super().__init__()
            self._counts: list[str] = []

        def _stat(self, hypothesis_str: str, reference_list: list[str]) -> str:
            self._counts.append(super()._stat(hypothesis_str, reference_list))
            return self._counts[-1]

        def take_counts(self) -> list[str]:
            counts, self._counts = self._counts, []
            return counts

    return CountingMeteor()


def _meteor_counts(lines: Sequence[str]) -> np.ndarray:
    """Parse METEOR's counts, (N, 23); a sentence that matches as a whole has no chunk, as in METEOR."""
    counts = np.array([[float(value) for value in line.split()] for line in lines])
    whole = (counts[:, 20] == 1) & (counts[:, 21] == counts[:, 0]) & (counts[:, 22] == counts[:, 1])
    counts[whole, 20] = 0
    return counts


def _check_ids(hypotheses: Mapping[str, str], references: Mapping[str, Sequence[str]]) -> None:
    if not hypotheses:
        raise DatasetLayoutInvalid("there is no caption to score; check the split")
    odd = sorted(set(hypotheses) ^ set(references)) or [i for i in hypotheses if not references[i]]
    if odd:
        raise DatasetLayoutInvalid(f"pair {odd[0]!r} lacks a caption or a reference; give one for every pair")


def _fallback_note(hypotheses: Mapping[str, str], references: Mapping[str, Sequence[str]]) -> str:
    sentences = [*hypotheses.values(), *(one for several in references.values() for one in several)]
    doubtful = sum("'" in one or "’" in one for one in sentences)
    rule = "captions were split into words without the PTB tokenizer, which splits contractions"
    return f"{rule} and spells American; {doubtful} of {len(sentences)} sentences hold an apostrophe"


def _package_folder(part: str) -> Path:
    import pycocoevalcap

    return Path(next(iter(pycocoevalcap.__path__))) / part


def _run_ptb(java: str, sentences: list[str]) -> list[str]:
    """Run pycocoevalcap's tokenizer through pipes; its own call writes a file into the package's folder."""
    from pycocoevalcap.tokenizer import ptbtokenizer

    jar = _package_folder("tokenizer") / ptbtokenizer.STANFORD_CORENLP_3_4_1_JAR
    command = [java, "-Dfile.encoding=UTF-8", "-cp", str(jar), _PTB_CLASS, "-preserveLines", "-lowerCase"]
    text = "".join(f"{sentence}\n" for sentence in sentences)
    done = subprocess.run(command, input=text.encode(), capture_output=True, check=True)
    dropped = set(ptbtokenizer.PUNCTUATIONS)
    lines = done.stdout.decode().splitlines()
    return [" ".join(word for word in line.split(" ") if word not in dropped) for line in lines]


def _score_spice(truth: Words, candidates: Words, notes: list[str], *, java: bool) -> float | None:
    folder = _package_folder("spice") / "lib"
    if not all((folder / jar).is_file() for jar in _SPICE_JARS):
        notes.append(SPICE_ABSENT)
        return None
    if not java:
        notes.append("SPICE is not computed: it runs Java, as METEOR does")
        return None
    from pycocoevalcap.spice.spice import Spice

    try:
        return 100 * float(Spice().compute_score(truth, candidates)[0])
    except (OSError, subprocess.CalledProcessError) as error:
        notes.append(f"SPICE is not computed: its Java process failed ({error})")
        return None

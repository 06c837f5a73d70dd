"""Captions that are true when the two dates of a pair are swapped: what appeared is removed, and vice versa.

Only certain cases are reversed: a clause with an unknown verb is dropped if another clause is left, otherwise
the result is empty. Ground that is bare before houses stand on it is bare after they are gone, so "on the
bare land" is dropped or becomes the replacement. Verbs of removal are chosen by a hash of the sentence, with
the frequencies of the training captions of LEVIR-CC: the same sentence always has the same reversal.
"""

import hashlib
import re
from collections.abc import Sequence
from itertools import accumulate

from rscc.text.clauses import Clause, head, is_plural, names_built, read_clauses, split_replaced
from rscc.text.no_change import is_no_change

# Frequency of each form, singular and plural.
_VANISH = (
    (0.50, "is removed", "are removed"),
    (0.29, "disappears", "disappear"),
    (0.13, "has been removed", "have been removed"),
    (0.04, "has disappeared", "have disappeared"),
    (0.025, "has vanished", "have vanished"),
    (0.015, "has been demolished", "have been demolished"),
)
_APPEAR = ((0.8, "appears", "appear"), (0.2, "has appeared", "have appeared"))
_BUILT = (
    (0.45, "is built", "are built"),
    (0.40, "appears", "appear"),
    (0.15, "is constructed", "are constructed"),
)
_REPLACED = ((0.55, "passive", "passive"), (0.45, "active", "active"))
_BARE = ((0.75, "removed", "removed"), (0.25, "replaced", "replaced"))
_PLACE = ((0.6, "before", "before"), (0.4, "after", "after"))

_RELATIVE = re.compile(r"\b(?:which|where|that|who|whose|when|there|respectively|it is|but)\b")
_PRONOUN = re.compile(r"\b(?:it|its|them|their|one another)\b")
_BARE_GROUND = re.compile(
    r"\b(?:on|in|over|at|across|into) (?:the |a |an |this |some |what was )?"
    r"(?:(?:original|former|large|bare|vacant|old|empty|cleared|big|huge|whole|brown) )*"
    r"(?:bare ?lands?|clearings?|open (?:space|area|ground|land)s?|wastelands?|"
    r"(?:vacant|empty) (?:land|lot|space)s?|"
    r"(?:building|construction) sites?|foundations?|bare (?:ground|area)|land|ground)(?![\w-])"
)
_FORMER_GROUND = re.compile(r"\b(?:on|in|over) the (?:original|former|previous) [\w-]+")
_SURE_PLACE = re.compile(
    r"^(?:at|in|on|along|besides?|deep in|parallel to|near|by|around|between|among|across|through|next to|"
    r"alongside|with|over|connected|surrounded|behind|under|above|below|throughout|in front of|nearby|inside|"
    r"to the (?:left|right)|at the)\b"
)
_CORNER = re.compile(r"^(?:at|in|on) the (?:top|bottom|left|right|upper|lower|center|middle|corner)")
_ONLY_NOW = re.compile(
    r"\b(?:newly[ -](?:built|constructed|added|erected|completed|developed)|new|completed|newly)\s"
)
_ONLY_THEN = re.compile(r"\b(?:original|former|old|existing|remaining|previous|originally|lush original)\s")
_ONE_OF_THEN = re.compile(r"\b(?:original|former|old|existing|previous) (?=ones?\b)")
_SHARE = re.compile(
    r"^(?:(?P<most>(?:almost |nearly )?all(?: of)?(?: the| these)?|most(?: of)?(?: the)?|"
    r"many of the|much of the|a large (?:part|area|amount|quantity) of(?: the)?)|"
    r"(?P<part>(?:a |the )?(?:large |small |big )?(?:half|parts?|pieces?) of(?: the| a)?|some of the|"
    r"several of the|half the))\s+"
)
_GROWING = re.compile(r"\b(?:trees?|plants|vegetation|woods?|forests?|bushes|bare ?land|lakes?)\b")
_COUNTED = re.compile(r"^(?:two|three|four|five|six|seven|eight|nine|ten|many|several|few)\b")
_ONE = re.compile(r"\bones?$")
_MASS = re.compile(
    r"\b(?:vegetation|bare ?land|grassland|grass|greenery|land|woodland|desert|wasteland|soil|water)$"
)


def reverse_captions(captions: Sequence[str]) -> tuple[str, ...]:
    """Return sentences that are true of a pair when its dates are swapped, from its references in lower case.

    Returns:
        one sentence for each reference that can be reversed; references without change are unchanged. Empty
        if there are references with a change and none of them can be reversed.
    """
    turned = [
        (caption, caption if is_no_change(caption) else reverse_caption(caption)) for caption in captions
    ]
    speaks = any(not is_no_change(caption) for caption in captions)
    if speaks and not any(new for caption, new in turned if not is_no_change(caption)):
        return ()
    return tuple(new for _, new in turned if new)


def reverse_caption(caption: str) -> str:
    """Return the reversal of a sentence about a change; empty if no rule applies."""
    if _RELATIVE.search(caption):
        return ""
    clauses = read_clauses(caption)
    turned = [_reverse(clause, f"{i} {caption}") for i, clause in enumerate(clauses)]
    # A dropped clause may be the antecedent of another one's subject or pronoun.
    if any(not clause.subject for clause in clauses):
        return ""
    text = " and ".join(clause for clause in turned if clause)
    return "" if not all(turned) and _PRONOUN.search(text) else text


def describes_removal(caption: str) -> bool:
    """Return whether a sentence states that something built vanished, or was replaced by something else."""
    for clause in read_clauses(caption):
        into_built = clause.kind == "turned" and names_built(clause.rest)  # converted, not gone
        if not into_built and any(map(names_built, clause.gone)):
            return True
    return False


def _reverse(clause: Clause, seed: str) -> str:
    if clause.kind == "other" or clause.subject.endswith((" and", " with")) or clause.rest.startswith("and "):
        return ""
    match clause.kind:
        case "replace":
            return _replace(clause.subject, clause.rest, seed)
        case "replaced":
            return _replace(clause.rest, clause.subject, seed)
        case "turned":
            return _turn_back(clause)
    return (_appear if clause.kind == "vanish" else _vanish)(clause, seed)


def _choose(ways: Sequence[tuple[float, str, str]], seed: str, plural: bool = False) -> str:
    """Choose a form by the hash of the seed, with the given frequencies."""
    digest = hashlib.sha256(f"{ways[0][1]} {seed}".encode()).digest()
    point = int.from_bytes(digest[:4], "big") / 2**32
    _, singular, plural_form = ways[sum(point >= end for end in accumulate(way[0] for way in ways[:-1]))]
    return plural_form if plural else singular


def _vanish(clause: Clause, seed: str) -> str:
    rest, *replaced = split_replaced(clause.rest)
    subject = as_removed(clause.subject)
    bare = _BARE_GROUND.search(rest)
    place = _mend_place(rest)
    if replaced:
        return _replace(f"{subject} {place}".strip(), replaced[0], seed)
    if place and not (_SURE_PLACE.match(place) or place.startswith("to ")):
        return ""
    plural = _plural_verb(clause)
    if bare and not place and _choose(_BARE, seed) == "replaced":
        return f"{subject} {'are' if plural else 'is'} replaced by bareland"
    built = names_built(subject) and not _GROWING.search(head(subject))
    verb = _choose(_VANISH if built else _VANISH[:-1], seed, plural)
    if place.startswith("to "):
        return f"{subject} {verb} from{place.removeprefix('to')}" if "added" in clause.verb else ""
    return _with_place(subject, verb, place, seed)


def _with_place(subject: str, verb: str, place: str, seed: str) -> str:
    """Put a location after the subject, or after the verb where it cannot be mistaken for an agent."""
    listed = re.search(r" and (?:a|an|the|some|many|several|two|three|one)\b", place)
    behind = listed or (_CORNER.match(place) and _choose(_PLACE, seed) == "after")
    words = (subject, verb, place) if behind else (subject, place, verb)
    return " ".join(word for word in words if word)


def _appear(clause: Clause, seed: str) -> str:
    rest, *replaced = split_replaced(clause.rest)
    if replaced or (rest and not _SURE_PLACE.match(rest)):
        return ""
    subject = as_added(clause.subject)
    if _ONE.search(head(subject)):
        return ""
    ways = _BUILT if names_built(subject) and not _GROWING.search(subject) else _APPEAR
    return _with_place(subject, _choose(ways, seed, is_plural(subject)), _mend_place(rest), seed)


def _replace(new: str, old: str, seed: str) -> str:
    """State that ``old`` replaces ``new``."""
    if not new or not old or old.startswith(("by ", "with ")):
        return ""
    removed, added = as_removed(_without_ground(new)), as_added(old)
    if not removed or not added:
        return ""
    if _choose(_REPLACED, seed) == "passive":
        return f"{removed} {'are' if is_plural(removed) else 'is'} replaced by {added}"
    return f"{added} {'replace' if is_plural(added) else 'replaces'} {removed}"


def _turn_back(clause: Clause) -> str:
    """Reverse "turned into"; a location stays with the subject."""
    now, then = as_removed(clause.rest), head(clause.subject)
    if not now or re.search(r"\b(?:center|middle|side|corner|level|half) of\b", then):
        return ""
    place = clause.subject[len(then) :].strip()
    if place and head(now) == now:
        now = f"{now} {place}"
    now = re.sub(r"^an? ", "the ", now)
    return f"{now} {'turn' if is_plural(now) else 'turns'} into {as_added(then)}"


def _plural_verb(clause: Clause) -> bool:
    """Return whether a subject is plural, by the annotator's verb, else by the subject."""
    first = clause.verb.split()[0]
    if first in ("is", "was", "has"):
        return False
    if first in ("are", "were", "have", "appear", "show", "emerge", "come"):
        return True
    return first not in ("appears", "shows", "emerges", "comes") and is_plural(clause.subject)


def _without_ground(phrase: str) -> str:
    return " ".join(_FORMER_GROUND.sub("", _BARE_GROUND.sub("", phrase)).split())


def _mend_place(place: str) -> str:
    """Remove words from a location that are no longer true, and adverbs of manner."""
    place = re.sub(
        r"\b(?:neatly(?! arranged)|densely|compactly|separately|evenly|again|on it|in it)\b", "", place
    )
    place = _ONE_OF_THEN.sub("other ", place)
    place = _ONLY_THEN.sub("", _ONLY_NOW.sub("", _without_ground(place)))
    return " ".join(place.split())


def as_removed(phrase: str) -> str:
    """Return a noun phrase of something that was new, as something that was there before."""
    phrase = _ONLY_NOW.sub("", f"{phrase} ")
    phrase = re.sub(r"^another\b", "a", phrase)
    phrase = re.sub(r"^(?:many |some |several )?more (?=\S)", "some ", phrase)
    phrase = re.sub(
        r"\b(few|one|two|three|four|five|six|seven|eight|nine|ten|several|many|some) more\b", r"\1", phrase
    )
    return _mend_article(_without_ground(phrase))


def as_added(phrase: str) -> str:
    """Return a noun phrase of something that was there before, as something new."""
    phrase = _ONLY_THEN.sub("", f"{phrase} ").strip()
    share = _SHARE.match(phrase)
    if share:
        phrase = phrase[share.end() :]
    elif phrase.startswith("the "):
        phrase = phrase.removeprefix("the ")
    elif not phrase.startswith("this "):
        return _mend_article(phrase)
    phrase = phrase.removeprefix("this ")
    first = head(phrase).split(" and ")[0]
    plural, woods = is_plural(first), first.endswith("woods")
    if share and share["most"] and plural and not woods:
        return _mend_article(f"many {phrase}")
    if woods or (plural and _COUNTED.match(first)) or (not plural and _MASS.search(first)):
        return _mend_article(phrase)
    return _mend_article(f"{'some' if plural else 'a'} {phrase}")


def _mend_article(phrase: str) -> str:
    phrase = re.sub(r"\ban (?=[^aeiou\s])(?!hour)", "a ", " ".join(phrase.split()))
    return re.sub(r"\ba (?=[aeio]|hour)(?!one\b)", "an ", phrase)

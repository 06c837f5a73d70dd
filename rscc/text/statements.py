"""What a sentence states of a change: what came, what is gone, how many, and where in the picture.

The same parser makes the labels of the fact heads from references, checks sentences against measured facts,
and scores the facts of captions.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rscc.text.clauses import Clause, head, read_clauses, split_replaced
from rscc.text.object_classes import objects_among

PLACE_WORDS = frozenset(
    {
        *("corner", "edge", "side", "left", "right", "top", "bottom"),
        *("upper", "lower", "middle", "center", "centre"),
    }
)
"""Words for a location in the picture, meaningless in a crop around a change."""
NUMBERS = ("one", "two", "some", "many")
"""Classes of number words: 1, 2, 3 to 9, 10 and more."""

FEWEST_MANY = 10
SMALL_NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
"""Numbers written as words, from 1."""

_BUILDINGS = r"(?:\w*house|villa|building|bungalow|mansion|home|cottage|cabin|apartment|structure|shed|hut)s?"
_DETERMINERS = (
    ("many", r"many|massive|numerous|lots of|a lot of|(?:a )?(?:large|great) (?:number|amount)s? of|rows of"),
    ("many", r"a dozen|dozens of|hundreds of|tens of|plenty of|ten|eleven|twelve|a large quantity of|dense"),
    ("many", r"(?:two|three|four|five|some|several|a few) (?:\w+ )?(?:rows|lines|groups|clusters) of|\d{2,}"),
    ("one", r"(?:some )?parts? of (?:a|an|one|the)"),
    ("some", r"some|several|a few|few|three|four|five|six|seven|eight|nine|[3-9]"),
    ("some", r"(?:an?|one) (?:\w+ )?(?:row|line|ring|group|cluster|couple|number) of"),
    ("two", r"two|both|a pair of|2"),
    ("one", r"a|an|one|another|the|this|1"),
)
_NUMBER = re.compile(
    r"\b(?:"
    + "|".join(f"(?P<{name}{i}>{words})" for i, (name, words) in enumerate(_DETERMINERS))
    + rf")(?: (?!and\b|with\b|road\b|roads\b)[\w-]+){{0,3}}? (?P<thing>{_BUILDINGS})\b"
)
_OF_NOTHING_ELSE = r"(?! (?:it|them|an?|the (?!scene|image|picture))\b)"
_PLACES = (
    ("top", rf"top|upper|above{_OF_NOTHING_ELSE}"),
    ("bottom", rf"bottom|lower|below{_OF_NOTHING_ELSE}"),
    ("left", r"left"),
    ("right", r"right"),
    ("middle", r"middle|center|centre|central"),
    ("corner", r"corners?(?! of the (?:road|street|forest|wood)s?)"),
    ("edge", r"edges? of the (?:scene|image|picture)"),
)
_PLACE = re.compile("|".join(rf"(?P<{name}>\b(?:{words})\b)" for name, words in _PLACES))
# "the road corner", "on the left side of the road", "a right angle": not locations in the picture.
_NOT_OF_THE_PICTURE = re.compile(
    r"\bright angles?\b|\b(?:road|street|building|house|t-junction) corner|"
    r"\b(?:left|right|upper|lower|top|bottom)(?: \w+)? of the (?:road|street|house|building|forest|wood)s?|"
    r"\b(?:middle|cent(?:er|re)) of the (?:road|forest|wood)s?"
)
# A location in the picture at the end of a sentence.
_PART = rf"(?:{'|'.join(sorted(PLACE_WORDS))}|part)"
_WHERE = re.compile(
    rf",? (?:at|in|on) the {_PART}(?:[ -](?:and )?(?:the )?{_PART})*"
    r"(?: of the (?:scene|image|picture|area))?$"
)
# "five or six", "five to seven", "up to seven", "8 to 10": the larger number counts.
_FROM = re.compile(
    rf"\b(?:{'|'.join(SMALL_NUMBERS)}|\d+|up) (?:or|to) (?=(?:{'|'.join(SMALL_NUMBERS)}|\d+)\b)"
)
_SEGMENTS = re.compile(r" and (?=\w)| with | as well as |, ")


@dataclass(frozen=True)
class Statement:
    """What one sentence states of a change.

    Attributes:
        came, gone: object classes, keys of :data:`rscc.text.object_classes.OBJECT_CLASSES`.
        number: of the buildings that came, else of those that are gone, one of :data:`NUMBERS`; None if it
            is not stated.
        places: words of the picture among ``top``, ``bottom``, ``left``, ``right``, ``middle``, ``corner``
            and ``edge``.
    """

    came: frozenset[str]
    gone: frozenset[str]
    number: str | None
    places: frozenset[str]


def read_statement(caption: str) -> Statement:
    """Parse a lower-case caption."""
    came: list[str] = []
    gone: list[str] = []
    for clause in read_clauses(_FROM.sub("", caption)):
        came += [one for phrase in _new(clause) for one in _things(phrase)]
        gone += [one for phrase in clause.gone for one in _things(phrase)]
    text = _NOT_OF_THE_PICTURE.sub(" ", caption)
    return Statement(
        came=_objects(came),
        gone=_objects(gone),
        number=next((number for thing in (*came, *gone) if (number := number_in(thing))), None),
        places=frozenset(match.lastgroup or "" for match in _PLACE.finditer(text)),
    )


def without_place(caption: str) -> str:
    """Return a sentence without a location in the picture at its end."""
    return _WHERE.sub("", caption)


def number_in(phrase: str) -> str | None:
    """Return the number word class of the first buildings in a noun phrase; None without any."""
    match = _NUMBER.search(phrase)
    if match is None:
        return None
    name = next(key for key, text in match.groupdict().items() if text is not None and key != "thing")
    number = name.rstrip("0123456789")
    plural = match["thing"].endswith("s") and match[name] != "one"  # but "one of the houses"
    return None if number == "one" and plural else number  # "the houses", "a residential area of houses"


def number_class(count: int) -> str:
    """Return the word class of a number of objects from 1."""
    return "one" if count == 1 else "two" if count == 2 else "some" if count < FEWEST_MANY else "many"


def agreed(statements: Sequence[frozenset[str]], least: int = 2) -> frozenset[str]:
    """Return the items that are in at least ``least`` of several sets."""
    counts = Counter(name for one in statements for name in one)
    return frozenset(name for name, number in counts.items() if number >= least)


def _new(clause: Clause) -> list[str]:
    match clause.kind:
        case "appear":
            rest = split_replaced(clause.rest)[0]
            beside = [part for part in _SEGMENTS.split(f" {rest}")[1:] if rest.startswith("with ")]
            return [clause.subject, *beside]
        case "replace":
            return [clause.subject]
        case "replaced" | "turned":
            return [clause.rest]
    return []


def _things(phrase: str) -> list[str]:
    return [head(segment) for segment in _SEGMENTS.split(phrase)]


def _objects(things: Sequence[str]) -> frozenset[str]:
    named = (objects_among([(word, True) for word in thing.split()]) for thing in things)
    return frozenset(names[0] for one in named for _, names in one.words)

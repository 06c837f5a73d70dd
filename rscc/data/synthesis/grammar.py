"""Sentences on buildings that appear or disappear, with the word frequencies of a captioned data set.

This file defines which number words fit a number of buildings, which verbs mean construction and which
removal, and which words name a place. Frequencies and exact phrases are counted in the captions of the
training split. A sentence is ``QUANTITY [SIZE] NOUN VERB [PLACE]``, and every part of it is true of its mask.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy import ndimage

from rscc.data.pairs import FLIPS, flip_words
from rscc.errors import DatasetLayoutInvalid

CAPTIONS = 5
"""Sentences of a pair."""
MANY = 10_000
QUANTITIES: dict[str, tuple[int, int]] = {
    **{"a": (1, 1), "one": (1, 1), "two": (2, 2), "three": (3, 3), "four": (4, 4), "five": (5, 5)},
    **{"a few": (3, 6), "several": (3, 9), "some": (3, 14), "a group of": (4, 14)},
    **{"many": (8, MANY), "lots of": (10, MANY), "a lot of": (10, MANY), "massive": (14, MANY)},
    **{"a row of": (3, 12)},
}
"""Number words and the smallest and largest number of buildings that each fits."""
IN_LINE = frozenset({"a row of"})
"""Number words that also need the buildings to stand in one line."""
NOUNS = {"house": "houses", "building": "buildings", "villa": "villas"}
LARGE = frozenset({"large", "big", "huge"})
SMALL = frozenset({"small"})
LARGE_AREA, SMALL_AREA = 2400.0, 260.0
"""Pixels of 0.5 m: a building of at least 600 m2 is large, one below 65 m2 small."""
LEAST_AREA = 48
"""Smaller parts of a mask (12 m2) are cut-off corners and do not count as buildings."""

_BUILT = r"(?:re)?built|constructed|erected|added"
_GONE = r"removed|demolished|dismantled|destroyed|torn down|pulled down"
_VERB = {
    "built": rf"(?:is|are|has been|have been) (?:{_BUILT})|(?:has |have )?appear(?:s|ed)?|shows? up",
    "removed": rf"(?:is|are|has been|have been) (?:{_GONE})|(?:has |have )?(?:disappear|vanish)(?:s|es|ed)?",
}
_SINGULAR = re.compile(r"(is|has)\b|\S+s\b")
_PLURAL = re.compile(r"(are|have)\b|(appear|show|disappear|vanish)\b")
_DIRECTION = r"(?:(?:upper|lower)-(?:left|right)|top|bottom|left|right|upper|lower|center|centre|middle)"
_PLACE = re.compile(
    rf"\b(?:in|on|at) the {_DIRECTION}(?: (?:left|right))?(?: (?:corner|side|part|half|area))?"
    r"(?: of the (?:scene|area|image))?$"
)
_ANY_CORNER = re.compile(r"\b(?:in|at) the corner of the (?:scene|area|image)$")
_NUMBER = "|".join(sorted(QUANTITIES, key=len, reverse=True))
_ADJECTIVE = "|".join(sorted(LARGE | SMALL))
_NOUN = "|".join([*NOUNS.values(), *NOUNS])


@dataclass(frozen=True)
class Buildings:
    """The buildings of a mask.

    Attributes:
        count: connected parts of at least :data:`LEAST_AREA` pixels.
        areas: pixels of each, descending.
        regions: places where all buildings are, as words of direction in the order row, column: ``top``,
            ``bottom left``, ``center``; and ``corner`` for any of the four corners.
        in_line: whether at least three buildings stand in one line.
    """

    count: int
    areas: tuple[float, ...]
    regions: tuple[str, ...]
    in_line: bool


def describe_mask(mask: np.ndarray) -> Buildings:
    """Describe the buildings of a mask (H, W) bool, its 8-connected parts."""
    labels, number = ndimage.label(mask, np.ones((3, 3)))
    areas = np.bincount(labels.ravel(), minlength=number + 1)[1:]
    counted = np.flatnonzero(areas >= LEAST_AREA) + 1
    if not len(counted):
        return Buildings(0, (), (), False)
    inside = np.isin(labels, counted)
    centres = np.array(ndimage.center_of_mass(inside, labels, counted)) / mask.shape
    return Buildings(
        len(counted),
        tuple(sorted((float(areas[i - 1]) for i in counted), reverse=True)),
        _regions(inside),
        _stand_in_line(centres),
    )


def _regions(inside: np.ndarray) -> tuple[str, ...]:
    """Return the places where nearly all of the area and, clearly, its centre lie."""
    y, x = (positions / side for positions, side in zip(np.nonzero(inside), inside.shape, strict=True))
    spans = (("top", y, False), ("bottom", y, True), ("left", x, False), ("right", x, True))
    sides = []
    for name, along, far in spans:
        along = 1 - along if far else along
        if np.mean(along < 0.5) >= 0.95 and along.mean() < 0.36:
            sides.append(name)
    if len(sides) == 2:
        return (*sides, " ".join(sides), "corner")
    off = np.maximum(np.abs(y - 0.5), np.abs(x - 0.5))
    middle = max(abs(y.mean() - 0.5), abs(x.mean() - 0.5)) < 0.12 and np.mean(off < 0.3) >= 0.95
    return ("center",) if middle else tuple(sides)


def _stand_in_line(centres: np.ndarray) -> bool:
    if len(centres) < 3:
        return False
    spread = np.linalg.svd(centres - centres.mean(0), compute_uv=False)
    return bool(spread[1] < 0.12 * spread[0])


@dataclass
class Grammar:
    """Frequencies of the parts of sentences.

    Attributes:
        quantities, nouns, sizes: word to its count; sizes are adjectives, with ``""`` for none.
        verbs: (``built`` or ``removed``, ``one`` or ``more``) to verb phrases.
        places: region (see :class:`Buildings`) to phrases.
        place_share: share of the sentences on one building, and on more, that name a place.
    """

    quantities: Counter[str] = field(default_factory=Counter)
    nouns: Counter[str] = field(default_factory=Counter)
    sizes: Counter[str] = field(default_factory=Counter)
    verbs: dict[tuple[str, str], Counter[str]] = field(default_factory=dict)
    places: dict[str, Counter[str]] = field(default_factory=dict)
    place_share: dict[str, float] = field(default_factory=dict)

    @classmethod
    def learn(cls, captions: Iterable[str]) -> Grammar:
        """Count the parts in captions of changed pairs, lower case, words separated by spaces.

        Raises:
            DatasetLayoutInvalid: no caption is like ``several houses are built``.
        """
        grammar = cls()
        start = re.compile(
            rf"^(?P<quantity>{_NUMBER}) (?:(?P<size>{_ADJECTIVE}) )?(?P<noun>{_NOUN}) "
            rf"(?P<verb>{_VERB['built']}|{_VERB['removed']})\b(?P<rest>.*)$"
        )
        placed: dict[str, list[bool]] = {"one": [], "more": []}
        for caption in captions:
            grammar._learn_places(caption)
            grammar._learn_removal(caption)
            match = start.match(caption)
            if match is None:
                continue
            many = _number_of(match["verb"])
            grammar.quantities[match["quantity"]] += 1
            grammar.nouns[_singular(match["noun"])] += 1
            grammar.sizes[match["size"] or ""] += 1
            if re.fullmatch(_VERB["built"], match["verb"]):
                for number in many:
                    grammar.verbs.setdefault(("built", number), Counter())[match["verb"]] += 1
            named = bool(_PLACE.search(match["rest"]) or _ANY_CORNER.search(match["rest"]))
            placed["one" if QUANTITIES[match["quantity"]][1] == 1 else "more"].append(named)
        grammar.place_share = {key: float(np.mean(named)) if named else 0.0 for key, named in placed.items()}
        grammar._check()
        return grammar

    def _learn_places(self, caption: str) -> None:
        """Count the place at the end of a caption, in every flip of it."""
        found = _PLACE.search(caption)
        # "the top corner" is ambiguous; it would be wrong for a building in the middle of the top.
        if found is not None and not ("corner" in found[0] and " " not in _region_of(found[0])):
            for flip in FLIPS:
                phrase = flip_words(found[0], flip)
                self.places.setdefault(_region_of(phrase), Counter())[phrase] += 1
        found = _ANY_CORNER.search(caption)
        if found is not None:
            self.places.setdefault("corner", Counter())[found[0]] += len(FLIPS)

    def _learn_removal(self, caption: str) -> None:
        """Count verbs of removal of anything: trees are removed more often than houses."""
        for phrase in re.findall(rf"\b({_VERB['removed']})\b", caption):
            for number in _number_of(phrase):
                self.verbs.setdefault(("removed", number), Counter())[phrase] += 1

    def _check(self) -> None:
        if not self.nouns or any(("built", number) not in self.verbs for number in ("one", "more")):
            raise DatasetLayoutInvalid(
                "too few training captions describe construction to learn a grammar from; give the captioned "
                "data set itself with --data"
            )

    def can_remove(self) -> bool:
        """Return whether the captions had verbs of removal."""
        return all(("removed", number) in self.verbs for number in ("one", "more"))

    def sentences(
        self, buildings: Buildings, rng: np.random.Generator, *, removed: bool = False
    ) -> tuple[str, ...]:
        """Return :data:`CAPTIONS` sentences on at least one building, distinct ones as far as possible.

        The buildings appear, or disappear if they are ``removed``.
        """
        sentences: list[str] = []
        for _ in range(6 * CAPTIONS):
            sentence = self._sentence(buildings, rng, "removed" if removed else "built")
            if sentence not in sentences:
                sentences.append(sentence)
            if len(sentences) == CAPTIONS:
                break
        return tuple((sentences * CAPTIONS)[:CAPTIONS])

    def _sentence(self, buildings: Buildings, rng: np.random.Generator, change: str) -> str:
        number = "one" if buildings.count == 1 else "more"
        fitting = Counter({word: n for word, n in self.quantities.items() if _fits(word, buildings)})
        # A small set of captions may lack a word for this number; simple ones are always correct.
        quantity = _draw(fitting or Counter(["a" if number == "one" else "some"]), rng)
        size = _draw(Counter({word: n for word, n in self.sizes.items() if _size_fits(word, buildings)}), rng)
        noun = _draw(self.nouns, rng)
        if buildings.areas[len(buildings.areas) // 2] >= LARGE_AREA:
            noun = "building"
        noun = noun if number == "one" else NOUNS[noun]
        verb = _draw(self.verbs[change, number], rng)
        places = sum((self.places.get(region, Counter()) for region in buildings.regions), Counter())
        place = _draw(places, rng) if places and rng.random() < self.place_share[number] else ""
        return " ".join(word for word in (quantity, size, noun, verb, place) if word)


def _draw(counts: Counter[str], rng: np.random.Generator) -> str:
    words = sorted(counts)
    if not words:
        return ""
    weights = np.array([counts[word] for word in words], np.float64)
    return words[int(rng.choice(len(words), p=weights / weights.sum()))]


def _singular(noun: str) -> str:
    return next((one for one, more in NOUNS.items() if more == noun), noun)


def _number_of(verb: str) -> Sequence[str]:
    """Return whether a verb phrase fits one, more, or both (``appeared``)."""
    if _PLURAL.match(verb):
        return ("more",)
    return ("one",) if _SINGULAR.match(verb) else ("one", "more")


def _fits(quantity: str, buildings: Buildings) -> bool:
    least, most = QUANTITIES[quantity]
    return least <= buildings.count <= most and (quantity not in IN_LINE or buildings.in_line)


def _size_fits(size: str, buildings: Buildings) -> bool:
    if size in LARGE:
        return buildings.areas[-1] >= LARGE_AREA
    return size not in SMALL or buildings.areas[0] < SMALL_AREA


def _region_of(phrase: str) -> str:
    """Return the region that a place phrase names, as in :class:`Buildings`."""
    words = set(re.split(r"[ -]", phrase))
    row = "top" if words & {"top", "upper"} else "bottom" if words & {"bottom", "lower"} else ""
    column = "left" if "left" in words else "right" if "right" in words else ""
    return f"{row} {column}".strip() or "center"

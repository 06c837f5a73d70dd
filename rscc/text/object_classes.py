"""Object classes of the nouns in captions of overhead scenes: hallucinated objects and kinds of change.

A class contains words that people use for the same thing seen from above. An ambiguous word is in several
classes ("construction", "track", "plants"): it is a hallucination only where the references name none of
them. Modifiers count as well: "villa area" names buildings. Nouns for a location in the picture, an amount, a
shape, a material or the scene itself name nothing.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from rscc.text.parsing import extract_segments, subjects

OBJECT_CLASSES: Mapping[str, str] = {
    "building": "building, house, home, villa, mansion, bungalow, cottage, cabin, hut, longhouse, residence, "
    "apartment, dwelling, skyscraper, tower, structure, construction, foundation, complex, block, room, "
    "roof, factory, warehouse, storehouse, depot, shed, garage, mall, hall, school, church, hospital, gym, "
    "gymnasium, station, facility, pavilion, dome, village, town, settlement, neighborhood, neighbourhood, "
    "community, residential area, residential district, residential community, residential building, "
    "living area, water tower",
    "construction site": "construction, construction site, building site, foundation",
    "road": "road, roadside, street, path, pathway, footpath, lane, highway, track, trail, way, bypass, "
    "branch, crossroad, crossing, intersection, junction, roundabout, traffic circle, t-junction, viaduct, "
    "overpass, flyover, bridge",
    "parking lot": "parking, parking lot, parking space, parking place, parking area, car park, cars park, "
    "vehicles park, trucks park, buses park",
    "car": "car, vehicle, truck, bus",
    "trees": "tree, wood, woods, forest, jungle, woodland, brushwood, brush, bush, shrub, plant, vegetation, "
    "greenery, oasis",
    "grass": "grass, lawn, meadow, grassland, pasture, moorland, moor, field, plant, vegetation, greenery, "
    "green space",
    "farmland": "farmland, farm, ranch, field, crop, cropland, orchard",
    "bare ground": "bareland, wasteland, desert, wilderness, land, ground, earth, soil, sand, clearing, "
    "space, field, floor, mound, bare area",
    "water": "water, lake, pond, river, riverside, reservoir, stream, creek, canal, cistern, pool, puddle",
    "pool": "pool, swimming pool",
    "playground": "playground, court, stadium, track, running track, playing field, football field, "
    "baseball field, basketball field, basketball court, tennis court, golf course, sports field, "
    "sports ground",
    "square": "square, plaza",
    "park": "park, garden, amusement park",
    "yard": "yard, courtyard, backyard, garden",
    "tank": "tank, storage tank, oil tank, container",
    "wharf": "wharf, dock, shore, bank",
}
"""Singular words of each class; two words are looked up before one ("car park" is not a park)."""

KINDS: Mapping[str, tuple[str, ...]] = {
    "building": ("building", "construction site"),
    "road": ("road",),
    "vegetation": ("trees", "grass", "farmland"),
}
"""Object classes of each kind of change; the others form :data:`OTHER_KIND`."""

OTHER_KIND = "other"


@cache
def _classes_of_words() -> dict[str, tuple[str, ...]]:
    table: dict[str, tuple[str, ...]] = {}
    for name, words in OBJECT_CLASSES.items():
        for word in words.split(", "):
            table[word] = (*table.get(word, ()), name)
    return table


def singulars(noun: str) -> list[str]:
    """Return a noun and its possible singulars."""
    ends = (("ies", "y"), ("ves", "f"), ("es", ""), ("s", ""))
    return [noun, *(noun.removesuffix(end) + new for end, new in ends if noun.endswith(end))]


def classes_of(term: str) -> tuple[str, ...]:
    """Return the classes of a noun, or of two words; empty if it names no object."""
    table = _classes_of_words()
    return next((table[form] for form in singulars(term) if form in table), ())


@dataclass(frozen=True)
class NamedObjects:
    """Objects that a caption names."""

    words: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def classes(self) -> frozenset[str]:
        """All possible classes of the words."""
        return frozenset(name for _, names in self.words for name in names)


def named_objects(captions: Iterable[str]) -> list[NamedObjects]:
    """Return the objects that each caption names."""
    return [objects_among(one.words) for one in extract_segments(captions)]


def objects_among(words: Sequence[tuple[str, bool]]) -> NamedObjects:
    """Return the objects named by a caption, given as (word, whether it is a noun) in order."""
    named: list[tuple[str, tuple[str, ...]]] = []
    place = len(words) - 1
    while place >= 0:  # from the end: in English the head of a compound comes last
        word, noun = words[place]
        both = f"{words[place - 1][0]} {word}" if place else ""
        if noun and both and (classes := classes_of(both)):
            named.append((both, classes))
            place -= 2
            continue
        if noun and (classes := classes_of(word)):
            named.append((word, classes))
        place -= 1
    return NamedObjects(tuple(reversed(named)))


def unnamed_by_references(caption: NamedObjects, references: Iterable[NamedObjects]) -> tuple[str, ...]:
    """Return the classes that a caption names and no reference does, each once.

    An ambiguous word counts, with its first class, only if the references name none of its classes.
    """
    named = frozenset[str]().union(*(one.classes for one in references))
    wrong = (classes[0] for _, classes in caption.words if named.isdisjoint(classes))
    return tuple(dict.fromkeys(wrong))


def unnamed_objects(captions: Sequence[str], references: Iterable[Sequence[str]]) -> list[tuple[str, ...]]:
    """Return :func:`unnamed_by_references` of each caption, given the references of its pair."""
    true = map(named_objects, references)
    return [unnamed_by_references(*one) for one in zip(named_objects(captions), true, strict=True)]


@dataclass(frozen=True)
class Hallucinations:
    """Frequency of captions with objects that no reference of their pair names.

    Attributes:
        by_class: number of captions that wrongly name a class, most frequent first.
    """

    captions: int
    wrong: int
    by_class: Mapping[str, int] = field(default_factory=dict)

    @property
    def rate(self) -> float | None:
        """Share of wrong captions in 0..1; None without captions."""
        return self.wrong / self.captions if self.captions else None

    def as_dict(self) -> dict[str, object]:
        """Return plain values for JSON."""
        counts = {"captions": self.captions, "wrong": self.wrong, "rate": self.rate}
        return {**counts, "by_class": dict(self.by_class)}


def count_hallucinations(wrong: Iterable[tuple[str, ...]]) -> Hallucinations:
    """Count the results of :func:`unnamed_by_references` for captions of pairs predicted as changed."""
    objects = list(wrong)
    counts = Counter(name for classes in objects for name in classes)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return Hallucinations(len(objects), sum(map(bool, objects)), dict(ordered))


def kinds_of_change(references: Sequence[str]) -> tuple[str, ...]:
    """Return the kinds of change in the references of a changed pair.

    A pair is of a kind if an object of that kind is the subject of at least two of its references (of one, if
    it has only one): "a road is built", not "houses are built along the road". All other pairs are of
    :data:`OTHER_KIND`.
    """
    kind_of = {name: kind for kind, names in KINDS.items() for name in names}
    counts: Counter[str] = Counter()
    for phrases in subjects(references):
        named = [objects_among([(word, True) for word in phrase.split()]) for phrase in phrases]
        kinds = {kind_of.get(classes[0], OTHER_KIND) for one in named for _, classes in one.words}
        counts.update(kinds)
    least = min(2, len(references))
    frequent = [kind for kind in (*KINDS, OTHER_KIND) if counts[kind] >= least]
    return tuple(frequent) or (OTHER_KIND,)

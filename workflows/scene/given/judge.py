"""From given outlines to changes, by the maps of our own network, and the words about what is not judged.

An outline of which our network sees most as changed is that of its objects. One of which it sees less is a
frame around them: its objects, and the ground that its facts are measured on, are the outlines of our own
that lie in it. An outline without any of these is one object, as its author says.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import compress

import numpy as np
import shapely
from shapely.geometry import MultiPolygon

from rscc.structures import Caption
from rscc.text.change_facts import SOMETHING
from tiling import ChangeRegion, Window, geodesic_area_m2, group_regions
from workflows.options import SceneOptions
from workflows.printable import counted
from workflows.report.change import GIVEN, SEEN
from workflows.report.scenes import in_pixels
from workflows.scene.evidence import familiarities
from workflows.scene.found import Changes, FoundChange, Outline, in_order, large, touching
from workflows.scene.given.layer import Given, GivenLayer, GivenOutline, PlainValue
from workflows.scene.maps import ChangeMaps
from workflows.scene.outline import outlines_of
from workflows.scene.pixels import clipped, rasterize_outlines, window_around
from workflows.scene.visibility.layer import HIDDEN_BY

OUTSIDE, TOO_LARGE = "outside the scenes", "too large"
LARGEST = 4096**2
"""Pixels of the box around an outline that is judged; a larger one is not."""
LEAST_JUDGED = 0.5
"""Share of the pixels of an outline on which both dates must show the ground."""
INSIDE = 0.5
"""Share of an outline of our own that must lie in a given one to be an object of it."""


def given_changes(
    outlines: Sequence[GivenOutline],
    own: Sequence[ChangeRegion],
    maps: ChangeMaps,
    options: SceneOptions,
) -> Changes:
    """Return given outlines as changes, in order from north to south.

    They are grouped only where ``options.group_distance`` asks for it, and left out only where
    ``options.min_area`` or a box does. Those that cannot be judged stay and say why (``given.not_judged``).

    Args:
        own: the regions that :func:`workflows.scene.outline.outline` makes of the same maps.
    """
    threshold = maps.about["settings"]["threshold"] if options.threshold is None else options.threshold
    judged = [
        _judged(outline, pixels, maps, threshold)
        for outline, pixels in zip(
            outlines, in_pixels([outline.geometry for outline in outlines], maps.frame), strict=True
        )
    ]
    found = _grouped(_framed(judged, own, maps, options), options.group_distance or 0.0, maps)
    found = _with_familiarity(found, maps)
    if options.box is not None:
        found = list(compress(found, touching(found, maps.frame.focus)))
    return Changes(in_order(large(found, options)), [])


def reason_of(change: FoundChange) -> str | None:
    """Return why a change is not judged; None where it is."""
    return None if change.given is None else change.given.not_judged


def _judged(outline: GivenOutline, pixels: MultiPolygon, maps: ChangeMaps, threshold: float) -> FoundChange:
    """Return a given outline as a change, with what the change probability says of it."""
    area = maps.area
    inside = clipped(pixels, area.bounds)
    given = Given(outline.source_id, outline.attributes)
    if inside.is_empty:
        return _change(outline, pixels, replace(given, not_judged=OUTSIDE))
    window = window_around(inside).intersection(area)
    if window.width * window.height > LARGEST:
        return _change(outline, inside, replace(given, not_judged=TOO_LARGE))
    mask = _mask(inside, window)
    probability = maps.pixels(window)[mask]
    known = probability[~np.isnan(probability)]
    seen = len(known) / mask.sum() * inside.area / pixels.area
    is_cut = bool(seen < 1 - 1e-6)  # a part lies outside of the scenes, or has no data
    if seen < LEAST_JUDGED:
        given = replace(given, not_judged=_hidden_by(maps, window, mask))
        return _change(outline, inside, given, is_cut=is_cut)
    given = replace(given, supported=float((known >= threshold).mean()))
    return _change(outline, inside, given, float(known.mean()), int(mask.sum()), is_cut=is_cut)


def _change(
    outline: GivenOutline,
    pixels: MultiPolygon,
    given: Given,
    probability: float = 0.0,
    area_px: int = 1,
    *,
    is_cut: bool = False,
) -> FoundChange:
    region = ChangeRegion(pixels, pixels, probability, area_px)
    area = geodesic_area_m2(outline.geometry)
    return FoundChange((Outline(region, outline.geometry, area, GIVEN),), cut_by_edge=is_cut, given=given)


def _mask(outline: MultiPolygon, window: Window) -> np.ndarray:
    """Return the pixels whose centres lie in an outline; of one between them those that it touches."""
    mask = rasterize_outlines([outline], window, all_touched=False)
    return mask if mask.any() else rasterize_outlines([outline], window)


def _hidden_by(maps: ChangeMaps, window: Window, mask: np.ndarray) -> str:
    """Return what hides most of an outline; outside where nothing does."""
    classes = maps.seen.classes(window)[:, mask].max(axis=0)
    counts = np.bincount(classes, minlength=len(HIDDEN_BY))
    counts[0] = 0
    return HIDDEN_BY[counts.argmax()] or OUTSIDE


def _framed(
    changes: Sequence[FoundChange],
    own: Sequence[ChangeRegion],
    maps: ChangeMaps,
    options: SceneOptions,
) -> Iterator[FoundChange]:
    """Yield changes, those that are frames with the objects in them."""
    grid = maps.frame.grid
    tree = shapely.STRtree([region.pixel_polygon for region in own])
    for change in changes:
        given = change.given
        assert given is not None
        if given.supported is None or given.supported >= SEEN:
            yield change
            continue
        near = np.sort(tree.query(change.pixels, predicate="intersects"))
        shapes = [own[number].pixel_polygon for number in near]
        inside = [shape.intersection(change.pixels).area >= INSIDE * shape.area for shape in shapes]
        regions = [own[number] for number in compress(near, inside)]
        objects = outlines_of(regions, grid, options.smallest_outline_for(grid.gsd))
        (outline,) = change.outlines
        yield replace(change, outlines=(replace(outline, objects=tuple(objects)),)) if objects else change


def _grouped(changes: Iterator[FoundChange], metres: float, maps: ChangeMaps) -> list[FoundChange]:
    """Return changes, those that are judged and at most so many metres apart as one."""
    every = list(changes)
    if metres <= 0:
        return every
    judged = [change for change in every if reason_of(change) is None]
    groups = group_regions([change.outlines[0].region for change in judged], metres / maps.frame.grid.gsd)
    joined = [_joined([judged[number] for number in numbers]) for numbers in groups]
    return [*joined, *(change for change in every if reason_of(change) is not None)]


def _joined(changes: Sequence[FoundChange]) -> FoundChange:
    """Return changes as one; attributes in which they differ are joined as texts."""
    if len(changes) == 1:
        return changes[0]
    every = [change.given for change in changes if change.given is not None]
    names = dict.fromkeys(name for given in every for name in given.attributes)
    weights = [change.outlines[0].region.area_px for change in changes]
    given = Given(
        _as_text([one.source_id for one in every]),
        {name: _as_one([one.attributes.get(name) for one in every]) for name in names},
        supported=float(np.average([one.supported or 0.0 for one in every], weights=weights)),
    )
    outlines = tuple(outline for change in changes for outline in change.outlines)
    is_cut = any(change.cut_by_edge for change in changes)
    return FoundChange(outlines, cut_by_edge=is_cut, given=given)


def _as_one(values: Sequence[PlainValue]) -> PlainValue:
    known = list(dict.fromkeys(value for value in values if value is not None))
    return known[0] if len(known) == 1 else _as_text(values)


def _as_text(values: Sequence[PlainValue]) -> str | None:
    return "; ".join(dict.fromkeys(str(value) for value in values if value is not None)) or None


def _with_familiarity(changes: Sequence[FoundChange], maps: ChangeMaps) -> list[FoundChange]:
    judged = [change for change in changes if reason_of(change) is None]
    measured = iter(familiarities([change.pixels for change in judged], maps))
    return [
        change if reason_of(change) is not None else replace(change, familiarity=next(measured))
        for change in changes
    ]


NOTHING = "No change was recognised"
"""The sentence about a given outline in which too little is seen as changed, and no fact is sure."""
REASONS = {
    "outside the scenes": "Not judged: it lies outside of the ground that both scenes show",
    "fill": "Not judged: it has no data on one date or the other",
    "cloud": "Not judged: it is under cloud",
    "shadow": "Not judged: it is in the shadow of clouds",
    "haze": "Not judged: it is under haze",
    "too large": "Not judged: it is too large to be described as one change",
}
"""Sentences by the reason why an outline is not judged."""


def judged_of(changes: Changes) -> Changes:
    """Return the changes about which facts can be known."""
    return Changes([change for change in changes.found if reason_of(change) is None], changes.others)


def with_unjudged(changes: Changes, captions: Sequence[Caption]) -> list[Caption]:
    """Return the caption of every change; ``captions`` are of those of :func:`judged_of`, in their order."""
    known = iter(captions)
    return [
        _where_unseen(change, next(known))
        if (reason := reason_of(change)) is None
        else Caption(REASONS[reason], 0.0, False)
        for change in changes.found
    ]


def unjudged_warnings(changes: Changes, layer: GivenLayer | None) -> list[str]:
    """Return a line for each reason why given outlines are not judged, with their number."""
    reasons = Counter(filter(None, map(reason_of, changes.found)))
    name = "" if layer is None else layer.name
    return [
        f"{name}: {counted(number, 'outline')} not judged: {reason}" for reason, number in reasons.items()
    ]


def _where_unseen(change: FoundChange, caption: Caption) -> Caption:
    """Return a caption that claims no change that neither our map nor a fact shows."""
    if caption.text != SOMETHING or change.given is None or change.is_seen:
        return caption
    return replace(caption, text=NOTHING, alternatives=(), changed=False)
